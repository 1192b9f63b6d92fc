package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	shoal "shoal/sdk/go"
)

func operationCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:        "operation COMMAND",
		Aliases:    []string{"op"},
		Short:      "Look at long work, wait for it, cancel it",
		GroupID:    groupServer,
		SuggestFor: []string{"operations", "ops", "job", "jobs", "task", "tasks"},
		Long: `Look at long work, such as the import of a template, wait for it and cancel it. It goes on whether or not a command waits
for it.`,
		Example: `  shoal operation ls
  shoal operation wait o5i6u7y8t9r0e1w2q3azsx`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(operationLsCommand(a), operationGetCommand(a), operationWaitCommand(a), operationCancelCommand(a))
	return c
}

func operationLsCommand(a *app) *cobra.Command {
	var running bool
	var kinds []string
	c := &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List operations",
		Long:  `List operations, newest first, also those that have ended: of these the newest 1000 are kept.`,
		Example: `  shoal operation ls --running
  shoal operation ls --kind template.import -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			f := shoal.OperationsOptions{Kinds: kinds}
			if running {
				f.States = []shoal.OperationState{shoal.OperationRunning}
			}
			list := []shoal.Operation{}
			for op, err := range client.Operations().List(c.Context(), f) {
				if err != nil {
					return err
				}
				list = append(list, op)
			}
			if a.json() {
				return a.printJSON(list)
			}
			return printOperations(a.out, time.Now(), list)
		},
	}
	c.Flags().BoolVar(&running, "running", false, "only those that have not ended")
	c.Flags().StringArrayVar(&kinds, "kind", nil, "only those of this `KIND`, such as template.import; may be repeated")
	return c
}

func printOperations(out io.Writer, now time.Time, list []shoal.Operation) error {
	t := newTable(out, "ID", "KIND", "TARGET", "STATE", "AGE", "STEP")
	for _, op := range list {
		state, note := string(op.State), op.Step
		if op.State == shoal.OperationRunning && op.Percent != nil {
			state += " " + strconv.Itoa(*op.Percent) + " %"
		}
		if op.Error.Message != "" {
			note = op.Error.Message
		}
		t.row(op.ID, op.Kind, operationTarget(op), state, age(now, op.CreatedAt), note)
	}
	return t.flush()
}

// operationTarget names what an operation is about as a person would.
func operationTarget(op shoal.Operation) string {
	if name := op.Target["template"]; name != "" {
		return name
	}
	return joinPairs(op.Target)
}

func operationGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "get OPERATION",
		Short:             "Show an operation",
		Long:              `Show an operation: what it does, how far it is, and how it ended.`,
		Example:           `  shoal operation get o5i6u7y8t9r0e1w2q3azsx`,
		ValidArgsFunction: a.complete().operations,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			op, err := client.Operations().Get(c.Context(), args[0])
			if err != nil {
				return aboutOperation(args[0], err)
			}
			if a.json() {
				return a.printJSON(op)
			}
			return printOperation(a.out, op)
		},
	}
}

func printOperation(out io.Writer, op shoal.Operation) error {
	t := newTable(out)
	percent := ""
	if op.Percent != nil {
		percent = strconv.Itoa(*op.Percent) + " %"
	}
	for _, l := range [][2]string{
		{"id", op.ID},
		{"kind", op.Kind},
		{"state", string(op.State)},
		{"target", joinPairs(op.Target)},
		{"step", op.Step},
		{"percent", percent},
		{"bytes", bytesDone(op)},
		{"result", joinPairs(op.Result)},
		{"error", op.Error.Message},
		{"code", op.Error.Code},
		{"actor", op.Actor.Kind + " " + op.Actor.ID},
		{"began", op.CreatedAt.Local().Format(time.DateTime)},
	} {
		if l[1] != "" {
			t.row(l[0], l[1])
		}
	}
	if !op.EndedAt.IsZero() {
		t.row("took", duration(op.EndedAt.Sub(op.CreatedAt)))
	}
	return t.flush()
}

// bytesDone says how many bytes of a step have been moved.
func bytesDone(op shoal.Operation) string {
	switch {
	case op.BytesDone == 0 && op.BytesTotal == 0:
		return ""
	case op.BytesTotal == 0:
		return bytesText(op.BytesDone)
	}
	return bytesText(op.BytesDone) + " of " + bytesText(op.BytesTotal)
}

func operationWaitCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "wait OPERATION",
		Short: "Wait for an operation to end",
		Long: `Wait for an operation to end, and show how far it is. The exit code is 0 if it succeeded, else 125 with the reason. If this
command is interrupted, the operation goes on.`,
		Example:           `  shoal operation wait o5i6u7y8t9r0e1w2q3azsx`,
		ValidArgsFunction: a.complete().operations,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			op, err := followOperation(c.Context(), a, client, args[0])
			if err != nil {
				return aboutOperation(args[0], err)
			}
			if a.json() {
				if err := a.printJSON(op); err != nil {
					return err
				}
			}
			return shoal.OperationFailure(op)
		},
	}
}

// followOperation shows how far an operation is until it has ended. An interrupt ends only the command.
func followOperation(ctx context.Context, a *app, client *shoal.Client, id string) (last shoal.Operation, err error) {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM)
	defer stop()
	p := newProgress(a.err)
	defer p.clear()
	for op, err := range client.Operations().Follow(ctx, id) {
		if ctx.Err() != nil && err != nil {
			p.clear()
			return last, &exitError{exitOurs, errors.New("interrupted: the operation goes on; " +
				"'shoal operation wait " + id + "' waits for it again, 'shoal operation cancel " + id + "' ends it")}
		}
		if err != nil {
			return last, err
		}
		last = op
		p.show(op.Step, operationDetail(op))
	}
	return last, nil
}

// operationDetail says how far a step is.
func operationDetail(op shoal.Operation) string {
	text := bytesDone(op)
	if op.Percent != nil {
		if text != "" {
			text = ", " + text
		}
		text = fmt.Sprintf("%d %%", *op.Percent) + text
	}
	return text
}

func operationCancelCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel OPERATION…",
		Short: "Cancel operations",
		Long: `Cancel operations that run: what they have begun is undone. One that has ended stays as it is, which is said. If one of several isn't there,
the others are canceled all the same and the exit code is 125.`,
		Example:           `  shoal operation cancel o5i6u7y8t9r0e1w2q3azsx`,
		SuggestFor:        []string{"stop", "kill", "rm"},
		ValidArgsFunction: a.complete().operations,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			return each(a, "operation", args, func(id string) error {
				if op, err := client.Operations().Get(c.Context(), id); err == nil && op.State != shoal.OperationRunning {
					fmt.Fprintf(a.err, "shoal: %s had ended already: it is %s\n", id, op.State)
				}
				return aboutOperation(id, client.Operations().Cancel(c.Context(), id))
			})
		},
	}
}

// aboutOperation says which operation isn't there.
func aboutOperation(id string, err error) error {
	if isMissing(err) {
		return &notFoundError{"operation", id, "'shoal operation ls' shows all that are kept", err}
	}
	return err
}

// operations completes operations: for wait and cancel those that run.
func (a completions) operations(c *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	var f shoal.OperationsOptions
	if c.Name() != "get" {
		f.States = []shoal.OperationState{shoal.OperationRunning}
	}
	if c.Name() != "cancel" && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	err := a.askServer(c, func(ctx context.Context, client *shoal.Client) error {
		for op, err := range client.Operations().List(ctx, f) {
			if err != nil || len(ids) == completionMost {
				return err
			}
			ids = append(ids, cobra.CompletionWithDesc(op.ID, op.Kind+" "+operationTarget(op)))
		}
		return nil
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
