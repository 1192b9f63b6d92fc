package cli

import (
	"bytes"
	"context"
	"io"
)

const (
	inputPiece = 64 << 10
	// inputAhead is how many pieces are read while the ones before are on their way.
	inputAhead = 8
)

// readAhead hands over what it reads from in to its end, or until ctx ends, closes pieces and returns why it ended.
func readAhead(ctx context.Context, in io.Reader, pieces chan<- []byte) error {
	defer close(pieces)
	buf := make([]byte, inputPiece)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			select {
			case pieces <- bytes.Clone(buf[:n]):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			return err //nolint:wrapcheck // The end of the input is for the caller to know.
		}
	}
}

// gather waits for input and returns all that is ready, in room if that is large enough: input that comes fast goes in few
// large calls, and a key press at once. more is false at the end.
func gather(ctx context.Context, pieces <-chan []byte, room []byte) (data []byte, more bool) {
	data = room[:0]
	select {
	case piece, ok := <-pieces:
		if !ok {
			return data, false
		}
		data = append(data, piece...)
	case <-ctx.Done():
		return data, false
	}
	for len(data) <= (inputAhead-1)*inputPiece {
		select {
		case piece, ok := <-pieces:
			if !ok {
				return data, true // The next call finds it closed.
			}
			data = append(data, piece...)
		default:
			return data, true
		}
	}
	return data, true
}
