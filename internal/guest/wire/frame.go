package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// FrameType says what a frame's payload is.
type FrameType uint8

// The frame types.
const (
	// FrameRequest begins an operation: JSON, an Envelope.
	FrameRequest FrameType = 1
	// FrameReply answers an operation, or lets its data begin: JSON, the operation's own reply.
	FrameReply FrameType = 2
	// FrameError ends an operation that did not succeed: JSON, a Fault.
	FrameError FrameType = 3
	// FrameData is raw bytes of a file, of a process's input or of a port.
	FrameData FrameType = 4
	// FrameEnd says that its sender has no more data; it has no payload.
	FrameEnd FrameType = 5
	// FrameStarted is the first frame of an exec stream: JSON, an ExecInfo.
	FrameStarted FrameType = 6
	// FrameStdout and FrameStderr are output: the offset of the first byte (8 bytes, big endian), then the bytes.
	FrameStdout FrameType = 7
	FrameStderr FrameType = 8
	// FrameGap says that output is no longer kept: offset and number of missing bytes (8 bytes each, big endian).
	FrameGap FrameType = 9
	// FrameEnded is the last frame of an exec stream: JSON, an ExecInfo.
	FrameEnded FrameType = 10
	// FrameHeartbeat says that its sender lives; it has no payload and is ignored wherever it comes.
	FrameHeartbeat FrameType = 11
	// FrameChanges is what happened to files that are watched: JSON, a FileEvents. It is since version 3.
	FrameChanges FrameType = 12
)

const (
	// MaxPayload is the largest payload of a frame.
	MaxPayload = 1 << 20
	// DataChunk is how much data a sender puts in one frame.
	DataChunk = 128 << 10

	headerSize = 5
	keepBuffer = DataChunk + headerSize + 64
)

// ErrMalformed is the cause of every error that a peer's bytes make by themselves.
var ErrMalformed = errors.New("malformed frame")

// Frame is one message of the connection. Payload is valid until the second call of Next after the one that
// returned it.
type Frame struct {
	Type    FrameType
	Payload []byte
}

// Reader reads one peer's preamble and frames. A read that fails with a timeout can be tried again: no byte is lost.
// It is for one goroutine.
type Reader struct {
	br *bufio.Reader
	// version is what the peer's preamble said; zero until it was read.
	version uint16
	// bufs take turns, so that a frame can be handed over while the next is read.
	bufs [2][]byte
	turn int
	// inFrame says that a header was read whose payload is incomplete.
	inFrame bool
	kind    FrameType
	need    int
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{br: bufio.NewReaderSize(r, 16<<10)} }

// Version returns the protocol version that the peer speaks, zero before its first frame has come.
func (r *Reader) Version() uint16 { return r.version }

// Buffered reports whether bytes have been received that no frame has returned yet.
func (r *Reader) Buffered() bool { return r.inFrame || r.br.Buffered() > 0 }

// Next returns the next frame. It returns io.EOF if the peer closed between two frames, and an error that wraps
// ErrMalformed for bytes that are no frame; the connection is of no use then.
func (r *Reader) Next() (Frame, error) {
	if r.version == 0 {
		if err := r.readPreamble(); err != nil {
			return Frame{}, err
		}
	}
	if !r.inFrame {
		if err := r.readHeader(); err != nil {
			return Frame{}, err
		}
	}
	if r.need == 0 {
		// It takes no turn: the frame before a heartbeat is still being used while the one behind it is read.
		r.inFrame = false
		return Frame{Type: r.kind}, nil
	}
	buf := r.bufs[r.turn]
	for len(buf) < r.need {
		// The buffer grows with what has come, not with what a header announced.
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(r.need, max(2*len(buf), 32<<10)))
			copy(grown, buf)
			buf = grown
		}
		n, err := r.br.Read(buf[len(buf):min(cap(buf), r.need)])
		buf = buf[:len(buf)+n]
		r.bufs[r.turn] = buf
		if err != nil && len(buf) < r.need {
			return Frame{}, unexpected(err)
		}
	}
	r.inFrame = false
	payload := buf[:r.need:r.need]
	r.turn = 1 - r.turn
	if next := r.bufs[r.turn]; cap(next) > keepBuffer {
		r.bufs[r.turn] = nil
	} else {
		r.bufs[r.turn] = next[:0]
	}
	return Frame{Type: r.kind, Payload: payload}, nil
}

func (r *Reader) readPreamble() error {
	b, err := r.br.Peek(preambleSize)
	if err != nil {
		if len(b) > 0 {
			return unexpected(err)
		}
		return err
	}
	v, err := parsePreamble(b)
	if err != nil {
		return err
	}
	r.version = v
	_, err = r.br.Discard(preambleSize)
	return err
}

func (r *Reader) readHeader() error {
	h, err := r.br.Peek(headerSize)
	if err != nil {
		if len(h) > 0 {
			return unexpected(err)
		}
		return err
	}
	kind, size := FrameType(h[0]), binary.BigEndian.Uint32(h[1:])
	if kind < FrameRequest || kind > FrameChanges {
		return fmt.Errorf("%w: unknown type %d", ErrMalformed, kind)
	}
	if size > MaxPayload {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrMalformed, size, MaxPayload)
	}
	if size > 0 && (kind == FrameEnd || kind == FrameHeartbeat) {
		return fmt.Errorf("%w: type %d has a payload", ErrMalformed, kind)
	}
	r.kind, r.need, r.inFrame = kind, int(size), true
	_, err = r.br.Discard(headerSize)
	return err
}

// unexpected turns an EOF inside a frame into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Writer writes a preamble and frames, each with one Write. It is safe for use by many goroutines.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
	// greeted says that the preamble has been sent: it goes out with the first frame.
	greeted bool
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write sends one frame whose payload is the parts one after the other.
func (w *Writer) Write(t FrameType, parts ...[]byte) error {
	return w.WriteAll(Part{t, parts})
}

// Part is one frame of WriteAll.
type Part struct {
	Type    FrameType
	Payload [][]byte
}

// WriteAll sends frames with one Write.
func (w *Writer) WriteAll(frames ...Part) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.buf[:0]
	if !w.greeted {
		b = appendPreamble(b)
	}
	for _, f := range frames {
		size := 0
		for _, p := range f.Payload {
			size += len(p)
		}
		if size > MaxPayload {
			return fmt.Errorf("write frame: %d bytes, at most %d are allowed", size, MaxPayload)
		}
		b = append(b, byte(f.Type))
		b = binary.BigEndian.AppendUint32(b, uint32(size))
		for _, p := range f.Payload {
			b = append(b, p...)
		}
	}
	if cap(b) <= keepBuffer {
		w.buf = b
	}
	w.greeted = true
	if _, err := w.w.Write(b); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}
