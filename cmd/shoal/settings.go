package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"shoal/internal/cli"
	"shoal/internal/config"
	"shoal/internal/core"
)

// offline marks commands that talk to no server, and names what they share with others: see cli.Offline.
func offline(shared string) map[string]string { return map[string]string{cli.Offline: shared} }

// addSettings gives a command the flags of those settings that it reads, and --config; its help leaves out those that are
// quiet. A flag that would change nothing is not taken; the file and the variables may have all settings.
func addSettings(cmd *cobra.Command, shown, quiet []string) {
	var all pflag.FlagSet
	config.AddFlags(&all)
	for _, name := range slices.Concat([]string{"config"}, shown, quiet) {
		f := all.Lookup(name)
		f.Hidden = slices.Contains(quiet, name)
		cmd.Flags().AddFlag(f)
	}
}

// inWords makes a command say our own errors without their code, which is for programs.
func inWords(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if own, ok := err.(*core.Error); ok { //nolint:errorlint // What wraps it has words of its own.
				text := own.Message
				if own.Err != nil {
					text += ": " + own.Err.Error()
				}
				return errors.New(text)
			}
			return err
		}
	}
	for _, sub := range cmd.Commands() {
		inWords(sub)
	}
}
