package cli

import (
	"fmt"
	"strconv"
	"time"

	shoal "shoal/sdk/go"
)

// rest prints all that is told beside files.
func (p *diffPrinter) rest() error {
	d := p.first
	if s := d.Summary; p.different() {
		fmt.Fprintf(p.out, "%s added (%s), %d removed, %d changed\n", plural(s.Added.Files, "file"), bytesText(s.Added.Bytes), s.Removed.Files, s.Changed.Files)
	}
	p.packages(d)
	p.credentials(d)
	if err := p.processes(d); err != nil {
		return err
	}
	if len(d.Notes) > 0 {
		p.heading("Not looked at")
	}
	for _, n := range d.Notes {
		fmt.Fprintf(p.out, "  %s: %s\n", printable(n.PathBytes()), printable(n.Reason))
	}
	p.more(d.MoreNotes)
	return nil
}

func (p *diffPrinter) heading(text string) {
	fmt.Fprintf(p.out, "\n%s\n", p.paint(colourBold, text))
}

// more says how many lines of a list are left out.
func (p *diffPrinter) more(n int64) {
	if n > 0 {
		fmt.Fprintf(p.out, "  and %d more\n", n)
	}
}

func (p *diffPrinter) packages(d shoal.SandboxDiff) {
	if len(d.Packages) > 0 {
		p.heading("Packages")
	}
	for _, x := range d.Packages {
		sign, colour, version := "~", colourYellow, x.Before+" -> "+x.After
		switch string(x.Change) {
		case "added":
			sign, colour, version = "+", colourGreen, x.After
		case "removed":
			sign, colour, version = "-", colourRed, x.Before
		}
		line := p.paint(colour, printable(fmt.Sprintf("  %s %s %s %s", sign, x.Manager, x.Name, version)))
		if at := x.PathBytes(); at != "/" {
			line += "  (" + printable(at) + ")"
		}
		fmt.Fprintln(p.out, line)
	}
	p.more(d.MorePackages)
}

func (p *diffPrinter) credentials(d shoal.SandboxDiff) {
	if len(d.Credentials) > 0 {
		p.heading("Likely credentials")
	}
	for _, x := range d.Credentials {
		at := printable(x.PathBytes())
		switch {
		case x.PID != 0:
			at = fmt.Sprintf("process %d", x.PID)
		case x.Line != 0:
			at += ":" + strconv.Itoa(x.Line)
		}
		fmt.Fprintf(p.out, "  %s  %s\n", p.paint(colourRed, at), printable(x.Kind))
	}
	p.more(d.MoreCredentials)
}

// processes prints what runs and listens, or why that is not known.
func (p *diffPrinter) processes(d shoal.SandboxDiff) error {
	if d.NotRunning != "" {
		p.heading("Processes")
		fmt.Fprintf(p.out, "  not known: %s\n", printable(d.NotRunning))
		return nil
	}
	if len(d.Processes) > 0 {
		p.heading("Processes")
		t := newTable(p.out, "  PID", "PARENT", "USER", "AGE", "COMMAND")
		for _, x := range d.Processes {
			user := x.User
			if user == "" {
				user = strconv.Itoa(x.UID)
			}
			command := x.Command
			if x.Cut {
				command += "…"
			}
			t.row("  "+strconv.Itoa(x.PID), strconv.Itoa(x.Parent), user, age(time.Now(), x.StartedAt), command)
		}
		if err := t.flush(); err != nil {
			return err
		}
		p.more(d.MoreProcesses)
	}
	if len(d.Listeners) > 0 {
		p.heading("Listeners")
	}
	for _, x := range d.Listeners {
		line := fmt.Sprintf("  %s %s port %d", x.Proto, x.Address, x.Port)
		if x.PID != 0 {
			line += fmt.Sprintf("  (process %d)", x.PID)
		}
		fmt.Fprintln(p.out, printable(line))
	}
	p.more(d.MoreListeners)
	return nil
}
