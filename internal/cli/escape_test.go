package cli

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEscapes(t *testing.T) {
	for _, tt := range []struct {
		name, typed, want string
		left              bool
		helped            int
	}{
		{"nothing special", "ls -l\r", "ls -l\r", false, 0},
		{"at once", "~.rest", "", true, 0},
		{"after Enter", "ls\r~.rest", "ls\r", true, 0},
		{"not within a line", "ls ~.\r", "ls ~.\r", false, 0},
		{"a home directory", "\r~/bin\r", "\r~/bin\r", false, 0},
		{"a tilde", "\r~~.\r", "\r~.\r", false, 0},
		{"help keeps the line's start", "\r~?~?~.", "\r", true, 2},
		{"after another key it is no start", "~a~.", "~a~.", false, 0},
		{"Enter after a tilde starts a line", "~\r~.", "~\r", true, 0},
		{"UTF-8", "é\r~é", "é\r~é", false, 0},
	} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "key by key": iotest.OneByteReader, "with its end": iotest.DataErrReader,
		} {
			helped := 0
			got, err := io.ReadAll(newEscapes(wrap(strings.NewReader(tt.typed)), func() { helped++ }))
			if string(got) != tt.want || errors.Is(err, errLeft) != tt.left || helped != tt.helped || (err != nil) != tt.left {
				t.Errorf("%s, %s: %q, %v, help %d; want %q, left %t, help %d", tt.name, how, got, err, helped, tt.want, tt.left, tt.helped)
			}
		}
	}
}
