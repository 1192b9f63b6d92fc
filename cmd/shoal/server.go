package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/config"
	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/guest/embedded"
	"shoal/internal/httpapi"
	"shoal/internal/image"
	"shoal/internal/node"
	"shoal/internal/obs"
	"shoal/internal/store"
	"shoal/internal/store/sqlite"
)

// shutdownGrace is how long calls under way may go on when the server is stopped.
const shutdownGrace = 10 * time.Second

// server is the whole program as a value: everything that serve opens, in the order in which it is closed backwards.
type server struct {
	cfg      *config.Config
	log      *slog.Logger
	dir      *dataDir
	store    store.Store
	drivers  *drivers
	node     *node.Node
	control  *control.Service
	metrics  *obs.Metrics
	listener net.Listener
	url      string
	closers  []func() error
}

// openServer opens everything but the listener. On an error nothing stays open.
func openServer(ctx context.Context, cfg *config.Config, log *slog.Logger) (_ *server, err error) {
	if os.Geteuid() != 0 {
		return nil, core.Errorf(core.CodeDenied, "the server needs root: it makes namespaces, cgroups and mounts (try sudo)")
	}
	if !failpoint.Enabled && os.Getenv("SHOAL_FAILPOINTS") != "" {
		return nil, core.Invalid("SHOAL_FAILPOINTS", "SHOAL_FAILPOINTS needs a program that was built with the tag failpoint")
	}
	s := &server{cfg: cfg, log: log, metrics: obs.NewMetrics()}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := keepFilesToOurselves(); err != nil {
		return nil, err
	}
	if err := raiseFileLimit(); err != nil {
		return nil, err
	}
	unix.Umask(0o022)
	if s.dir, err = openDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	s.onClose(s.dir.close)
	if err := s.bind(ctx); err != nil { // before anything is made: a port in use is the commonest mistake
		return nil, err
	}
	if s.store, err = sqlite.Open(ctx, sqlite.Config{Path: s.dir.join(storeFile), Logger: log}); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.onClose(s.store.Close)
	if err := s.dir.noteCgroupParent(cfg.Runtime.CgroupParent); err != nil {
		return nil, err
	}
	if s.drivers, err = openDrivers(ctx, s.dir, cfg, log); err != nil {
		return nil, err
	}
	s.onClose(s.drivers.close)
	if err := s.openNode(ctx); err != nil {
		return nil, err
	}
	return s, s.openControl(ctx)
}

func (s *server) onClose(f func() error) { s.closers = append(s.closers, f) }

// close closes everything, the last opened first. Sandboxes go on.
func (s *server) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		if err := s.closers[i](); err != nil {
			s.log.Warn("close", slog.Any("err", err))
		}
	}
	s.closers = nil
}

func (s *server) openNode(ctx context.Context) error {
	agent, err := embedded.Agent()
	if err != nil {
		return err
	}
	memory, err := promisableMemory(s.cfg.Node)
	if err != nil {
		return err
	}
	s.node, err = node.Open(ctx, node.Config{
		Dir: s.dir.join("node"), Runtime: s.drivers.runtime, Disk: s.drivers.disk, Network: s.drivers.network,
		AgentBinary: agent, Logger: s.log,
		Digest: func(ctx context.Context, dir string) (core.TreeInfo, error) {
			return image.Digest(ctx, dir, s.cfg.Runtime.OwnerUID)
		},
		Limits: node.Limits{MemoryBytes: memory, MaxSandboxes: s.cfg.Node.MaxSandboxes, MinDiskFreeBytes: minDiskFree},
	})
	if err != nil {
		return fmt.Errorf("open node: %w", err)
	}
	s.onClose(s.node.Close)
	if removed, err := s.drivers.runtime.CollectPrograms(ctx); err != nil {
		s.log.Warn("remove old programs", slog.Any("err", err))
	} else if len(removed) > 0 {
		s.log.Info("removed programs that no sandbox runs from", slog.Any("digests", removed))
	}
	return nil
}

// minDiskFree is the space in the pool below which no sandbox is begun.
const minDiskFree = 256 << 20

// promisableMemory is the sum of memory limits that the node may promise.
func promisableMemory(cfg config.Node) (int64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("read the host's memory: %w", err)
	}
	total := int64(info.Totalram) * int64(info.Unit)
	usable := total - int64(cfg.MemoryReserve)
	if usable <= 0 {
		return 0, core.Invalid("node.memory_reserve", "node.memory_reserve is more than the host's %d bytes of memory", total)
	}
	return int64(float64(usable) * cfg.MemoryOvercommit), nil
}

func (s *server) openControl(ctx context.Context) error {
	id, err := nodeID(ctx, s.store)
	if err != nil {
		return err
	}
	limits, err := s.limits()
	if err != nil {
		return err
	}
	s.control = control.New(control.Config{
		Store: s.store, Node: s.node, NodeID: id, Limits: limits, Build: s.buildTemplate,
		Bootstrap: s.cfg.Templates.Bootstrap, Logger: s.log, Observer: s.metrics,
	})
	if err := s.control.Start(ctx); err != nil {
		return fmt.Errorf("take over what a restart left: %w", err)
	}
	s.onClose(s.control.Close)
	made, err := s.dir.ensureAdminKey(ctx, s.control)
	if made {
		s.log.Info("made an admin key", slog.String("path", s.dir.join("admin.key")))
	}
	return err
}

// nodeID is this node's id, made at first start.
func nodeID(ctx context.Context, st store.Store) (id core.NodeID, err error) {
	err = st.Update(ctx, func(tx store.Tx) error {
		text, err := tx.Setting("node_id")
		if core.IsCode(err, core.CodeNotFound) {
			text = core.NewID()
			err = tx.PutSetting("node_id", text)
		}
		id = core.NodeID(text)
		return err
	})
	return id, err
}

// limits are the defaults and ceilings of what callers may ask for.
func (s *server) limits() (control.Limits, error) {
	c := s.cfg
	maxVCPUs := c.Sandbox.VCPUsMax
	if maxVCPUs == 0 {
		maxVCPUs = float64(runtime.NumCPU())
	}
	disk := s.drivers.disk.Capabilities()
	l := control.Limits{
		DefaultTTL: c.TTL.Default, MaxTTL: c.TTL.Max,
		Default:   core.Resources{VCPUs: min(c.Sandbox.VCPUs, maxVCPUs), MemoryBytes: int64(c.Sandbox.Memory)},
		Max:       core.Resources{VCPUs: maxVCPUs, MemoryBytes: int64(c.Sandbox.MemoryMax)},
		DiskQuota: disk.Quota, DiskQuotaReason: disk.QuotaReason,
	}
	if disk.Quota {
		l.Default.DiskBytes = int64(c.Sandbox.Disk)
	} else if c.IsSet("sandbox.disk") && c.Sandbox.Disk != 0 {
		return l, &core.Error{
			Code: core.CodeUnsupported, Field: "sandbox.disk",
			Message: "sandbox.disk can't be enforced on this host: " + disk.QuotaReason + "; set it to 0",
		}
	}
	if len(c.Templates.Bootstrap) > 0 {
		l.DefaultTemplate = c.Templates.Bootstrap[0]
	}
	return l, nil
}

// buildTemplate makes the tree of one of our own templates.
func (s *server) buildTemplate(ctx context.Context, recipe, dir string, progress func(string, int)) (control.BuiltTemplate, error) {
	res, err := image.Bootstrap(ctx, image.BootstrapConfig{
		Recipe: image.Recipe(recipe), Dir: dir, OwnerUID: s.cfg.Runtime.OwnerUID, WorkDir: s.dir.join("cache"),
		Mirror: s.cfg.Templates.Mirror, Suite: s.cfg.Templates.Suite, Progress: progress, Logger: s.log,
	})
	return control.BuiltTemplate{Source: res.Source, Packages: res.Packages, Config: res.Config}, err
}

// bind takes the address. Calls wait until serve answers them.
func (s *server) bind(ctx context.Context) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return core.Wrap(core.CodeUnavailable, err, "can't listen on %s: another program may use it, or the address is not this machine's: choose another with --listen", s.cfg.Listen)
	}
	scheme := "http"
	if s.cfg.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(s.cfg.TLSCert, s.cfg.TLSKey)
		if err != nil {
			return errors.Join(fmt.Errorf("load TLS certificate: %w", err), ln.Close())
		}
		ln = tls.NewListener(ln, &tls.Config{
			Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		})
		scheme = "https"
	}
	s.listener, s.url = ln, scheme+"://"+dialable(ln.Addr().String())
	s.onClose(func() error {
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("close listener: %w", err)
		}
		return nil
	})
	return nil
}

// dialable is the address by which a client on this machine reaches a listener: one that takes every address has none of its own.
func dialable(listen string) string {
	addr, err := netip.ParseAddrPort(listen)
	if err != nil || !addr.Addr().IsUnspecified() {
		return listen
	}
	loopback := netip.IPv6Loopback()
	if addr.Addr().Is4() {
		loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrPortFrom(loopback, addr.Port()).String()
}

// serve answers until ctx ends.
func (s *server) serve(ctx context.Context) error {
	host, _, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return fmt.Errorf("read own address: %w", err)
	}
	api, err := httpapi.New(s.control, httpapi.Options{
		Logger: s.log, Version: version, Commit: commit, Registry: s.metrics.Registry(),
		Loopback: net.ParseIP(host).IsLoopback(), Hosts: s.cfg.Hosts, WideLog: s.cfg.Log.Format == "json",
	})
	if err != nil {
		return err
	}
	if err := s.dir.writeURL(s.url); err != nil { // tells the CLI on this machine where
		return err
	}
	notifyReady()
	s.log.Info("serving", slog.String("url", s.url), slog.String("listen", s.listener.Addr().String()), slog.String("data_dir", s.dir.path), slog.String("version", version))
	defer s.log.Info("stopped: sandboxes go on")
	return api.Serve(ctx, s.listener, shutdownGrace)
}

// keepFilesToOurselves marks what the server has inherited beyond its standard streams, so that no program that it starts
// inherits it in turn: a stray descriptor of the operator's shell is no business of a template's build or a sandbox, and
// mmdebstrap breaks on numbers from 10 on.
func keepFilesToOurselves() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return nil // Linux before 5.11: what we open ourselves is marked anyway.
	}
	if err != nil {
		return fmt.Errorf("mark inherited files: %w", err)
	}
	return nil
}

// raiseFileLimit lets the process open as many files as the host allows: each sandbox costs a few.
func raiseFileLimit() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("read file limit: %w", err)
	}
	l.Cur = l.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("raise file limit: %w", err)
	}
	return nil
}

// notifyReady tells systemd, if it started us, that calls are answered.
func notifyReady() {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" || (path[0] != '@' && !filepath.IsAbs(path)) {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return // systemd then says itself that the start timed out
	}
	_, _ = conn.Write([]byte("READY=1"))
	_ = conn.Close()
}
