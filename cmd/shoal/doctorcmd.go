package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"shoal/internal/config"
	"shoal/internal/core"
	"shoal/internal/node/doctor"
)

// doctorCommand looks at the host.
func doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether this machine can run sandboxes, and how to mend what is wrong",
		Long: `Look at everything that the server needs of this machine. For what is wrong it says what that costs and how to mend it.
It changes nothing, and needs no server; as an ordinary user it can't look at everything.

The exit code is 0 if sandboxes can run here, with or without warnings, and 125 if not.`,
		Example:     "  sudo shoal doctor\n  sudo shoal doctor -o json",
		Annotations: offline("output"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(config.Sources{Environ: os.Environ(), Flags: cmd.Flags()})
			if err != nil {
				return err
			}
			checks := doctor.Run(cmd.Context(), doctor.Options{DataDir: cfg.DataDir, OwnerUID: cfg.Runtime.OwnerUID})
			format, err := cmd.Flags().GetString("output")
			if err != nil {
				return err
			}
			if format == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(checks)
			} else {
				err = printChecks(cmd.OutOrStdout(), checks)
			}
			if err == nil && doctor.Worst(checks) == doctor.Fail {
				err = core.Errorf(core.CodeUnsupported, "sandboxes can't run on this machine yet: see what failed above")
			}
			return err
		},
	}
	addSettings(cmd, []string{"data-dir", "runtime-owner-uid"}, nil)
	return cmd
}

// printChecks prints the checks for people, with advice only where something is wrong.
func printChecks(w io.Writer, checks []doctor.Check) error {
	marks := map[doctor.Status]string{doctor.OK: "ok  ", doctor.Warn: "warn", doctor.Fail: "FAIL"}
	count := map[doctor.Status]int{}
	for _, c := range checks {
		count[c.Status]++
		text := fmt.Sprintf("%s  %s: %s\n", marks[c.Status], c.Name, c.Found)
		if c.Status != doctor.OK {
			text += fmt.Sprintf("      cost: %s\n      mend: %s\n", c.Cost, c.Fix)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	_, err := fmt.Fprintf(w, "\n%d ok, %d warnings, %d failed\n", count[doctor.OK], count[doctor.Warn], count[doctor.Fail])
	return err
}
