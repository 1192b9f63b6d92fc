package httpapi

import (
	"encoding/binary"

	"shoal/internal/core"
)

// frames is the media type of a stream of an exec as frames: four bytes of length, then a frame of which the first byte
// says what follows.
const frames = "application/vnd.shoal.frames"

// What a frame holds. Those of an attached WebSocket have no frameMessage: that is a text frame there.
const (
	frameMessage = 0
	frameStdout  = 1
	frameStderr  = 2
)

func isOutput(m core.ExecMessage) bool { return m.Kind == core.ExecStdout || m.Kind == core.ExecStderr }

// appendOutput appends a frame of output: one byte for the stream, eight for the offset, then the data.
func appendOutput(frame []byte, m core.ExecMessage) []byte {
	stream := byte(frameStdout)
	if m.Kind == core.ExecStderr {
		stream = frameStderr
	}
	frame = append(frame, stream)
	frame = binary.BigEndian.AppendUint64(frame, uint64(max(m.Offset, 0)))
	return append(frame, m.Data...)
}

const lengthSize = 4

// lengthRoom empties a buffer and leaves room for a frame's length, which withLength fills in.
func lengthRoom(buf []byte) []byte { return append(buf[:0], make([]byte, lengthSize)...) }

func withLength(buf []byte) []byte {
	binary.BigEndian.PutUint32(buf, uint32(len(buf)-lengthSize))
	return buf
}
