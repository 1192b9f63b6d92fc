package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shoal/api"
	shoal "shoal/sdk/go"
)

func (a *app) logsCommand() *cobra.Command {
	var follow, list, running bool
	var tag string
	c := &cobra.Command{
		Use:        "logs SANDBOX [EXEC]",
		Short:      "Show what a process has printed",
		GroupID:    groupInside,
		SuggestFor: []string{"output", "execs"},
		Long: `Show the output of an exec, which is a process that run, exec or shell started, as far as it is kept: the newest part, if
there was much. Without EXEC it is the one that was started last, with --tag
the last one of those with that tag. -f goes on until the process ends. --list shows a sandbox's execs and how they ended
instead.`,
		Example: `  shoal logs lab
  shoal logs -f lab e4r5t6y7u8i9o0p1a2s3df
  shoal logs -f --tag web lab
  shoal logs --list lab
  shoal logs --list --running lab`,
		ValidArgsFunction: a.complete().execs(),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			execs := client.Execs(args[0])
			which := shoal.ListExecsOptions{Tag: tag, Running: running}
			if list {
				if len(args) > 1 || follow {
					return usage(c, "--list takes a sandbox only")
				}
				return withinSandbox(c.Context(), client, args[0], a.listExecs(execs.Select(c.Context(), which)))
			}
			if a.json() {
				return usage(c, "output is bytes and not printed as json: use --list, or the API's attach")
			}
			if running {
				return usage(c, "--running goes with --list")
			}
			var id string
			if len(args) > 1 {
				id = args[1]
			}
			if id != "" && tag != "" {
				return usage(c, "give either EXEC or --tag")
			}
			if id == "" {
				if id, err = newestExec(execs.Select(c.Context(), which), tag); err != nil {
					return withinSandbox(c.Context(), client, args[0], err)
				}
			}
			return howToFollow(args[0], aboutExec(c.Context(), client, args[0], id, a.logs(c.Context(), execs, id, follow)))
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the process ends")
	c.Flags().BoolVarP(&list, "list", "l", false, "list the sandbox's execs")
	c.Flags().StringVar(&tag, "tag", "", "only execs that were started with this `TAG`")
	c.Flags().BoolVar(&running, "running", false, "with --list: only execs that have not ended")
	return c
}

// newestExec returns the id of the exec that was started last.
func newestExec(execs iter.Seq2[shoal.Exec, error], tag string) (string, error) {
	for e, err := range execs {
		return e.ID, err
	}
	if tag != "" {
		return "", fmt.Errorf("no exec of this sandbox has the tag %q", tag)
	}
	return "", errors.New("nothing has been run in this sandbox yet")
}

func (a *app) listExecs(execs iter.Seq2[shoal.Exec, error]) error {
	list := []shoal.Exec{}
	for e, err := range execs {
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
	// Tags take room only where there are any.
	tags := slices.ContainsFunc(list, func(e shoal.Exec) bool { return e.Tag != "" })
	columns := []string{"ID", "STATE", "AGE", "PROCESSES", "OUTPUT", "COMMAND"}
	if tags {
		columns = slices.Insert(columns, 1, "TAG")
	}
	t := newTable(out, columns...)
	for _, e := range list {
		command := strings.Join(e.Cmd, " ")
		switch e.Shell {
		case "":
		case loginShell:
			command = "(shell)" // What was typed to start it, not the script that finds one.
		default:
			command = e.Shell
		}
		command = clipRunes(command, 60)
		row := []string{e.ID, execState(e), age(now, e.StartedAt), strconv.Itoa(e.Processes), bytesText(e.OutputBytes), command}
		if tags {
			row = slices.Insert(row, 1, clipRunes(e.Tag, 24))
		}
		t.row(row...)
	}
	return t.flush()
}

// clipRunes shortens text to so many characters.
func clipRunes(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
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
