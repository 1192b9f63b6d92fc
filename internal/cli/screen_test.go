package cli

import (
	"bytes"
	"testing"
)

func TestScreen(t *testing.T) {
	const end = "\x1b[m\x0f"
	for _, tt := range []struct{ name, output, want string }{
		{"nothing to put back", "hello\r\n\x1b[31mred", end},
		{"an editor", "\x1b[?1049h\x1b[?25l\x1b[?1;2004h", "\x1b[?1l\x1b[?25h\x1b[?1049l\x1b[?2004l" + end},
		{"an editor that ended", "\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l", end},
		{"the mouse", "\x1b[?1000;1006h", "\x1b[?1000l\x1b[?1006l" + end},
		{"a full reset", "\x1b[?1049h\x1bc", end},
		{"modes that are nobody's business", "\x1b[?12h\x1b[?99999999999999999999h\x1b[4h", end},
		{"broken off", "\x1b[?10", end},
		{"begun again", "\x1b[?10\x1b[?1049h", "\x1b[?1049l" + end},
		{"too many at once", "\x1b[?1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1049h", end},
	} {
		var whole, split bytes.Buffer
		a, b := newScreen(&whole), newScreen(&split)
		write := func(s *screen, p []byte) {
			if n, err := s.Write(p); n != len(p) || err != nil {
				t.Fatalf("write: %d %v", n, err)
			}
		}
		write(a, []byte(tt.output))
		for i := range tt.output {
			write(b, []byte{tt.output[i]})
		}
		for how, got := range map[string]*bytes.Buffer{"whole": &whole, "split": &split} {
			if got.String() != tt.output {
				t.Errorf("%s, %s: passed on %q", tt.name, how, got)
			}
			got.Reset()
		}
		a.restore()
		b.restore()
		if whole.String() != tt.want || split.String() != tt.want {
			t.Errorf("%s: %q and %q, want %q", tt.name, &whole, &split, tt.want)
		}
		whole.Reset()
		if a.restore(); whole.String() != end {
			t.Errorf("%s: put back twice: %q", tt.name, &whole)
		}
	}
}

func TestAfterBreak(t *testing.T) {
	for in, want := range map[string]string{
		"ial line\r\nnext": "next", "gress 10%\rprogress 11%": "progress 11%", "31m\x1b[mok": "\x1b[mok", "no break": "no break", "": "",
	} {
		if got := string(afterBreak([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
