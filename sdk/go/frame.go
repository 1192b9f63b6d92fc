package shoal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"shoal/api"
)

// framesType is the media type of an exec's stream as frames, which carry output as it is.
const framesType = "application/vnd.shoal.frames"

const (
	// maxFrame bounds a frame from the server: output comes in smaller ones.
	maxFrame = 8 << 20
	// frameHeader is the length of what precedes the data in a frame of output: stream and offset.
	frameHeader = 9
)

// readFrame reads the next frame: its length, then the frame, of which the first byte says what follows.
func readFrame(r io.Reader) (ExecMessage, error) {
	var m ExecMessage
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return m, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size == 0 || size > maxFrame {
		return m, &Error{Code: CodeInternal, Message: fmt.Sprintf("a frame of the stream has %d bytes", size)}
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(r, frame); err != nil {
		return m, err
	}
	if frame[0] != 0 {
		return outputFrame(frame)
	}
	if err := json.Unmarshal(frame[1:], &m); err != nil {
		return m, &Error{Code: CodeInternal, Message: "a frame of the stream is not understood", Err: err}
	}
	return m, nil
}

// outputFrame decodes a binary frame.
func outputFrame(data []byte) (ExecMessage, error) {
	if len(data) < frameHeader || (data[0] != 1 && data[0] != 2) {
		return ExecMessage{}, &Error{Code: CodeInternal, Message: "a frame of the stream is not understood"}
	}
	m := ExecMessage{Type: api.ExecMessageTypeStdout}
	if data[0] == 2 {
		m.Type = api.ExecMessageTypeStderr
	}
	offset := int64(binary.BigEndian.Uint64(data[1:frameHeader]))
	m.Offset = &offset
	m.Data, m.DataRaw = api.Text(data[frameHeader:])
	return m, nil
}
