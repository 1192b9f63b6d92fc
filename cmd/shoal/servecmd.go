package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"shoal/internal/config"
	"shoal/internal/core"
	"shoal/internal/obs"
)

// serveCommand is the server.
func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server: API, control and node in one process",
		Long: `Run the server. It needs root, keeps everything below its data directory, and writes an admin key there at first start.

Stopping it stops no sandbox: the next start takes them over. Settings come from the configuration file, then SHOAL_*
variables, then flags; 'shoal config print' shows the result.`,
		Example: `  shoal serve
  shoal serve --data-dir /srv/shoal --listen 127.0.0.1:8701
  SHOAL_LOG_LEVEL=debug shoal serve`,
		Args: cobra.NoArgs,
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
			fmt.Fprintf(cmd.ErrOrStderr(), "shoal %s serves at %s\nadmin key: %s\n", version, s.url, s.dir.join("admin.key"))
			return s.serve(cmd.Context())
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}

// configCommand shows and checks the configuration.
func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show or check the server's configuration",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return core.Invalid("config", "say what: shoal config print or shoal config check")
		},
	}
	load := func(cmd *cobra.Command) (*config.Config, error) {
		return config.Load(config.Sources{Environ: os.Environ(), Flags: cmd.Flags()})
	}
	show := &cobra.Command{
		Use:     "print",
		Short:   "Print every setting with its value and where that comes from",
		Example: "  shoal config print\n  shoal config print --config /etc/shoal/shoal.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			return cfg.Print(cmd.OutOrStdout())
		},
	}
	check := &cobra.Command{
		Use:     "check",
		Short:   "Say whether the server would start with this configuration",
		Example: "  shoal config check --config ./shoal.yaml",
		Args:    cobra.NoArgs,
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
