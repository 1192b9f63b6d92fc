package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

func restoreCommand(a *app) *cobra.Command {
	var noSave bool
	c := &cobra.Command{
		Use:        "restore SANDBOX CHECKPOINT",
		Short:      "Go back to a checkpoint",
		GroupID:    groupSandbox,
		SuggestFor: []string{"rollback", "revert"},
		Long: `Put the files of one of a sandbox's checkpoints in the place of those that it has, and start it on them. Its processes are killed. Id,
name, limits, environment, rules and ttl stay. It works whether the sandbox runs, is stopped or has failed; afterwards it runs.

What is replaced is saved first, as a checkpoint whose id is printed: to go back to that undoes the restore. --no-save loses it.`,
		Example: `  shoal checkpoint ls lab
  shoal restore lab CHECKPOINT
  shoal restore --no-save lab CHECKPOINT`,
		ValidArgsFunction: a.complete().sandboxThenCheckpoint(),
		RunE: func(c *cobra.Command, args []string) error {
			return restoreSandbox(a, args[0], noSave, func(client *shoal.Client, save *bool) (shoal.RestoredSandbox, error) {
				return client.Sandboxes().Restore(c.Context(), args[0], shoal.RestoreSandboxRequest{CheckpointID: args[1], Save: save})
			})
		},
	}
	c.Flags().BoolVar(&noSave, "no-save", false, "lose what is replaced, instead of saving it as a checkpoint")
	return c
}

func resetCommand(a *app) *cobra.Command {
	var noSave bool
	c := &cobra.Command{
		Use:     "reset SANDBOX",
		Short:   "Go back to the beginning",
		GroupID: groupSandbox,
		Long: `Put a sandbox's files back to what it was made from: its version of the template, or the checkpoint that it was created or forked from.
Otherwise it does what 'shoal restore' does.`,
		Example: `  shoal reset lab
  shoal reset --no-save lab`,
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			return restoreSandbox(a, args[0], noSave, func(client *shoal.Client, save *bool) (shoal.RestoredSandbox, error) {
				return client.Sandboxes().Reset(c.Context(), args[0], shoal.ResetSandboxRequest{Save: save})
			})
		},
	}
	c.Flags().BoolVar(&noSave, "no-save", false, "lose what is replaced, instead of saving it as a checkpoint")
	return c
}

// restoreSandbox has a sandbox restored and prints what was saved of it.
func restoreSandbox(a *app, ref string, noSave bool, do func(client *shoal.Client, save *bool) (shoal.RestoredSandbox, error)) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	save := !noSave
	res, err := do(client, &save)
	var refused *shoal.Error
	if errors.As(err, &refused) && refused.Field != "" {
		return err
	}
	if err != nil {
		return aboutSandbox(ref, err)
	}
	switch {
	case a.json():
		return a.printJSON(res)
	case res.SavedCheckpointID != "":
		fmt.Fprintf(a.out, "what was replaced is kept as checkpoint %s\n", res.SavedCheckpointID)
	}
	return nil
}
