package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shoal/api"
	shoal "shoal/sdk/go"
)

func (a *app) logsCommand() *cobra.Command {
	var follow, list bool
	c := &cobra.Command{
		Use:        "logs SANDBOX [EXEC]",
		Short:      "Show what a process has printed",
		GroupID:    groupInside,
		SuggestFor: []string{"attach", "output", "execs"},
		Long: `Show the output of an exec, which is a process that run, exec or shell started, as far as it is kept: the newest part, if
there was much. Without EXEC it is the one that was started last. -f goes on until the process ends. --list shows a
sandbox's execs and how they ended instead.`,
		Example: `  shoal logs lab
  shoal logs -f lab e4r5t6y7u8i9o0p1a2s3df
  shoal logs --list lab`,
		ValidArgsFunction: a.complete().execs(),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			execs := client.Execs(args[0])
			if list {
				if len(args) > 1 || follow {
					return usage(c, "--list takes a sandbox only")
				}
				return withinSandbox(c.Context(), client, args[0], a.listExecs(c.Context(), execs))
			}
			if a.json() {
				return usage(c, "output is bytes and not printed as json: use --list, or the API's attach")
			}
			var id string
			if len(args) > 1 {
				id = args[1]
			}
			return howToFollow(args[0], aboutExec(c.Context(), client, args[0], id, a.logs(c.Context(), execs, id, follow)))
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the process ends")
	c.Flags().BoolVarP(&list, "list", "l", false, "list the sandbox's execs")
	return c
}

func (a *app) listExecs(ctx context.Context, execs shoal.Execs) error {
	list := []shoal.Exec{}
	for e, err := range execs.List(ctx) {
		if err != nil {
			return err
		}
		list = append(list, e)
	}
	if a.json() {
		return a.printJSON(list)
	}
	return printExecs(a.out, time.Now(), list)
}

func printExecs(out io.Writer, now time.Time, list []shoal.Exec) error {
	t := newTable(out, "ID", "STATE", "AGE", "PROCESSES", "OUTPUT", "COMMAND")
	for _, e := range list {
		command := strings.Join(e.Cmd, " ")
		switch e.Shell {
		case "":
		case loginShell:
			command = "(shell)" // What was typed to start it, not the script that finds one.
		default:
			command = e.Shell
		}
		if r := []rune(command); len(r) > 60 {
			command = string(r[:59]) + "…"
		}
		t.row(e.ID, execState(e), age(now, e.StartedAt), strconv.Itoa(e.Processes), bytesText(e.OutputBytes), command)
	}
	return t.flush()
}

func execState(e shoal.Exec) string {
	switch {
	case e.Running:
		return "running"
	case e.Outcome == api.OutcomeExited && e.ExitCode != nil:
		return fmt.Sprintf("exited %d", *e.ExitCode)
	case e.Outcome == api.OutcomeSignaled:
		return e.Signal
	}
	return string(e.Outcome)
}

// logs prints an exec's kept output, and with follow what comes.
func (a *app) logs(ctx context.Context, execs shoal.Execs, id string, follow bool) error {
	if id == "" {
		for e, err := range execs.List(ctx) {
			if err != nil {
				return err
			}
			id = e.ID
			break
		}
		if id == "" {
			return errors.New("nothing has been run in this sandbox yet")
		}
	}
	e, err := execs.Get(ctx, id)
	if err != nil {
		return err
	}
	f := &follower{execs: execs, out: a.out, err: a.err, id: id}
	if !e.Running || !follow {
		f.until = &e.OutputBytes
		if e.OutputBytes == 0 {
			return nil
		}
	}
	stream, err := execs.Attach(ctx, id, 0)
	if err != nil {
		return err
	}
	_, err = f.watch(ctx, stream)
	return err
}
