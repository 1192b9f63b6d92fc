// Package node runs sandboxes on one machine: it joins a runtime, a disk and a network driver, keeps the journal of what
// exists here, and takes over what still runs after a restart of the server.
//
// It knows nothing of tenants' rights, names or the API. The store says what is wanted; the node's journal says what
// exists. Start reading at create.go and teardown.go, then adopt.go.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/network"
	"shoal/internal/runtime"
)

// Config is what a node needs.
type Config struct {
	// Dir is the node's own directory: the journal, the run directories and the guest agent's binary.
	Dir     string
	Runtime runtime.Driver
	Disk    disk.Driver
	Network network.Driver
	// AgentBinary is the guest agent, a static executable.
	AgentBinary []byte
	// Digest describes a tree before it is frozen.
	Digest func(ctx context.Context, dir string) (core.TreeInfo, error)
	// Clean takes out of a copy of a sandbox's tree what is its machine's own, and returns its packages. The tree is hostile.
	Clean func(ctx context.Context, dir string) ([]core.Package, error)
	// OwnerUID is the host id that is 0 in a sandbox.
	OwnerUID int
	Limits   Limits
	Clock    core.Clock
	Logger   *slog.Logger
}

// Node is one machine. It implements core.Node.
//
// Durable: the journal, the trees, the run directories. Process-only: the table of live sandboxes and the reservations,
// both rebuilt from the journal by Open.
type Node struct {
	*resting
	*admission
	cfg      Config
	journal  *journal
	turns    *turns
	machines *machines
	runDirs  runDirs
	*resizer
	*sleeping
	*checkpointing
	*differing
	log *slog.Logger

	exits chan core.NodeExit
	// suspects are machines that did not answer.
	suspects *suspects
	// stuck are machines that can't be let go, and are unreachable already.
	stuck chan runtime.Exit
	// closing is closed when the background ends.
	closing <-chan struct{}
	// cancel ends what runs in the background; Close waits for wg.
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

var _ core.Node = (*Node)(nil)

// Open reads the journal and takes over every sandbox that still runs. It destroys nothing: what must go, goes in Sweep,
// which knows what the store wants.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	if cfg.Clock == nil {
		cfg.Clock = core.SystemClock{}
	}
	for _, dir := range []string{cfg.Dir, filepath.Join(cfg.Dir, "run")} {
		if err := makeTraversable(dir); err != nil {
			return nil, err
		}
	}
	agentPath, err := installAgent(filepath.Join(cfg.Dir, "agent"), cfg.AgentBinary)
	if err != nil {
		return nil, err
	}
	j, err := openJournal(filepath.Join(cfg.Dir, "journal"))
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, journal: j, admission: newAdmission(cfg.Limits, cfg.Disk), turns: newTurns(), machines: newMachines(),
		runDirs: runDirs{dir: filepath.Join(cfg.Dir, "run"), agent: agentPath}, log: cfg.Logger, exits: make(chan core.NodeExit, 64),
		stuck: make(chan runtime.Exit),
	}
	n.resting = &resting{machines: n.machines, disk: cfg.Disk, ownerUID: cfg.OwnerUID}
	n.resizer = &resizer{runtime: cfg.Runtime, disk: cfg.Disk, journal: j, admission: n.admission, turns: n.turns, machines: n.machines, log: cfg.Logger}
	n.sleeping = &sleeping{n}
	n.checkpointing = &checkpointing{n: n, trees: newTurnsOf[core.CheckpointID]()}
	n.differing = &differing{n: n}
	n.suspects = newSuspects(cfg, n.machines, n.admission)
	if err := n.adopt(ctx); err != nil {
		n.machines.close()
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.cancel, n.closing = cancel, run.Done()
	n.wg.Go(func() { n.watchExits(run) })
	n.wg.Go(func() { n.watchAge(run) })
	n.wg.Go(func() { n.suspects.watch(run, n.exited) })
	return n, nil
}

// Close lets go of everything and leaves the sandboxes running. The drivers stay open: their owner closes them.
func (n *Node) Close() error {
	n.cancel()
	n.wg.Wait()
	n.machines.close()
	return nil
}

// Exits delivers sandboxes that ended by themselves.
func (n *Node) Exits() <-chan core.NodeExit { return n.exits }

// Capacity tells what the node has and has promised.
func (n *Node) Capacity(ctx context.Context) (core.NodeCapacity, error) {
	c := n.admission.capacity()
	space, err := n.cfg.Disk.Space(ctx)
	if err != nil {
		return c, fmt.Errorf("read disk space: %w", err)
	}
	c.DiskBytes, c.DiskFreeBytes = space.TotalBytes, space.FreeBytes
	return c, nil
}

// Guest returns the way to a running sandbox's guest agent.
func (n *Node) Guest(id core.SandboxID) (core.Guest, error) {
	m, err := n.machines.get(id)
	if err != nil {
		return nil, err
	}
	return m.guest, nil
}

// List returns the sandboxes that exist here.
func (n *Node) List(context.Context) ([]core.NodeSandbox, error) {
	entries, err := n.journal.list()
	if err != nil {
		return nil, err
	}
	out := make([]core.NodeSandbox, 0, len(entries))
	for _, e := range entries {
		if e.Phase != phaseRunning {
			continue
		}
		out = append(out, core.NodeSandbox{
			Sandbox: e.Sandbox, Incarnation: e.Incarnation, Epoch: e.Epoch,
			Running: n.machines.running(e.Sandbox, e.Incarnation),
		})
	}
	return out, nil
}

func sandboxTree(id core.SandboxID) disk.Ref {
	return disk.Ref{Kind: disk.KindSandbox, ID: string(id)}
}

func templateTree(id core.TemplateID) disk.Ref {
	return disk.Ref{Kind: disk.KindTemplate, ID: string(id)}
}

// makeTraversable makes a directory that the sentry's unprivileged user may pass through and not list.
func makeTraversable(dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	return os.Chmod(dir, 0o711)
}

// ignoreMissing drops the error of removing what is not there.
func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
