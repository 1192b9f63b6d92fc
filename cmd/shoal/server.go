package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"shoal/internal/config"
	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/failpoint"
	"shoal/internal/guest/embedded"
	"shoal/internal/httpapi"
	"shoal/internal/httpserve"
	"shoal/internal/image"
	"shoal/internal/image/spool"
	"shoal/internal/node"
	"shoal/internal/obs"
	"shoal/internal/seal"
	"shoal/internal/store"
	"shoal/internal/store/sqlite"
)

// shutdownGrace is how long calls under way may go on when the server is stopped.
const shutdownGrace = 10 * time.Second

// server is the whole program as a value: everything that serve opens, in the order in which it is closed backwards.
type server struct {
	cfg     *config.Config
	log     *slog.Logger
	dir     *dataDir
	store   store.Store
	drivers *drivers
	node    *node.Node
	control *control.Service
	metrics *obs.Metrics
	at      addresses
	closers []func() error
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
		Clean: func(ctx context.Context, dir string) ([]core.Package, error) {
			return image.Clean(ctx, dir, s.cfg.Runtime.OwnerUID)
		},
		OwnerUID: s.cfg.Runtime.OwnerUID,
		Limits:   node.Limits{MemoryBytes: memory, MaxSandboxes: s.cfg.Node.MaxSandboxes, MinDiskFreeBytes: minDiskFree},
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
	var sizes core.TreeSizes
	if s.drivers.disk.Capabilities().Quota {
		sizes = node.Sizes{Disk: s.drivers.disk}
	}
	importImage, err := s.imageImporter()
	if err != nil {
		return err
	}
	uploads, err := spool.Open(spool.Config{Dir: s.dir.join("uploads")})
	if err != nil {
		return fmt.Errorf("open uploads: %w", err)
	}
	s.control = control.New(control.Config{
		Store: s.store, Node: s.node, NodeID: id, BootID: bootID(), Limits: limits, Sizes: sizes, Build: s.buildTemplate, ImportImage: importImage, Spool: uploads,
		Vault:     seal.New(s.dir.join(seal.KeyFile)),
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

// bootID names this boot of the machine; empty if the kernel does not say.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
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
	disk, machines := s.drivers.disk.Capabilities(), s.drivers.runtime.Capabilities()
	l := control.Limits{
		DefaultTTL: c.TTL.Default, MaxTTL: c.TTL.Max,
		Default: core.Resources{
			VCPUs: min(c.Sandbox.VCPUs, maxVCPUs), MemoryBytes: int64(c.Sandbox.Memory),
			Pids: c.Sandbox.Pids, OpenFiles: c.Sandbox.OpenFiles, CPUWeight: c.Sandbox.CPUWeight,
			IOWeight: min(c.Sandbox.IOWeight, machines.IOWeight),
		},
		Max: core.Resources{
			VCPUs: maxVCPUs, MemoryBytes: int64(c.Sandbox.MemoryMax),
			Pids: c.Sandbox.PidsMax, OpenFiles: c.Sandbox.OpenFilesMax, CPUWeight: c.Sandbox.CPUWeightMax,
			IOWeight: min(c.Sandbox.IOWeightMax, machines.IOWeight),
		},
		CPUWeight: machines.CPUWeight, IOWeightReason: machines.IOWeightReason,
		DiskQuota: disk.Quota, DiskQuotaReason: disk.QuotaReason, Quota: quota(c.Quota),
	}
	if files := machines.OpenFiles; !c.IsSet("sandbox.open_files") {
		l.Default.OpenFiles = max(1024, min(l.Default.OpenFiles, files/2)) // no process alone takes all that there are
	}
	if err := checkIOWeight(c, machines.IOWeight, machines.IOWeightReason); err != nil {
		return l, err
	}
	if !disk.Quota && c.Quota.Disk != 0 {
		return l, &core.Error{
			Code: core.CodeUnsupported, Field: "quota.disk",
			Message: "quota.disk can't be enforced on this host: " + disk.QuotaReason + "; set it to 0",
		}
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

// checkIOWeight refuses a weight that somebody has set and this host can't give.
func checkIOWeight(c *config.Config, most int, lacks string) error {
	refuse := func(key, format string, args ...any) error {
		return &core.Error{Code: core.CodeUnsupported, Field: key, Message: key + fmt.Sprintf(format, args...)}
	}
	for _, key := range []string{"sandbox.io_weight", "sandbox.io_weight_max"} {
		if c.IsSet(key) && lacks != "" {
			return refuse(key, " can't be enforced on this host: %s; or leave it out", lacks)
		}
	}
	if c.Sandbox.IOWeight > most && lacks == "" {
		return refuse("sandbox.io_weight", " is %d: the greatest that this host's disk scheduler knows is %d", c.Sandbox.IOWeight, most)
	}
	return nil
}

// quota is what each tenant may have.
func quota(c config.Quota) core.Quota {
	count := func(n int) *int64 { v := int64(n); return &v }
	bytes := func(n config.Size) *int64 { v := int64(n); return &v }
	return core.Quota{
		Sandboxes: count(c.Sandboxes), CreatesPerMinute: count(c.CreatesPerMinute), VCPUs: &c.VCPUs, MemoryBytes: bytes(c.Memory),
		DiskBytes: bytes(c.Disk), Templates: count(c.Templates), TemplateBytes: bytes(c.TemplateSize),
		Checkpoints: count(c.Checkpoints), CheckpointBytes: bytes(c.CheckpointSize), Keys: count(c.Keys), Execs: count(c.Execs),
		RequestsPerSecond: &c.RequestsPerSecond, Calls: count(c.Calls),
	}
}

// buildTemplate makes the tree of one of our own templates.
func (s *server) buildTemplate(ctx context.Context, recipe, dir string, progress func(string, int)) (control.BuiltTemplate, error) {
	res, err := image.Bootstrap(ctx, image.BootstrapConfig{
		Recipe: image.Recipe(recipe), Dir: dir, OwnerUID: s.cfg.Runtime.OwnerUID, WorkDir: s.dir.join("cache"),
		Mirror: s.cfg.Templates.Mirror, Suite: s.cfg.Templates.Suite, Progress: progress, Logger: s.log,
	})
	return control.BuiltTemplate{Source: res.Source, Packages: res.Packages, Config: res.Config}, err
}

// serve answers until ctx ends, at every address, and ends them together.
func (s *server) serve(ctx context.Context) error {
	closing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	perSecond := s.cfg.Quota.RequestsPerSecond
	strangers, rates := httpserve.NewStrangers(), httpserve.NewRates(perSecond, int(math.Ceil(2*perSecond)))
	room := httpserve.NewCollecting(httpserve.CollectBytes)
	native, err := httpapi.New(s.control, httpapi.Options{
		Logger: s.log, Version: version, Commit: commit, Registry: s.metrics.Registry(), Strangers: strangers, Rates: rates,
		Collecting: room,
		Loopback:   s.at.api.ip().IsLoopback(), Hosts: s.hosts(), WideLog: s.cfg.Log.Format == "json",
		CA: s.describeCA(), Dialects: s.describe(),
	})
	if err != nil {
		return err
	}
	defer native.Close() // Nobody uses control any more when it returns.
	others, err := s.openDialects(dialect.Config{
		Control: s.control, Gate: dialect.NewGate(s.control, strangers, rates), Logger: s.log,
		Collecting: room, Closing: closing,
	})
	if err != nil {
		return err
	}
	if err := s.dir.writeURL(s.at.api.url()); err != nil { // tells the CLI on this machine where
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	serve := func(at *address, h http.Handler) {
		group.Go(func() error {
			err := httpserve.Serve(ctx, at.listener, httpserve.Options{
				Handler: h, Logger: s.log, Grace: shutdownGrace, Closing: func() { end(); native.EndStreams() },
			})
			if err != nil {
				return fmt.Errorf("at the address of %s: %w", at.setting, err)
			}
			return nil
		})
	}
	domain, _ := s.cfg.DomainName()
	everything := httpserve.ByHost{Domain: domain, Below: others, Other: native.Handler()}
	serve(s.at.api, everything)
	if s.at.tls != nil {
		serve(s.at.tls, everything)
	}
	for name, at := range s.at.dialects {
		serve(at, s.guarded(at, others[name]))
	}
	notifyReady()
	s.reportServing(ctx)
	defer s.log.Info("stopped: sandboxes go on")
	return group.Wait()
}

// reportServing logs where the server is found.
func (s *server) reportServing(ctx context.Context) {
	attrs := []slog.Attr{slog.String("url", s.at.api.url()), slog.String("listen", s.at.api.listener.Addr().String())}
	for _, d := range dialects() {
		if at := s.at.dialects[d.name]; at != nil {
			attrs = append(attrs, slog.String(d.name+"_url", at.url()))
		}
	}
	if s.at.tls != nil {
		attrs = append(attrs, slog.String("tls_listen", s.at.tls.listener.Addr().String()), slog.String("domain", s.cfg.Domain))
	}
	if s.at.authority != nil {
		attrs = append(attrs, slog.String("ca", s.at.authority.Fingerprint()))
	}
	attrs = append(attrs, slog.String("data_dir", s.dir.path), slog.String("version", version))
	s.log.LogAttrs(ctx, slog.LevelInfo, "serving", attrs...)
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
