package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"shoal/internal/config"
	"shoal/internal/core"
	"shoal/internal/obs"
)

// uninstallCommand takes everything of a server off the machine.
func uninstallCommand() *cobra.Command {
	var deleteData, yes bool
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "End every sandbox and take the server's mounts, namespaces and cgroups off this machine",
		Long: `End every sandbox of a stopped server, and remove its network, cgroups, mounts and loop device.

The data directory stays unless --delete-data is given: then templates, records and files of all tenants are deleted too,
for good.`,
		Example: `  shoal uninstall --yes
  shoal uninstall --data-dir /srv/shoal --delete-data --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(config.Sources{Environ: os.Environ(), Flags: cmd.Flags()})
			if err != nil {
				return err
			}
			if !yes {
				return core.Invalid("yes", "this ends all sandboxes under %s: say --yes if you mean it", cfg.DataDir)
			}
			if err := uninstall(cmd, cfg, deleteData); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "nothing of %s is left on this machine\n", cfg.DataDir)
			return err
		},
	}
	config.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&deleteData, "delete-data", false, "also delete the data directory, for good")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	return cmd
}

func uninstall(cmd *cobra.Command, cfg *config.Config, deleteData bool) error {
	ctx := cmd.Context()
	if _, err := os.Stat(cfg.DataDir); errors.Is(err, os.ErrNotExist) {
		return core.Errorf(core.CodeNotFound, "there is no data directory %s", cfg.DataDir)
	}
	dir, err := openDataDir(cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.close() }()
	log, err := obs.NewLogger(cmd.ErrOrStderr(), cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	d, err := openDrivers(ctx, dir, cfg, log)
	if err != nil {
		return err
	}
	if err := removeAll(ctx, d); err != nil {
		return errors.Join(err, d.close())
	}
	if err := d.close(); err != nil {
		return err
	}
	if err := unmountBelow(dir.path); err != nil || !deleteData {
		return err
	}
	return os.RemoveAll(dir.path)
}

// removeAll ends every sandbox and takes the drivers' own things off the machine.
func removeAll(ctx context.Context, d *drivers) error {
	machines, err := d.runtime.List(ctx)
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	for _, m := range machines {
		if err := d.runtime.Kill(ctx, m.ID); err != nil {
			return fmt.Errorf("kill sandbox %s: %w", m.ID, err)
		}
	}
	if err := d.runtime.Uninstall(ctx); err != nil {
		return fmt.Errorf("uninstall runtime: %w", err)
	}
	if err := d.network.Destroy(ctx); err != nil {
		return fmt.Errorf("remove network: %w", err)
	}
	if err := d.disk.Unmount(ctx); err != nil {
		return fmt.Errorf("unmount pool: %w", err)
	}
	return nil
}

// unmountBelow fails if something is still mounted below dir: deleting would then delete through it.
func unmountBelow(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := unix.Unmount(m, 0); err != nil {
			return fmt.Errorf("unmount %s: %w", filepath.Clean(m), err)
		}
	}
	return nil
}
