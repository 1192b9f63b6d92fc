package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// exitDifferent is the exit code of diff --exit-code when files are not the same.
const exitDifferent = 1

func diffCommand(a *app) *cobra.Command {
	var (
		o        shoal.DiffOptions
		exitCode bool
	)
	c := &cobra.Command{
		Use:     "diff SANDBOX [PATH]",
		Short:   "Show what is different in a sandbox",
		GroupID: groupInside,
		Long: `Show which files of a sandbox are not those of its template, or of a checkpoint or another sandbox (--against), all or those below
PATH: added (A), removed (D), changed (M), or of another type (T). A directory that is new or gone is one line, unless --expand is given. Times
don't count, and a file that was moved is one that is gone and a new one. A line with ? says that not all of the file could be compared. --content adds the lines of text that are
different, as diff -u does.

Below come packages (dpkg, pip, npm, go, cargo), places where there is likely a credential that was not there before, and if the sandbox runs its
processes and what listens. Credentials are found by place and shape: some are examples, others are not found. Their values are
shown nowhere: a file that holds one is left out of --content.

The sandbox may run or not, and goes on: a copy of its files is compared, of each 1000 files as they are then. The exit code is 0, or with --exit-code 1 if
files are not the same; 125 if the command failed. Colours are for terminals, unless NO_COLOR is set.`,
		Example: `  shoal diff lab
  shoal diff lab /etc --content
  shoal diff lab --against other-lab -o json | jq -r '.files[].path'
  shoal diff lab --exit-code >/dev/null || echo 'the sandbox has drifted'`,
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				o.Path = args[1]
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			p := &diffPrinter{out: a.out, colour: isTerminal(a.out) && a.getenv("NO_COLOR") == "", merge: a.json()}
			for page, err := range client.Sandboxes().DiffPages(c.Context(), args[0], o) {
				if err == nil {
					err = p.page(page)
				}
				if err != nil {
					return aboutDiff(args[0], err)
				}
			}
			if a.json() {
				p.first.NextCursor = ""
				err = a.printJSON(p.first)
			} else {
				err = p.rest()
			}
			if err == nil && exitCode && p.different() {
				return &exitError{code: exitDifferent}
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.Against, "against", "", "what was before: `BASE` is template, a checkpoint's id, or another sandbox (default: template)")
	f.BoolVar(&o.Content, "content", false, "show the lines of text that are different")
	f.BoolVar(&o.Expand, "expand", false, "show each file in a directory that is new or gone")
	f.BoolVar(&exitCode, "exit-code", false, "exit with 1 if files are not the same")
	_ = c.RegisterFlagCompletionFunc("against", a.complete().sandboxes(-1))
	return c
}

// aboutDiff says which of the things that were named isn't there.
func aboutDiff(ref string, err error) error {
	if e, ok := err.(*shoal.Error); ok && e.Field != "" { //nolint:errorlint // What is wrapped has words of its own.
		return err
	}
	return aboutSandbox(ref, err)
}

// diffPrinter prints what is different, files as they come and all else at the end.
type diffPrinter struct {
	out    io.Writer
	colour bool
	// merge keeps all files in first, and prints nothing.
	merge bool
	// first is the first page, begun that there was one; files counts those that were printed.
	first shoal.SandboxDiff
	begun bool
	files int
}

// different reports whether files are not the same.
func (p *diffPrinter) different() bool {
	s := p.first.Summary
	return s != nil && s.Added.Files+s.Removed.Files+s.Changed.Files > 0
}

// page takes a page in.
func (p *diffPrinter) page(d shoal.SandboxDiff) error {
	switch {
	case !p.begun:
		p.first, p.begun = d, true
	case p.merge:
		p.first.Files = append(p.first.Files, d.Files...)
	}
	if p.merge {
		return nil
	}
	for _, f := range d.Files {
		if err := p.file(f); err != nil {
			return err
		}
	}
	return nil
}

// The colours of a terminal, as git has them.
const (
	colourRed, colourGreen, colourYellow, colourCyan, colourBold = "31", "32", "33", "36", "1"
)

// paint colours a line.
func (p *diffPrinter) paint(colour, text string) string {
	if !p.colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[m"
}

// file prints one file.
func (p *diffPrinter) file(f shoal.FileDiff) error {
	p.files++
	letter, colour := "M", colourYellow
	switch {
	case f.Change == shoal.DiffAdded:
		letter, colour = "A", colourGreen
	case f.Change == shoal.DiffRemoved:
		letter, colour = "D", colourRed
	case f.Before.Type != f.After.Type:
		letter = "T"
	}
	if f.Unsure {
		letter += "?"
	}
	name := printable(f.PathBytes())
	if fileOf(f).Type == shoal.FileDirectory && f.Change != shoal.DiffChanged {
		name += "/"
	}
	line := p.paint(colour, fmt.Sprintf("%-2s %s", letter, name))
	if what := changeText(f); what != "" {
		line += "  " + printable(what)
	}
	if _, err := fmt.Fprintln(p.out, line); err != nil || f.Hunks == "" {
		return err
	}
	return p.hunks(f)
}

// fileOf is the file as it is, or was.
func fileOf(f shoal.FileDiff) api.FileState {
	if f.Change == shoal.DiffRemoved {
		return f.Before
	}
	return f.After
}

// changeText says what is different of a file, beside its name.
func changeText(f shoal.FileDiff) string {
	var words []string
	state := fileOf(f)
	switch {
	case f.Change != shoal.DiffChanged && f.Below.Files > 0:
		words = append(words, fmt.Sprintf("%s, %s", plural(f.Below.Files, "file"), bytesText(f.Below.Bytes)))
	case f.Change != shoal.DiffChanged && state.Type == shoal.FileRegular:
		words = append(words, bytesText(state.Size))
	case f.Change != shoal.DiffChanged && state.Type == shoal.FileSymlink:
		words = append(words, "-> "+state.TargetBytes())
	}
	for _, aspect := range f.Aspects {
		switch string(aspect) {
		case "type":
			words = append(words, fmt.Sprintf("%s -> %s", f.Before.Type, f.After.Type))
		case "content":
			words = append(words, contentText(f))
		case "target":
			words = append(words, fmt.Sprintf("-> %s, was %s", f.After.TargetBytes(), f.Before.TargetBytes()))
		case "mode":
			words = append(words, fmt.Sprintf("mode %s -> %s", f.Before.Mode, f.After.Mode))
		case "owner":
			words = append(words, fmt.Sprintf("owner %d:%d -> %d:%d", f.Before.UID, f.Before.GID, f.After.UID, f.After.GID))
		default:
			words = append(words, string(aspect))
		}
	}
	switch string(f.NoHunks) {
	case "":
	case "credential":
		words = append(words, "not shown: it holds a likely credential")
	case "page_full":
		words = append(words, "not shown: name it alone")
	default:
		words = append(words, "not shown: "+strings.ReplaceAll(string(f.NoHunks), "_", " "))
	}
	return strings.Join(words, ", ")
}

func contentText(f shoal.FileDiff) string {
	if f.Before.Size == f.After.Size {
		return "content"
	}
	return bytesText(f.Before.Size) + " -> " + bytesText(f.After.Size)
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// hunks prints lines as diff -u does.
func (p *diffPrinter) hunks(f shoal.FileDiff) error {
	was, now := "a"+f.PathBytes(), "b"+f.PathBytes()
	switch f.Change {
	case shoal.DiffAdded:
		was = "/dev/null"
	case shoal.DiffRemoved:
		now = "/dev/null"
	case shoal.DiffChanged:
	}
	fmt.Fprintln(p.out, p.paint(colourBold, "--- "+printable(was)))
	fmt.Fprintln(p.out, p.paint(colourBold, "+++ "+printable(now)))
	for line := range strings.Lines(f.Hunks) {
		colour := ""
		switch line[0] {
		case '+':
			colour = colourGreen
		case '-':
			colour = colourRed
		case '@':
			colour = colourCyan
		}
		text := strings.TrimSuffix(line, "\n")
		if isTerminal(p.out) { // elsewhere it is data, which patch may be given
			text = strings.TrimSuffix(printableLines(text), "\n")
		}
		if _, err := fmt.Fprintln(p.out, p.paint(colour, text)); err != nil {
			return err
		}
	}
	return nil
}
