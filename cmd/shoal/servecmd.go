package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"shoal/internal/config"
	"shoal/internal/obs"
)

// serveCommand is the server.
func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server: API, control and node in one process",
		Long: `Run the server until it is interrupted. It needs root, keeps everything below its data directory, and at its first start
writes an admin key there and begins to make the templates. 'shoal doctor' says beforehand whether this machine is fit.

Stopping it stops no sandbox: the next start takes them over. Settings come from the configuration file, then SHOAL_*
variables, then flags; 'shoal config print' shows the result.`,
		Example: `  sudo shoal serve
  sudo shoal serve --data-dir /srv/shoal --listen 127.0.0.1:9700
  sudo SHOAL_LOG_LEVEL=debug shoal serve`,
		Annotations: offline(""),
		SuggestFor:  []string{"server", "daemon"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(config.Sources{Environ: os.Environ(), Flags: cmd.Flags()})
			if err != nil {
				return err
			}
			log, err := obs.NewLogger(cmd.ErrOrStderr(), cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			s, err := openServer(cmd.Context(), cfg, log)
			if err != nil {
				return err
			}
			defer s.close()
			fmt.Fprintf(cmd.ErrOrStderr(), "shoal %s serves at %s\nadmin key: %s\n", version, s.at.api.url(), s.dir.join("admin.key"))
			return s.serve(cmd.Context())
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}

// configCommand shows and checks the configuration.
func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config COMMAND",
		Short: "Show or check the server's configuration",
		Long: `Show or check the configuration that 'shoal serve' would have, given the same flags and variables here. All settings are in
docs/reference/config.md.`,
		Example:     "  shoal config print\n  shoal config check --config ./shoal.yaml",
		Annotations: offline(""),
		SuggestFor:  []string{"settings", "configuration"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	load := func(cmd *cobra.Command) (*config.Config, error) {
		return config.Load(config.Sources{Environ: os.Environ(), Flags: cmd.Flags()})
	}
	show := &cobra.Command{
		Use:   "print",
		Short: "Print every setting with its value and where that comes from",
		Long: `Print every setting with its value and where that comes from: the default, the file, a SHOAL_* variable or a flag. The
output is YAML, and as such a configuration file.`,
		Example:     "  shoal config print\n  shoal config print --config /etc/shoal/shoal.yaml",
		Annotations: offline(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			return cfg.Print(cmd.OutOrStdout())
		},
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "Say whether the server would start with this configuration",
		Long: `Say whether the server would start with this configuration: everything that is wrong with it, a line each, with the line of
the file. The exit code is 0 if nothing is, else 125.`,
		Example:     "  shoal config check --config ./shoal.yaml",
		Annotations: offline(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			if err := cfg.Check(); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			return err
		},
	}
	for _, c := range []*cobra.Command{show, check} {
		config.AddFlags(c.Flags())
		cmd.AddCommand(c)
	}
	return cmd
}
