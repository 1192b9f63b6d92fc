package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

// scrollback is how much of a process's earlier output is shown.
type scrollback struct{ byteSize }

// Set reads a size, or 0 for none.
func (s *scrollback) Set(text string) error {
	if text == "0" {
		s.byteSize = 0
		return nil
	}
	return s.byteSize.Set(text)
}

// String returns the value as it is typed.
func (s *scrollback) String() string {
	if s.byteSize == 0 {
		return "0"
	}
	return s.byteSize.String()
}

func attachCommand(a *app) *cobra.Command {
	var tag string
	back := scrollback{64 << 10}
	c := &cobra.Command{
		Use:     "attach SANDBOX [EXEC]",
		Short:   "Go on with a shell or process that runs",
		GroupID: groupInside,
		Long: `Go on with an exec that is running, where it is: a shell that was left or whose connection broke, or one that somebody
else is using, which several people then see and type into. What it printed last is shown first. Without EXEC it is the one
with a terminal that was started last, with --tag the last one with that tag.

On a terminal everything you type goes to the process. Leave it with ~. after Enter, or by closing the window: it goes on.
(~? lists these keys.) The process has one size of terminal, which is that of the window that was opened or resized last.
An exec without a terminal is followed, and gets our input if it was started with its input open.

The exit code is the process's own, and 0 if you left.`,
		Example: `  shoal attach lab
  shoal attach lab e4r5t6y7u8i9o0p1a2s3df
  shoal shell --tag work lab; shoal attach --tag work lab
  shoal attach --scrollback 0 lab`,
		ValidArgsFunction: a.complete().execs(),
		RunE: func(c *cobra.Command, args []string) error {
			if a.json() {
				return usage(c, "a process has no result to print as json while it runs: see 'shoal logs --list -o json'")
			}
			if len(args) > 1 && tag != "" {
				return usage(c, "give either EXEC or --tag")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			execs := client.Execs(args[0])
			var e shoal.Exec
			if len(args) > 1 {
				e, err = execs.Get(c.Context(), args[1])
				err = aboutExec(c.Context(), client, args[0], args[1], err)
			} else {
				e, err = newestTerminal(c.Context(), execs, tag)
				err = withinSandbox(c.Context(), client, args[0], err)
			}
			if err != nil {
				return err
			}
			return attachTo(c.Context(), a, client, e, int64(back.byteSize))
		},
	}
	c.Flags().StringVar(&tag, "tag", "", "the last exec that runs and was started with this `WORD`")
	c.Flags().Var(&back, "scrollback", "how much of its earlier output to show")
	return c
}

// newestTerminal returns the exec with a terminal that runs and was started last, or with a tag the last one of those.
func newestTerminal(ctx context.Context, execs shoal.Execs, tag string) (shoal.Exec, error) {
	for e, err := range execs.Select(ctx, shoal.ListExecsOptions{Tag: tag, Running: true}) {
		if err != nil || e.Tty || tag != "" {
			return e, err
		}
	}
	if tag != "" {
		return shoal.Exec{}, fmt.Errorf("no exec with the tag %q is running: 'shoal logs --list' shows all", tag)
	}
	return shoal.Exec{}, errors.New("nothing with a terminal is running in this sandbox: 'shoal shell' opens a shell, and EXEC names any exec")
}

// attachTo goes on with an exec, after up to so many bytes of its earlier output.
func attachTo(ctx context.Context, a *app, c *shoal.Client, e shoal.Exec, back int64) error {
	if !e.Running {
		return fmt.Errorf("it has ended (%s): 'shoal logs %s %s' shows what it printed", execState(e), e.SandboxID, e.ID)
	}
	from := max(e.OutputFrom, e.OutputBytes-back)
	f := &follower{
		execs: c.Execs(e.SandboxID), out: a.out, err: a.err, id: e.ID, sandbox: e.SandboxID,
		offset: from, cut: from > 0, stays: true, escapes: true,
	}
	f.tty = e.Tty && isTerminal(a.in) && isTerminal(a.out)
	if f.tty || e.StdinOpen && !isTerminal(a.in) {
		f.in = a.in
	}
	return followProcess(ctx, a, c, e.SandboxID, f, func(ctx context.Context) (shoal.ExecStream, error) {
		stream, err := f.execs.Attach(ctx, e.ID, from)
		if err != nil {
			return nil, aboutExec(ctx, c, e.SandboxID, e.ID, err)
		}
		f.stream = stream
		if f.tty {
			f.redraw()
		}
		return stream, nil
	})
}

// redraw gives the process's terminal our size and lets a program that fills the screen draw it anew, also if the size is what
// it was.
func (f *follower) redraw() {
	f.resize()
	_ = f.current().Signal("SIGWINCH") // It may have ended meanwhile.
}
