package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	shoal "shoal/sdk/go"
)

// mapReport says what came of the items: while they run, and at last in a table.
type mapReport struct {
	*app
	dir     string
	total   int
	started atomic.Int64
	show    *progress
	results []mapResult
	failed  int
	// broken is why results can't be printed any more.
	broken error
}

func newMapReport(m *mapper, total int) *mapReport {
	return &mapReport{app: m.app, dir: m.flags.dir, total: total, show: newProgress(m.err)}
}

// begun counts an item that is started. Any goroutine may call it.
func (r *mapReport) begun() { r.started.Add(1) }

// add takes the result of an item.
func (r *mapReport) add(res mapResult) {
	if !res.ok() {
		r.failed++
	}
	r.show.clear()
	switch {
	case r.json():
		res.Stdout, res.StdoutRaw = shoal.Text(res.out.text())
		res.Stderr, res.StderrRaw = shoal.Text(res.err.text())
		r.print(func() error { return r.printLine(res) })
	case r.dir == "":
		r.print(func() error { _, err := r.out.Write(res.out.text()); return err })
		_, _ = r.err.Write(res.err.text())
		if res.Truncated {
			fmt.Fprintf(r.err, "shoal: number %d wrote more, which --dir would keep\n", res.Index)
		}
	}
	// What was printed is not needed any more.
	res.Stdout, res.StdoutRaw, res.Stderr, res.StderrRaw, res.out, res.err = "", nil, "", nil, sink{}, sink{}
	r.results = append(r.results, res)
	if done := len(r.results); done < r.total && r.show.terminal {
		text := fmt.Sprintf("%d of %d done, %d running", done, r.total, int(r.started.Load())-done)
		if r.failed > 0 {
			text += fmt.Sprintf(", %d failed", r.failed)
		}
		r.show.show(text, "")
	}
}

func (r *mapReport) print(do func() error) {
	if r.broken == nil {
		r.broken = do()
	}
}

// finish prints the table, unless the results were printed as objects.
func (r *mapReport) finish() error {
	r.show.clear()
	if r.json() {
		return r.broken
	}
	to := r.err
	if r.dir != "" {
		to = r.out
	}
	slices.SortFunc(r.results, func(a, b mapResult) int { return a.Index - b.Index })
	t := newTable(to, "INDEX", "ITEM", "OUTCOME", "EXIT", "DURATION", "OUTPUT", "NOTE")
	for _, res := range r.results {
		exit := ""
		if res.ExitCode != nil {
			exit = strconv.Itoa(*res.ExitCode)
		}
		outcome := res.Outcome
		if res.Signal != "" {
			outcome = res.Signal
		}
		note := firstLine(res.Message)
		if res.Tries > 1 {
			note = strings.TrimSpace(fmt.Sprintf("%d tries %s", res.Tries, note))
		}
		t.row(strconv.Itoa(res.Index), clipText(res.Item, 40), outcome, exit,
			duration(time.Duration(res.DurationMs)*time.Millisecond), bytesText(res.StdoutBytes+res.StderrBytes), note)
	}
	if err := t.flush(); err != nil {
		return err
	}
	ok := len(r.results) - r.failed
	fmt.Fprintf(r.err, "%d of %d succeeded", ok, r.total)
	if rest := r.total - len(r.results); rest > 0 {
		fmt.Fprintf(r.err, ", %d were not started", rest)
	}
	fmt.Fprintln(r.err)
	return r.broken
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// clipText cuts a text at so many characters.
func clipText(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
