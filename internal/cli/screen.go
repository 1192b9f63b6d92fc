package cli

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
)

// screen passes a terminal's output on and remembers which modes the programs inside have switched on, so that they can be
// switched off when a program had no chance to do it: its sandbox died, or the person left.
//
// It knows the private modes of ECMA-48 terminals (CSI ? … h and l) as xterm documents them, and of those only the ones that
// leave a shell hard to use.
type screen struct {
	w io.Writer
	// changed are the modes that are not as a shell wants them.
	changed map[int]bool
	// state is where in a control sequence the output is; mode and modes are its numbers so far.
	state screenState
	mode  int
	modes []int
}

type screenState int

const (
	screenText screenState = iota
	screenEscape
	screenControl
	screenPrivate
)

// shellWants says how a shell wants a mode to be, of the modes that are put back.
func shellWants(mode int) (on, known bool) {
	switch mode {
	case 7, 25: // wrapping, cursor
		return true, true
	case 1, 47, 1047, 1049, 2004, 2026: // application cursor keys, other screen, bracketed paste, held output
		return false, true
	case 9, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016: // mouse and focus
		return false, true
	}
	return false, false
}

const (
	// maxScreenMode and maxScreenModes bound what a hostile program can make us keep.
	maxScreenMode  = 9999
	maxScreenModes = 16
)

func newScreen(w io.Writer) *screen { return &screen{w: w, changed: map[int]bool{}} }

// Write passes output on.
func (s *screen) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if s.state == screenText {
			i := bytes.IndexByte(rest, 0x1b)
			if i < 0 {
				break
			}
			s.state, rest = screenEscape, rest[i+1:]
			continue
		}
		s.step(rest[0])
		rest = rest[1:]
	}
	return s.w.Write(p) //nolint:wrapcheck // As if it were the terminal itself.
}

// step takes one byte of a control sequence.
func (s *screen) step(b byte) {
	switch {
	case b == 0x1b:
		s.state = screenEscape
	case s.state == screenEscape && b == '[':
		s.state = screenControl
	case s.state == screenEscape && b == 'c': // a full reset
		clear(s.changed)
		s.state = screenText
	case s.state == screenControl && b == '?':
		s.state, s.mode, s.modes = screenPrivate, 0, s.modes[:0]
	case s.state == screenPrivate && b >= '0' && b <= '9':
		s.mode = min(s.mode*10+int(b-'0'), maxScreenMode+1)
	case s.state == screenPrivate && b == ';' && len(s.modes) < maxScreenModes:
		s.modes, s.mode = append(s.modes, s.mode), 0
	case s.state == screenPrivate && (b == 'h' || b == 'l'):
		s.modes = append(s.modes, s.mode)
		for _, m := range s.modes {
			s.set(m, b == 'h')
		}
		s.state = screenText
	default:
		s.state = screenText
	}
}

func (s *screen) set(mode int, on bool) {
	if wanted, known := shellWants(mode); known && on != wanted {
		s.changed[mode] = true
		return
	}
	delete(s.changed, mode)
}

// restore puts the terminal's modes back to what a shell expects, in the order of their numbers: so the ordinary screen, which
// holds what was there before, comes back after what belonged to the other one.
func (s *screen) restore() {
	var out bytes.Buffer
	for _, mode := range slices.Sorted(maps.Keys(s.changed)) {
		verb := 'l'
		if on, _ := shellWants(mode); on {
			verb = 'h'
		}
		fmt.Fprintf(&out, "\x1b[?%d%c", mode, verb)
	}
	clear(s.changed)
	// Colours and line drawing end in any case.
	out.WriteString("\x1b[m\x0f")
	_, _ = s.w.Write(out.Bytes()) // A terminal that is gone needs no modes.
}
