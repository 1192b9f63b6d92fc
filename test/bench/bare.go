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

// bare is the drivers without a server: no API, no store, no journal.
type bare struct {
	dir     string
	disk    *btrfs.Driver
	network *linux.Driver
	runtime *gvisor.Driver
	runDir  string
}

var bareTemplate = disk.Ref{Kind: disk.KindTemplate, ID: "bare"}

func openBare(ctx context.Context, dir string) (*bare, error) {
	b := &bare{dir: dir, runDir: filepath.Join(dir, "agent")}
	log := slog.New(slog.DiscardHandler)
	if err := os.MkdirAll(b.runDir, 0o755); err != nil {
		return nil, err
	}
	agent, err := embedded.Agent()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(b.runDir, "agent"), agent, 0o755); err != nil {
		return nil, err
	}
	if b.disk, err = btrfs.Open(ctx, btrfs.Config{Dir: filepath.Join(dir, "pool"), OwnerGID: gvisor.DefaultOwnerUID, Logger: log}); err != nil {
		return nil, err
	}
	if b.network, err = linux.Open(ctx, linux.Config{Name: "bench", StateDir: filepath.Join(dir, "net"), Logger: log}); err != nil {
		return nil, err
	}
	b.runtime, err = gvisor.Open(ctx, gvisor.Config{
		StateDir: filepath.Join(dir, "runtime"), BinDir: filepath.Join(dir, "bin"), CgroupParent: "shoal-bench-bare",
		DialSlot: b.network.Dial, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	path, err := b.disk.Create(ctx, bareTemplate)
	if err != nil {
		return nil, err
	}
	_, err = image.Bootstrap(ctx, image.BootstrapConfig{
		Recipe: image.Minimal, Dir: path, OwnerUID: gvisor.DefaultOwnerUID, WorkDir: filepath.Join(dir, "cache"), Logger: log,
	})
	if err != nil {
		return nil, err
	}
	return b, b.disk.Freeze(ctx, bareTemplate)
}

// remove takes everything off the machine.
func (b *bare) remove() error {
	ctx := context.Background()
	list, err := b.runtime.List(ctx)
	for _, s := range list {
		err = firstError(err, b.runtime.Kill(ctx, s.ID))
	}
	return errors.Join(err, b.runtime.Uninstall(ctx), b.runtime.Close(), b.network.Destroy(ctx), b.network.Close(),
		b.disk.Unmount(ctx), b.disk.Close())
}

// machine is one bare sandbox whose guest agent answers.
type bareMachine struct {
	id    core.SandboxID
	guest *client.Client
	// create, start and ready are what New, Start and the agent's first answer took.
	create, start, ready time.Duration
}

// startMachine prepares tree and slot outside the measured time, then measures the runtime alone.
func (b *bare) startMachine(ctx context.Context) (*bareMachine, error) {
	m := &bareMachine{id: core.SandboxID(core.NewID())}
	tree := disk.Ref{Kind: disk.KindSandbox, ID: string(m.id)}
	root, err := b.disk.Clone(ctx, bareTemplate, tree, disk.CloneOptions{})
	if err != nil {
		return nil, err
	}
	slot, err := b.network.Attach(ctx, m.id, network.EgressDeny)
	if err != nil {
		return nil, err
	}
	at := time.Now()
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
	m.guest = client.New(client.Config{Dial: func(ctx context.Context) (net.Conn, error) { return b.runtime.DialGuest(ctx, m.id) }})
	for err = m.guest.Configure(ctx, wire.Identity{Sandbox: string(m.id), Incarnation: 1, Hostname: "bare"}); core.IsCode(err, core.CodeUnavailable); {
		if time.Since(at) > 30*time.Second {
			return nil, fmt.Errorf("the guest agent does not answer: %w", err)
		}
		<-time.After(2 * time.Millisecond)
		err = m.guest.Configure(ctx, wire.Identity{Sandbox: string(m.id), Incarnation: 1, Hostname: "bare"})
	}
	m.ready = time.Since(at)
	return m, err
}

func (b *bare) stopMachine(ctx context.Context, m *bareMachine) error {
	m.guest.Close()
	return errors.Join(b.runtime.Kill(ctx, m.id), b.network.Detach(ctx, m.id),
		b.disk.Delete(ctx, disk.Ref{Kind: disk.KindSandbox, ID: string(m.id)}))
}
