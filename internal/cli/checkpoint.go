package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

func checkpointCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:        "checkpoint COMMAND",
		Short:      "Keep saved states of sandboxes",
		GroupID:    groupSandbox,
		SuggestFor: []string{"checkpoints", "snapshot", "backup", "save", "commit"},
		Long: `A checkpoint is the files of a sandbox as they were at one moment. To make one takes some milliseconds, in which the sandbox's
processes are held, and only as much space as is changed afterwards. It never changes, and outlives its sandbox.

Each has a parent: the checkpoint that the sandbox's files descended from. So they make a tree, which 'shoal checkpoint ls' draws.`,
		Example: `  shoal checkpoint create lab --comment 'before the upgrade'
  shoal checkpoint ls lab
  shoal template create warm --from CHECKPOINT
  shoal checkpoint rm CHECKPOINT`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(checkpointCreateCommand(a), checkpointLsCommand(a), checkpointGetCommand(a), checkpointSetCommand(a), checkpointRmCommand(a))
	return c
}

func checkpointCreateCommand(a *app) *cobra.Command {
	var (
		req  shoal.CreateCheckpointRequest
		ttl  lifetime
		keep int
	)
	c := &cobra.Command{
		Use:        "create SANDBOX",
		Short:      "Save a sandbox's files",
		SuggestFor: []string{"make", "new", "add", "save"},
		Long: `Save the files of a sandbox as they are now, whether it runs or not, and print the id of the checkpoint. What its programs have
written by then is in it, flushed to the disk or not. What is in memory alone isn't: also /dev/shm.

With --keep-last N the sandbox's older checkpoints are deleted once this one is made, so that N are left.`,
		Example: `  shoal checkpoint create lab --comment 'before the upgrade'
  shoal checkpoint create lab --ttl 7d
  shoal checkpoint create lab --keep-last 10 -o json`,
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			req.TTLSeconds = ttl.seconds()
			if c.Flags().Changed("keep-last") {
				if req.KeepLast = &keep; keep < 1 {
					return usage(c, "--keep-last is at least 1: the one that is made is kept")
				}
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			made, err := client.Checkpoints().Create(c.Context(), args[0], req)
			if err != nil {
				return aboutSandbox(args[0], err)
			}
			if a.json() {
				return a.printJSON(made)
			}
			fmt.Fprintln(a.out, made.ID)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&req.Comment, "comment", "", "`WORDS` to find it by")
	f.Var(&ttl, "ttl", "delete it after this `duration`, such as 2h or 7d (default: it is kept)")
	f.IntVar(&keep, "keep-last", 0, "afterwards delete the sandbox's older checkpoints, so that `N` are left (default: none are deleted)")
	for _, name := range []string{"comment", "ttl", "keep-last"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return c
}

func checkpointLsCommand(a *app) *cobra.Command {
	var quiet bool
	c := &cobra.Command{
		Use: "ls [SANDBOX]", Aliases: []string{"list", "tree"},
		Short: "List checkpoints",
		Long: `List the checkpoints of one sandbox, which may be deleted if it is given by its id, or all. Each stands below its parent: a child
of the line above is marked with └, one of several with ├. WRITTEN is what the sandbox had written by then, as far as it was kept.`,
		Example: `  shoal checkpoint ls lab
  shoal checkpoint ls -o json
  shoal checkpoint ls -q lab | xargs -r shoal checkpoint rm`,
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			var o shoal.CheckpointsOptions
			if len(args) > 0 {
				o.Sandbox = args[0]
			}
			list := []shoal.Checkpoint{}
			for k, err := range client.Checkpoints().List(c.Context(), o) {
				if err != nil && len(args) > 0 {
					return aboutSandbox(args[0], err)
				}
				if err != nil {
					return err
				}
				list = append(list, k)
			}
			switch {
			case a.json():
				return a.printJSON(list)
			case quiet:
				for _, k := range list {
					fmt.Fprintln(a.out, k.ID)
				}
				return nil
			}
			return printCheckpoints(a.out, time.Now(), list)
		},
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the ids only, the newest first")
	return c
}

func checkpointGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "get CHECKPOINT",
		Short:             "Show a checkpoint",
		Long:              `Show a checkpoint: what it was made of and when, and what is said of it.`,
		Example:           `  shoal checkpoint get c2h3e4c5k6p7o8i9n0t1xy`,
		ValidArgsFunction: a.complete().checkpoints(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			k, err := client.Checkpoints().Get(c.Context(), args[0])
			if err != nil {
				return aboutCheckpoint(args[0], err)
			}
			if a.json() {
				return a.printJSON(k)
			}
			return printCheckpoint(a.out, time.Now(), k)
		},
	}
}

func checkpointSetCommand(a *app) *cobra.Command {
	var (
		comment string
		ttl     newTTL
	)
	c := &cobra.Command{
		Use:   "set CHECKPOINT",
		Short: "Change what is said of a checkpoint",
		Long:  `Change the comment of a checkpoint, or when it is deleted by itself. What was saved never changes.`,
		Example: `  shoal checkpoint set c2h3e4c5k6p7o8i9n0t1xy --comment 'the last good one'
  shoal checkpoint set c2h3e4c5k6p7o8i9n0t1xy --ttl none`,
		ValidArgsFunction: a.complete().checkpoints(1),
		RunE: func(c *cobra.Command, args []string) error {
			req := shoal.UpdateCheckpointRequest{TTLSeconds: ttl.seconds()}
			if c.Flags().Changed("comment") {
				req.Comment = &comment
			}
			if req == (shoal.UpdateCheckpointRequest{}) {
				return usage(c, "nothing to change: say --comment or --ttl")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			k, err := client.Checkpoints().Update(c.Context(), args[0], req)
			if err != nil {
				return aboutCheckpoint(args[0], err)
			}
			if a.json() {
				return a.printJSON(k)
			}
			return printCheckpoint(a.out, time.Now(), k)
		},
	}
	f := c.Flags()
	f.StringVar(&comment, "comment", "", "`WORDS` to find it by; '' takes them away")
	f.Var(&ttl, "ttl", "delete it after this `duration` from now, such as 2h or 7d; none: keep it")
	for _, name := range []string{"comment", "ttl"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return c
}

func checkpointRmCommand(a *app) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm CHECKPOINT…", Aliases: []string{"delete"},
		Short:      "Delete checkpoints",
		SuggestFor: []string{"remove"},
		Long: `Delete checkpoints, also such as others descend from: these then hang on what is above. No sandbox and no other checkpoint loses
anything. If one of several isn't there, the others are deleted all the same and the exit code is 125; with -f it is 0.`,
		Example: `  shoal checkpoint rm c2h3e4c5k6p7o8i9n0t1xy
  shoal checkpoint ls -q lab | tail -n +11 | xargs -r shoal checkpoint rm`,
		ValidArgsFunction: a.complete().checkpoints(-1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			return each(a, "checkpoint", args, func(id string) error {
				err := client.Checkpoints().Delete(c.Context(), id)
				if force && isMissing(err) {
					return nil
				}
				return aboutCheckpoint(id, err)
			})
		},
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "it is no error if one isn't there")
	return c
}

// aboutCheckpoint says which checkpoint isn't there.
func aboutCheckpoint(id string, err error) error {
	var known *notFoundError
	if isMissing(err) && !errors.As(err, &known) {
		return &notFoundError{"checkpoint", id, "'shoal checkpoint ls' shows all", err}
	}
	return err
}
