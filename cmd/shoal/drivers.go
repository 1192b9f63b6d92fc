package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"shoal/internal/config"
	"shoal/internal/disk/btrfs"
	"shoal/internal/network/linux"
	"shoal/internal/runtime/gvisor"
)

// drivers are the real drivers of this machine.
type drivers struct {
	disk    *btrfs.Driver
	network *linux.Driver
	runtime *gvisor.Driver
}

// openDrivers opens all drivers below the data directory, or none.
func openDrivers(ctx context.Context, dir *dataDir, cfg *config.Config, log *slog.Logger) (_ *drivers, err error) {
	d := &drivers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if err := d.openDisk(ctx, dir, cfg, log); err != nil {
		return nil, err
	}
	return d, d.openMachines(ctx, dir, cfg, log)
}

func (d *drivers) openDisk(ctx context.Context, dir *dataDir, cfg *config.Config, log *slog.Logger) (err error) {
	d.disk, err = btrfs.Open(ctx, btrfs.Config{
		Dir: dir.join("pool"), MaxBytes: int64(cfg.Pool.MaxSize), MinHostFree: int64(cfg.Pool.MinHostFree),
		Logger: log,
	})
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	return nil
}

// openMachines opens network and runtime, which need no disk.
func (d *drivers) openMachines(ctx context.Context, dir *dataDir, cfg *config.Config, log *slog.Logger) (err error) {
	d.network, err = linux.Open(ctx, linux.Config{Name: "shoal", StateDir: dir.join("net"), Logger: log})
	if err != nil {
		return fmt.Errorf("open network: %w", err)
	}
	parents, err := dir.cgroupParents()
	if err != nil {
		return err
	}
	d.runtime, err = gvisor.Open(ctx, gvisor.Config{
		StateDir: dir.join("runtime"), BinDir: dir.join("bin"), CgroupParent: cfg.Runtime.CgroupParent,
		FormerCgroupParents: parents, TreesDir: btrfs.MountPoint(dir.join("pool")),
		DialSlot: d.network.Dial, OwnerUID: cfg.Runtime.OwnerUID, Logger: log,
	})
	if err != nil {
		return fmt.Errorf("open runtime: %w", err)
	}
	return nil
}

// close lets go of the drivers. Sandboxes go on.
func (d *drivers) close() error {
	var errs []error
	if d.runtime != nil {
		errs = append(errs, d.runtime.Close())
	}
	if d.network != nil {
		errs = append(errs, d.network.Close())
	}
	if d.disk != nil {
		errs = append(errs, d.disk.Close())
	}
	return errors.Join(errs...)
}
