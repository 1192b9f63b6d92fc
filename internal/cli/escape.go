package cli

import (
	"errors"
	"io"
)

// errLeft says that the person left a process that goes on.
var errLeft = errors.New("left")

// escapeHelp is what ~? prints.
const escapeHelp = `~.  leave; the process goes on
~?  this list
~~  a ~
They are known after Enter only.`

// escapes reads what is typed on a terminal and takes out what is meant for this program: after Enter, ~ and one more key,
// as in ssh. So nothing that a program inside may want is lost to it but a ~ at the start of a line, which ~~ types.
type escapes struct {
	in io.Reader
	// help is called for ~?.
	help func()
	// start says that the last byte passed on ended a line, or that there was none; tilde that a ~ is being held back.
	start, tilde bool
	left         bool
}

func newEscapes(in io.Reader, help func()) *escapes { return &escapes{in: in, help: help, start: true} }

// Read returns input for the process, and errLeft once the person has left.
func (e *escapes) Read(p []byte) (int, error) {
	// A ~ that was held back and turns out to be input comes before what was read after it.
	if len(p) < 2 {
		return 0, io.ErrShortBuffer
	}
	for {
		n, err := e.in.Read(p[1:])
		n = e.filter(p, n)
		if e.left {
			return n, errLeft
		}
		if n > 0 || err != nil {
			return n, err //nolint:wrapcheck // A filter says what its reader says.
		}
	}
}

// filter moves the input in p[1:1+n] to the start of p, without what was meant for us.
func (e *escapes) filter(p []byte, n int) int {
	out := 0
	put := func(b byte) {
		p[out] = b
		out++
		e.start = b == '\r' || b == '\n'
	}
	for _, b := range p[1 : 1+n] {
		switch {
		case !e.tilde && e.start && b == '~':
			e.tilde = true
		case !e.tilde:
			put(b)
		default:
			e.tilde = false
			switch b {
			case '.':
				e.left = true
				return out
			case '?':
				e.help()
			case '~':
				put('~')
			default:
				put('~')
				put(b)
			}
		}
	}
	return out
}
