// Package gvisor runs sandboxes in gVisor, a kernel in user space that is linked into our own program.
//
// It is a driver of the contract in internal/runtime, and the only place that may import gVisor. It must not know of
// tenants, templates or the store, nor how a tree or a network slot was made. Start with Driver in this file, then
// create.go (the server's half of making a sandbox), creator.go (the other half, in a short-lived process of its own),
// kill.go and watch.go.
//
// Processes: the server starts a creator, the same program under another name, from the copy of itself that is kept
// by digest. The creator has nothing of the server's: no descriptor but its pipes and the network namespace, no
// environment, null streams, a private mount namespace, the sandbox's cgroup. It starts sentry (the kernel) and gofer
// (the file server), which run as unprivileged host users in a user namespace, and exits. All later commands go from the
// server to the sentry through its control socket.
package gvisor

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// The range of host ids that guest ids are mapped to, unless Config says otherwise. Guest ids above it don't exist.
const (
	DefaultOwnerUID   = 1_000_000
	DefaultOwnerCount = 65_536
)

// Config is what the driver needs to know of its host.
type Config struct {
	// StateDir holds the driver's records and gVisor's own state. It is made if missing, and kept 0700.
	StateDir string
	// BinDir holds our program by digest, one folder each: sentries run from there. It may be on any local filesystem
	// that allows execution.
	BinDir string
	// Executable is the program to start sentries from; empty means the running program itself. It must call RunFace
	// first thing in main.
	Executable string
	// CgroupRoot is where control groups are mounted; empty means DefaultCgroupRoot.
	CgroupRoot string
	// CgroupParent is the cgroup, relative to the root of each hierarchy, under which the driver makes one of its own;
	// empty means "shoal". It must not be inside the server's own cgroup, or stopping the service would stop sandboxes.
	CgroupParent string
	// FormerCgroupParents are those that the same StateDir was used with before: sandboxes may still be below them.
	FormerCgroupParents []string
	// TreesDir is where the sandboxes' trees are: whether what goes to and from the disk can be weighed depends on the devices
	// below. Empty means that it can't.
	TreesDir string
	// DialSlot connects to a TCP port inside a sandbox's network slot.
	DialSlot func(ctx context.Context, id core.SandboxID, port uint16) (net.Conn, error)
	// OwnerUID and OwnerCount are the host ids that guest ids are mapped to; zero means the defaults.
	OwnerUID   int
	OwnerCount int
	// DebugLogDir, if set, makes sentries and gofers write gVisor's debug log there. It slows everything down.
	DebugLogDir string
	Logger      *slog.Logger
}

// Driver runs sandboxes in gVisor. All methods may be called from any goroutine.
//
// Durable: one record per sandbox in StateDir, its cgroups, and gVisor's state files. Process-only: boxes, their locks
// and watchers. Lock order: box.op, then Driver.mu or box.mu.
type Driver struct {
	*freezer
	cfg     Config
	digest  string
	program string
	cgroups cgroupTree
	log     *slog.Logger
	exits   chan runtime.Exit
	// closing ends watchers and sends; watchers counts them.
	closing  chan struct{}
	watchers sync.WaitGroup

	mu     sync.Mutex
	closed bool
	boxes  map[core.SandboxID]*box
}

var _ runtime.Driver = (*Driver)(nil)

// Open prepares the host and returns a driver that finds what an earlier one has left.
//
// It makes the process the reaper of orphans below it, since sandboxes are orphaned by their creator on purpose.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if err := checkVersion(); err != nil {
		return nil, err
	}
	for _, dir := range []string{cfg.StateDir, cfg.BinDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make runtime directory: %w", err)
		}
	}
	if err := os.Chmod(cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("close state directory: %w", err)
	}
	digest, program, err := installProgram(ctx, cfg.Executable, cfg.BinDir)
	if err != nil {
		return nil, fmt.Errorf("install program by digest: %w", err)
	}
	cgroups, err := openAllCgroups(cfg.CgroupRoot, cfg.CgroupParent, cfg.FormerCgroupParents, treeName(cfg.StateDir))
	if err != nil {
		return nil, fmt.Errorf("open cgroups: %w", err)
	}
	if err := weighTrees(cgroups, cfg.TreesDir); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become reaper of orphans: %w", err)
	}
	takeLibraryLog(cfg.Logger)
	d := &Driver{
		cfg: cfg, digest: digest, program: program, cgroups: cgroups, log: cfg.Logger,
		exits: make(chan runtime.Exit, 16), closing: make(chan struct{}), boxes: map[core.SandboxID]*box{},
	}
	d.freezer = newFreezer(d)
	return d, nil
}

// complete checks a Config and fills in defaults.
func (c Config) complete() (Config, error) {
	for name, dir := range map[string]string{"StateDir": c.StateDir, "BinDir": c.BinDir} {
		if !filepath.IsAbs(dir) {
			return c, fmt.Errorf("%s must be an absolute path, not %q", name, dir)
		}
	}
	if c.DialSlot == nil {
		return c, fmt.Errorf("DialSlot is missing")
	}
	if c.Executable == "" {
		c.Executable = "/proc/self/exe"
	}
	if c.CgroupRoot == "" {
		c.CgroupRoot = DefaultCgroupRoot
	}
	if c.CgroupParent == "" {
		c.CgroupParent = "shoal"
	}
	if c.OwnerUID == 0 {
		c.OwnerUID = DefaultOwnerUID
	}
	if c.OwnerCount == 0 {
		c.OwnerCount = DefaultOwnerCount
	}
	if c.OwnerUID < 1 || c.OwnerCount < 65_536 {
		return c, fmt.Errorf("guest ids need at least 65536 host ids that don't include root")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Capabilities says what this host lets the driver do.
func (d *Driver) Capabilities() runtime.Capabilities {
	io := d.cgroups.weighsIO()
	return runtime.Capabilities{
		IOWeight: io.most, IOWeightReason: io.lacks,
		CPULimit: d.cgroups.limitsCPU(), MemoryLimit: d.cgroups.limitsMemory(), CPUWeight: d.cgroups.weighsCPU(), Survives: true,
		OpenFiles: sandboxDescriptors(),
		OwnerUID:  d.cfg.OwnerUID, OwnerCount: d.cfg.OwnerCount,
	}
}

// Digest names the binary that new sandboxes run, as hex sha256.
func (d *Driver) Digest() string { return d.digest }

// Exits delivers each end of a started or adopted sandbox that Kill did not ask for.
func (d *Driver) Exits() <-chan runtime.Exit { return d.exits }

// Close stops watching and closes Exits. Sandboxes go on.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	boxes := make([]*box, 0, len(d.boxes))
	for _, b := range d.boxes {
		boxes = append(boxes, b)
	}
	d.mu.Unlock()

	close(d.closing)
	for _, b := range boxes {
		b.unwatch()
	}
	d.watchers.Wait()
	close(d.exits)
	return nil
}

// dialTimeout bounds one connection attempt: what has just died swallows packets and answers nothing.
const dialTimeout = 5 * time.Second

// DialGuest opens one more connection to the guest agent, through the sandbox's network slot.
func (d *Driver) DialGuest(ctx context.Context, id core.SandboxID) (net.Conn, error) {
	b, err := d.known(id)
	if err != nil {
		return nil, err
	}
	r := b.current()
	if !r.Started || !r.Sentry.alive() {
		return nil, core.Errorf(core.CodeUnavailable, "the sandbox does not run")
	}
	ctx, cancel := b.context(ctx, dialTimeout)
	defer cancel()
	conn, err := d.cfg.DialSlot(ctx, id, agentPort)
	if err != nil {
		if core.CodeOf(err) != core.CodeInternal {
			return nil, err
		}
		return nil, core.Wrap(core.CodeUnavailable, err, "the guest agent does not answer")
	}
	return conn, nil
}

// sandboxDescriptors is what limitDescriptors comes to in a creator that this process starts.
func sandboxDescriptors() int {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil || own.Max >= sandboxFiles || canRaise() {
		return sandboxFiles
	}
	return int(own.Max)
}

// canRaise reports whether this process may raise its limits.
func canRaise() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}
