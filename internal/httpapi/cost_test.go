package httpapi

import (
	"bytes"
	"net/http/httptest"
	"testing"

	"shoal/internal/core"
)

// TestCostOfOutput bounds what a MiB of output costs in bytes to the client, joined as httpserve.Follow does. Text that escapes swell
// is many times that.
func TestCostOfOutput(t *testing.T) {
	const size, joined = 1 << 20, 256 << 10
	noise := make([]byte, joined)
	for i := range noise {
		noise[i] = byte(i*7 + 128)
	}
	for name, tt := range map[string]struct {
		data   []byte
		framed bool
		most   int
	}{
		"zeros as frames": {make([]byte, joined), true, size * 101 / 100}, "zeros as lines": {make([]byte, joined), false, size * 137 / 100},
		"noise as frames": {noise, true, size * 101 / 100}, "noise as lines": {noise, false, size * 137 / 100},
		"text as lines": {bytes.Repeat([]byte("words \n"), joined/7), false, size * 120 / 100},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			out := &execReply{framed: tt.framed, lineWriter: (&API{}).lines(w)}
			for i := range size / joined {
				if err := out.message(core.ExecMessage{Kind: core.ExecStdout, Offset: int64(i * joined), Data: tt.data}); err != nil {
					t.Fatal(err)
				}
			}
			if w.Body.Len() > tt.most {
				t.Errorf("%d bytes for %d", w.Body.Len(), size)
			}
		})
	}
}
