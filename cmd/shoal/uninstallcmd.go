package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

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
		Short: "End every sandbox and take what the server made off this machine",
		Long: `End every sandbox of a stopped server, and remove its network, cgroups, mounts and loop device. Needs root, and the
--data-dir that the server had. The program and its systemd unit stay: 'make uninstall' removes those.

The data directory stays unless --delete-data is given: then templates, records and files of all tenants are deleted too,
for good. On a terminal it asks before it does anything, unless --yes is given; elsewhere it wants --yes.`,
		Example: `  sudo systemctl stop shoal && sudo shoal uninstall --yes
  sudo shoal uninstall --data-dir /srv/shoal --delete-data --yes`,
		Annotations: offline(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(config.Sources{Environ: os.Environ(), Flags: cmd.Flags()})
			if err != nil {
				return err
			}
			warning := "this ends all sandboxes under " + cfg.DataDir
			if deleteData {
				warning += " and deletes all that is in it, for good"
			}
			asked, ok := cmd.InOrStdin().(*os.File)
			switch {
			case yes:
				asked = nil
			case !ok || !isTerminal(asked):
				return core.Invalid("yes", "%s: say --yes if you mean it", warning)
			}
			err = uninstall(cmd, cfg, deleteData, func() error {
				if asked == nil {
					return nil
				}
				return confirm(cmd.Context(), asked, cmd.ErrOrStderr(), warning)
			})
			if err != nil {
				return err
			}
			text := "nothing of %s is left on this machine\n"
			if !deleteData {
				text = "nothing of %s runs or is mounted any more; what is in it is still there\n"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), text, cfg.DataDir)
			return err
		},
	}
	// The quiet ones are what openDrivers reads besides.
	addSettings(cmd, []string{"data-dir", "runtime-cgroup-parent"},
		[]string{"runtime-owner-uid", "pool-max-size", "pool-min-host-free", "log-level", "log-format"})
	cmd.Flags().BoolVar(&deleteData, "delete-data", false, "also delete the data directory, for good")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	return cmd
}

// uninstall calls confirm when it could begin, and does nothing if that fails.
func uninstall(cmd *cobra.Command, cfg *config.Config, deleteData bool, confirm func() error) error {
	ctx := cmd.Context()
	if os.Geteuid() != 0 {
		return core.Errorf(core.CodeDenied, "this needs root: it takes away mounts, namespaces and cgroups (try sudo)")
	}
	resolved, err := usedDataDir(cfg.DataDir)
	if err != nil {
		return err
	}
	dir, err := openDataDir(cfg.DataDir)
	if core.IsCode(err, core.CodeConflict) {
		return core.Errorf(core.CodeConflict, "the server of %s still runs: stop it first (systemctl stop shoal, or end shoal serve)", cfg.DataDir)
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.close() }()
	if err := confirm(); err != nil {
		return err
	}
	log, err := quietLogger(cmd.ErrOrStderr(), cfg)
	if err != nil {
		return err
	}
	if err := removeAll(ctx, dir, cfg, log); err != nil {
		return err
	}
	if err := unmountBelow(resolved); err != nil || !deleteData {
		return err
	}
	// Its content first: where the path is a link, removing the path alone would leave all of it.
	return errors.Join(os.RemoveAll(resolved), os.RemoveAll(dir.path))
}

// quietLogger returns a logger for a person who reads along: only what is wrong, unless a level is set.
func quietLogger(w io.Writer, cfg *config.Config) (*slog.Logger, error) {
	level := cfg.Log.Level
	if !cfg.IsSet("log.level") {
		level = "warn"
	}
	return obs.NewLogger(w, level, cfg.Log.Format)
}

// usedDataDir returns a data directory's path without links, as the kernel lists mounts. It refuses a directory that no
// server has used: a mistyped path must not delete somebody's files.
func usedDataDir(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", core.Errorf(core.CodeNotFound, "there is no data directory %s", path)
	}
	if err != nil {
		return "", fmt.Errorf("find data directory: %w", err)
	}
	info, err := os.Lstat(filepath.Join(resolved, storeFile))
	if errors.Is(err, os.ErrNotExist) || (err == nil && !info.Mode().IsRegular()) {
		return "", core.Errorf(core.CodeNotFound, "no server has used %s: it holds no %s", path, storeFile)
	}
	if err != nil {
		return "", fmt.Errorf("find store: %w", err)
	}
	return resolved, nil
}

// unmountTimeout bounds the wait for the pool's loop device, which some other program may still look into.
const unmountTimeout = 30 * time.Second

// removeAll ends every sandbox and takes the drivers' own things off the machine.
func removeAll(ctx context.Context, dir *dataDir, cfg *config.Config, log *slog.Logger) (err error) {
	own := *cfg
	if own.Runtime.CgroupParent, err = parentToClear(dir, cfg); err != nil {
		return err
	}
	d := &drivers{}
	defer func() { err = errors.Join(err, d.close()) }()
	// The pool comes last: one that can't be opened any more must not keep the rest on the machine.
	if err := d.openMachines(ctx, dir, &own, log); err != nil {
		return err
	}
	if err := removeMachines(ctx, d); err != nil {
		return err
	}
	if err := d.network.Destroy(ctx); err != nil {
		return fmt.Errorf("remove network: %w", err)
	}
	if err := d.openDisk(ctx, dir, cfg, log); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, unmountTimeout)
	defer cancel()
	if err := d.disk.Unmount(ctx); err != nil {
		return fmt.Errorf("unmount pool: %w", err)
	}
	return dir.forgetCgroupParents()
}

// parentToClear is the parent cgroup to clear beside all that servers of the data directory have noted: one that is given, or
// the setting's if none was noted.
func parentToClear(dir *dataDir, cfg *config.Config) (string, error) {
	noted, err := dir.cgroupParents()
	if err != nil {
		return "", err
	}
	if len(noted) == 0 || cfg.IsSet("runtime.cgroup_parent") {
		return cfg.Runtime.CgroupParent, nil
	}
	return noted[0], nil
}

// removeMachines ends every sandbox, and removes the runtime's own things.
func removeMachines(ctx context.Context, d *drivers) error {
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
	return nil
}

// unmountBelow takes away what is still mounted below dir, such as an instance of the pool that a crash left behind. It
// fails if something uses it: deleting would then delete through it.
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
