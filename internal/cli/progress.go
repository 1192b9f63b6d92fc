package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress shows one line that changes, on a terminal; elsewhere a line whenever the step changes, and a sign of life now
// and then.
type progress struct {
	w        io.Writer
	terminal bool
	last     string
	lastAt   time.Time
	shown    bool
}

func newProgress(w io.Writer) *progress { return &progress{w: w, terminal: isTerminal(w)} }

// quiet is how long a log stays silent about a step that goes on.
const quiet = 30 * time.Second

// show says what is going on.
func (p *progress) show(step, detail string) {
	line := strings.TrimRight(printable(step)+" "+printable(detail), " ")
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K"+line)
		p.shown = true
		return
	}
	if now := time.Now(); step != p.last || now.Sub(p.lastAt) >= quiet {
		fmt.Fprintln(p.w, line)
		p.last, p.lastAt = step, now
	}
}

// clear takes the line away.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
