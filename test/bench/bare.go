package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/disk/btrfs"
	"shoal/internal/guest/client"
	"shoal/internal/guest/embedded"
	"shoal/internal/guest/wire"
	"shoal/internal/image"
	"shoal/internal/network"
	"shoal/internal/network/linux"
	"shoal/internal/runtime"
	"shoal/internal/runtime/gvisor"
)

// bareCgroup is the parent of the bare side's control groups.
const bareCgroup = "shoal-bench-bare"

// bare is the drivers without a server: no API, no store, no journal.
type bare struct {
	dir     string
	disk    *btrfs.Driver
	network *linux.Driver
	runtime *gvisor.Driver
	runDir  string
	library libraryTimes
	// noTemplate says that open makes none.
	noTemplate bool
}

var bareTemplate = disk.Ref{Kind: disk.KindTemplate, ID: "bare"}

func (b *bare) open(ctx context.Context) (err error) {
	b.runDir = filepath.Join(b.dir, "agent")
	log := slog.New(slog.DiscardHandler)
	if err := os.MkdirAll(b.runDir, 0o755); err != nil {
		return err
	}
	agent, err := embedded.Agent()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.runDir, "agent"), agent, 0o755); err != nil {
		return err
	}
	if b.disk, err = btrfs.Open(ctx, btrfs.Config{Dir: filepath.Join(b.dir, "pool"), OwnerGID: gvisor.DefaultOwnerUID, Logger: log}); err != nil {
		return err
	}
	if b.network, err = linux.Open(ctx, linux.Config{Name: "bench", StateDir: filepath.Join(b.dir, "net"), Logger: log}); err != nil {
		return err
	}
	b.runtime, err = gvisor.Open(ctx, gvisor.Config{
		StateDir: filepath.Join(b.dir, "runtime"), BinDir: filepath.Join(b.dir, "bin"), CgroupParent: bareCgroup,
		DialSlot: b.network.Dial, Logger: slog.New(&b.library),
	})
	if err != nil || b.noTemplate {
		return err
	}
	path, err := b.disk.Create(ctx, bareTemplate)
	if err != nil {
		return err
	}
	_, err = image.Bootstrap(ctx, image.BootstrapConfig{
		Recipe: image.Minimal, Dir: path, OwnerUID: gvisor.DefaultOwnerUID, WorkDir: filepath.Join(b.dir, "cache"), Logger: log,
	})
	if err != nil {
		return err
	}
	return b.disk.Freeze(ctx, bareTemplate)
}

// remove takes everything off the machine, however far open came.
func (b *bare) remove() error {
	ctx := context.Background()
	var errs []error
	if b.runtime != nil {
		list, err := b.runtime.List(ctx)
		errs = append(errs, err)
		for _, s := range list {
			errs = append(errs, b.runtime.Kill(ctx, s.ID))
		}
		errs = append(errs, b.runtime.Uninstall(ctx), b.runtime.Close())
	}
	if b.network != nil {
		errs = append(errs, b.network.Destroy(ctx), b.network.Close())
	}
	if b.disk != nil {
		errs = append(errs, b.disk.Unmount(ctx), b.disk.Close())
	}
	return errors.Join(errs...)
}

// bareMachine is one bare sandbox whose guest agent answers.
type bareMachine struct {
	id    core.SandboxID
	guest *client.Client
	// clone and attach are what tree and network slot took, create and start what the driver's calls took, library what gVisor's New and Start took within them, and ready is
	// the time from there to the agent's first answer.
	clone, attach, create, start, ready time.Duration
	library                             libraryTake
}

// startMachine makes tree, slot and sandbox one after the other, and measures each.
func (b *bare) startMachine(ctx context.Context) (*bareMachine, error) {
	m := &bareMachine{id: core.SandboxID(core.NewID())}
	at := time.Now()
	root, err := b.disk.Clone(ctx, bareTemplate, treeOf(m.id), disk.CloneOptions{})
	if err != nil {
		return nil, err
	}
	m.clone, at = time.Since(at), time.Now()
	slot, err := b.network.Attach(ctx, m.id, network.EgressDeny)
	if err != nil {
		return nil, err
	}
	m.attach, at = time.Since(at), time.Now()
	err = b.runtime.Create(ctx, runtime.Spec{
		ID: m.id, Incarnation: 1, RootFS: root, RunDir: b.runDir, NetNS: slot.NetNS, Hostname: "bare",
		Resources: core.Resources{VCPUs: 1, MemoryBytes: 512 << 20},
	})
	if err != nil {
		return nil, err
	}
	m.create, at = time.Since(at), time.Now()
	if err := b.runtime.Start(ctx, m.id); err != nil {
		return nil, err
	}
	m.start, at = time.Since(at), time.Now()
	m.library = b.library.take()
	m.guest = client.New(client.Config{Dial: func(ctx context.Context) (net.Conn, error) { return b.runtime.DialGuest(ctx, m.id) }})
	if err := m.configure(ctx); err != nil {
		return nil, err
	}
	m.ready = time.Since(at)
	return m, nil
}

// configure gives the guest agent its identity as soon as it listens.
func (m *bareMachine) configure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := m.guest.Configure(ctx, wire.Identity{Sandbox: string(m.id), Incarnation: 1, Hostname: "bare"})
		if !core.IsCode(err, core.CodeUnavailable) {
			return err
		}
		if pause(ctx, time.Millisecond) != nil {
			return fmt.Errorf("the guest agent does not answer: %w", err)
		}
	}
}

func treeOf(id core.SandboxID) disk.Ref { return disk.Ref{Kind: disk.KindSandbox, ID: string(id)} }

func (b *bare) stopMachine(ctx context.Context, m *bareMachine) error {
	m.guest.Close()
	return errors.Join(b.runtime.Kill(ctx, m.id), b.network.Detach(ctx, m.id), b.disk.Delete(ctx, treeOf(m.id)))
}
