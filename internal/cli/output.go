package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// The output formats.
const (
	outputTable = "table"
	outputJSON  = "json"
)

// json says whether results are printed as the API's objects.
func (a *app) json() bool { return a.output == outputJSON }

// printJSON prints one object, indented.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printLine prints one object in one line, for streams.
func (a *app) printLine(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table collects rows and prints them in aligned columns.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, columns ...string) *table {
	t := &table{tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)}
	if len(columns) > 0 {
		t.row(columns...)
	}
	return t
}

// row adds a row. Cells may come from a sandbox or another tenant: control characters don't reach the terminal.
func (t *table) row(cells ...string) {
	for i, c := range cells {
		if c == "" {
			c = "-"
		}
		cells[i] = printable(c)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t *table) flush() error { return t.w.Flush() }

// printable replaces what could move a terminal's cursor.
func printable(s string) string { return strings.Map(printableRune, s) }

func printableRune(r rune) rune {
	if unicode.IsControl(r) || r == unicode.ReplacementChar {
		return '?'
	}
	return r
}

// printableLines is printable for text of several lines, which may be indented.
func printableLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printableRune(r)
	}, s)
}

// age says how long ago t was, or how long until then, in one unit.
func age(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration(now.Sub(t).Abs())
}

// duration says d in one or two units that a person thinks in.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// bytesText says a size in the unit that keeps it short.
func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/unit, 0
	for v >= unit && i < 4 {
		v, i = v/unit, i+1
	}
	if v < 10 && v != float64(int64(v)) {
		return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[i])
	}
	return fmt.Sprintf("%.0f %ciB", v, "KMGTP"[i])
}
