package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

func stopCommand(a *app) *cobra.Command {
	var grace graceTime
	c := &cobra.Command{
		Use:        "stop SANDBOX…",
		Short:      "Stop sandboxes and keep their files",
		GroupID:    groupSandbox,
		SuggestFor: []string{"halt", "shutdown", "poweroff", "restart"},
		Long: `Stop sandboxes: their processes end, their memory is given back, their files stay. Processes are asked to end first, with SIGTERM and
in a terminal SIGHUP, and killed when the grace is over. This returns when they are stopped; one that is stopped already is no error.

A stopped sandbox takes no memory and no place on the node. Its files can be read, by cp and files, and not changed; its ttl and its
rules go on. 'shoal wake' starts it again. One that has failed can be stopped too, to be woken then.

If one of several can't be stopped the others are all the same, and the exit code is 125. With -o json it prints of each what came of it.`,
		Example: `  shoal stop lab
  shoal stop --grace 0s lab build
  shoal ls -q --label team=data | xargs -r shoal stop`,
		ValidArgsFunction: a.complete().sandboxes(-1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			return each(a, "sandbox", args, func(ref string) error {
				_, err := client.Sandboxes().Stop(c.Context(), ref, shoal.StopOptions{Grace: grace.value})
				return aboutSandbox(ref, err)
			})
		},
	}
	c.Flags().Var(&grace, "grace", "how long their processes may take to end by themselves, such as 30s; 0s kills them at once (default 10s)")
	_ = c.RegisterFlagCompletionFunc("grace", cobra.NoFileCompletions)
	return c
}

func wakeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:        "wake SANDBOX…",
		Short:      "Start stopped sandboxes again",
		GroupID:    groupSandbox,
		SuggestFor: []string{"start", "restart", "up"},
		Long: `Start stopped sandboxes on the files that they have, with the same id, name, environment, rules and ttl. None of the processes of before
runs again. This returns when processes can be started in them; one that runs is no error, and one that is being stopped is waited for.

If one of several can't be woken the others are all the same, and the exit code is 125. With -o json it prints of each what came of it.`,
		Example: `  shoal wake lab
  shoal wake lab && shoal shell lab
  shoal ls -q --state stopped | xargs -r shoal wake`,
		ValidArgsFunction: a.complete().sandboxes(-1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			return each(a, "sandbox", args, func(ref string) error {
				_, err := client.Sandboxes().Wake(c.Context(), ref)
				return aboutSandbox(ref, err)
			})
		},
	}
}

// graceTime is a duration that may be zero; nil if the flag wasn't given.
type graceTime struct{ value *time.Duration }

// String returns the value as it is typed.
func (g *graceTime) String() string {
	if g.value == nil {
		return ""
	}
	return g.value.String()
}

// Type names the value in the help.
func (g *graceTime) Type() string { return "duration" }

// Set reads a duration.
func (g *graceTime) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > time.Minute {
		return errors.New("a grace is 0s to 1m, such as 30s")
	}
	g.value = &d
	return nil
}
