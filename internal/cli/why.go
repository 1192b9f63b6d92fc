package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

func whyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:        "why SANDBOX",
		Short:      "Show what keeps a sandbox awake, what comes next, and what it costs",
		GroupID:    groupSandbox,
		SuggestFor: []string{"explain", "schedule", "cost", "rules"},
		Long: `Show since when a sandbox is in its state, who uses it now, which of its rules act next and when, what it takes of the
server, and what a stop and a delete would lose. Asking is no use of it. What its processes are is not shown: 'shoal logs --list' is.`,
		Example: `  shoal why lab
  shoal why lab -o json | jq '.rules[0]'
  shoal ls -q | xargs -n1 shoal why`,
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			w, err := client.Sandboxes().Why(c.Context(), args[0])
			if err != nil {
				return aboutSandbox(args[0], err)
			}
			if a.json() {
				return a.printJSON(w)
			}
			return printWhy(a.out, w)
		},
	}
}

func printWhy(out io.Writer, w shoal.SandboxWhy) error {
	t := newTable(out)
	since := func(m time.Time) string {
		return "for " + duration(w.At.Sub(m)) + ", since " + m.Local().Format(time.DateTime)
	}
	t.row("id", w.ID)
	state := string(w.State)
	if w.Operation != "" {
		state += ", with a " + w.Operation + " under way"
	}
	t.row("state", state+" "+since(w.StateSince))
	if w.Failure != "" {
		t.row("failure", w.Failure)
	}
	for _, u := range w.Uses {
		if u.Awake {
			t.row("in use", number(u.Count, strings.ReplaceAll(u.What, "_", " "))+" "+since(u.Since))
		}
	}
	if !w.ActiveAt.IsZero() {
		t.row("last used", duration(w.At.Sub(w.ActiveAt))+" ago, "+w.ActiveAt.Local().Format(time.DateTime))
	}
	for _, u := range w.Uses {
		if !u.Awake {
			name := u.ExecID
			if u.Tag != "" {
				name += " (" + u.Tag + ")"
			}
			t.row("runs", "exec "+name+" "+since(u.Since))
		}
	}
	for i, r := range w.Rules {
		key := "then"
		switch {
		case r.DueAt.IsZero():
			key = "not now"
		case i == 0:
			key = "next"
		}
		t.row(key, scheduledText(w, r))
	}
	if len(w.Rules) == 0 {
		t.row("next", "nothing: it has no rule")
	}
	t.row("costs", costsText(w.Costs))
	t.row("stop loses", lossText(w.LostByStop))
	t.row("delete loses", lossText(w.LostByDelete))
	return t.flush()
}

// number says how many there are of something.
func number(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// scheduledText says a rule in words, with when it acts or why it doesn't.
func scheduledText(w shoal.SandboxWhy, r shoal.ScheduledRule) string {
	text := ruleText(shoal.SandboxRule{On: r.On, AfterSeconds: r.AfterSeconds, At: r.At, State: r.State, Action: r.Action, FiredAt: r.FiredAt})
	if r.Origin == "ttl" {
		text = r.Action + " at its ttl"
	}
	switch {
	case r.Waiting == "in_use":
		text += ": it is in use"
	case r.Waiting == "nothing_to_do":
		text += ": it is " + string(w.State)
	case r.DueAt.IsZero():
	case r.DueAt.After(w.At):
		text += ": in " + duration(r.DueAt.Sub(w.At)) + ", " + r.DueAt.Local().Format(time.DateTime)
	default:
		text += ": now"
	}
	return text
}

func costsText(c shoal.SandboxCosts) string {
	var list []string
	if c.VCPUs > 0 {
		list = append(list, strconv.FormatFloat(c.VCPUs, 'g', -1, 64)+" vcpus")
	}
	if c.MemoryBytes > 0 {
		list = append(list, bytesText(c.MemoryBytes)+" of memory")
	}
	if c.MemoryUsedBytes != nil {
		list[len(list)-1] += " (" + bytesText(*c.MemoryUsedBytes) + " in use)"
	}
	if c.DiskBytes != nil {
		list = append(list, bytesText(*c.DiskBytes)+" of disk")
	}
	if len(list) == 0 {
		return "what its files take"
	}
	return strings.Join(list, ", ")
}

func lossText(l shoal.SandboxLoss) string {
	var list []string
	if l.Processes != nil {
		list = append(list, strconv.Itoa(*l.Processes)+" processes")
	}
	if l.Execs > 0 {
		list = append(list, number(l.Execs, "exec"))
	}
	if l.MemoryBytes != nil {
		list = append(list, bytesText(*l.MemoryBytes)+" of memory")
	}
	switch {
	case l.DiskBytes != nil:
		list = append(list, fmt.Sprintf("its files (%s of its own)", bytesText(*l.DiskBytes)))
	case l.Files:
		list = append(list, "its files")
	}
	if len(list) == 0 {
		return "nothing"
	}
	text := strings.Join(list, ", ")
	if l.CheckpointID != "" {
		text += "; checkpoint " + l.CheckpointID + " keeps those of " + l.CheckpointAt.Local().Format(time.DateTime)
	}
	return text
}
