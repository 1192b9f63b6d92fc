package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestGatherInput holds that input that is there goes in few calls and arrives whole.
func TestGatherInput(t *testing.T) {
	const size = 4 << 20
	sent := []byte(strings.Repeat("0123456789abcde\n", size/16))
	pieces := make(chan []byte, size/inputPiece+1)
	if err := readAhead(t.Context(), bytes.NewReader(sent), pieces); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	var got []byte
	calls := 0
	for data, more := gather(t.Context(), pieces, nil); more; data, more = gather(t.Context(), pieces, data) {
		got = append(got, data...)
		calls++
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes arrived of %d", len(got), len(sent))
	}
	if calls > size/(inputAhead*inputPiece)+1 {
		t.Errorf("%d MiB took %d calls", size>>20, calls)
	}
}

// TestGatherInputAtOnce holds that a key press waits for no other, and that the end of a context ends both sides.
func TestGatherInputAtOnce(t *testing.T) {
	pieces := make(chan []byte, 1)
	pieces <- []byte("k")
	if data, more := gather(t.Context(), pieces, nil); string(data) != "k" || !more {
		t.Errorf("got %q, %v", data, more)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if data, more := gather(ctx, pieces, nil); len(data) != 0 || more {
		t.Errorf("got %q, %v", data, more)
	}
	if err := readAhead(ctx, strings.NewReader("x"), make(chan []byte)); !errors.Is(err, context.Canceled) {
		t.Errorf("readAhead: %v", err)
	}
	if err := readAhead(t.Context(), iotest.ErrReader(io.ErrClosedPipe), make(chan []byte)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("readAhead: %v", err)
	}
}
