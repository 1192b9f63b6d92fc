package guest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// Config says how an agent behaves. The zero value is an agent in an ordinary process, with the default limits.
type Config struct {
	// Init says that this process is the sandbox's init: it then reaps every child, sets the hostname and writes the
	// machine's identity into /etc.
	Init bool
	// Cgroup is the directory of a cgroup v2 hierarchy in which each exec gets a group; empty means that groups are
	// found by scanning /proc.
	Cgroup string
	// MaxProcesses bounds the processes and threads of all execs together; it needs Cgroup. Zero means one for each 1.5 MiB
	// of memory, at least 64 and at most 1024.
	MaxProcesses int
	// Memory is watched: when it is used up, the greediest process group is killed. With Cgroup, nil means the sandbox's own
	// figures; without it that nothing is watched. The server closes it.
	Memory Memory
	// Logger hears of what goes wrong; nil is silent.
	Logger *slog.Logger
	// AllowPeer decides about a connection right after accept; nil allows all.
	AllowPeer func(net.Addr) bool

	// RingBytes bounds the output kept of one exec: 1 MiB.
	RingBytes int
	// RingBudget bounds the output kept of all execs together: 32 MiB.
	RingBudget int64
	// MaxRunning bounds execs that have a live process: 1000. MaxRecords bounds those remembered: 10,000.
	MaxRunning, MaxRecords int
	// MaxConns bounds connections: 2048.
	MaxConns int
	// Heartbeat is how often the agent tells that it lives while an operation is under way: 15 s. A peer that is silent
	// for three of them is given up.
	Heartbeat time.Duration
	// HoldBack is how long a reader without progress may hold a process back: 10 s.
	HoldBack time.Duration
	// PartialAge is how long a file that comes in parts waits for the next: 1 h.
	PartialAge time.Duration
}

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.MaxProcesses, processesFor(totalMemory()))
	def(&c.RingBytes, 1<<20)
	def(&c.MaxRunning, 1000)
	def(&c.MaxRecords, 10_000)
	def(&c.MaxConns, 2048)
	if c.RingBudget <= 0 {
		c.RingBudget = 32 << 20
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = 15 * time.Second
	}
	if c.HoldBack <= 0 {
		c.HoldBack = 10 * time.Second
	}
	if c.PartialAge <= 0 {
		c.PartialAge = time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Server is an agent.
type Server struct {
	cfg      Config
	log      *slog.Logger
	reaper   *reaper
	groups   groupMaker
	budget   *budget
	ops      map[wire.Op]handler
	accounts accounts
	// null is /dev/null, opened before anyone could replace it.
	null *os.File
	// buffers are what output goes through.
	buffers *sync.Pool
	// ctx ends with Close.
	ctx    context.Context
	cancel context.CancelFunc
	// conns and work count the goroutines that Close waits for: of connections, and of execs.
	conns, work sync.WaitGroup
	slots       chan struct{}
	// watchers counts who follows what happens to files, watched the directories of all of them.
	watchers, watched atomic.Int64
	// partials are the files that come in parts.
	partials *partials
	// guard watches memory; nil if nothing tells how much there is.
	guard *memoryGuard
	// limits serialises changes of limits.
	limits sync.Mutex

	// mu guards what follows. A ring's lock may be taken while it is held, never the other way round.
	mu       sync.Mutex
	identity *wire.Identity
	// execs holds every exec by id, also one that is being started; order those that have started, oldest first.
	execs map[string]*execution
	order []*execution
	// running counts execs that are being started or have a group.
	running int
	closed  bool
}

// New returns an agent that has no identity yet. As init it also makes the group of all execs.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open null device: %w", err)
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, null: null, reaper: newReaper(cfg.Init), groups: scanner{proc: "/proc"},
		budget: &budget{limit: cfg.RingBudget}, slots: make(chan struct{}, cfg.MaxConns), execs: map[string]*execution{},
		buffers: newBuffers(), ops: handlers(), partials: &partials{age: cfg.PartialAge, by: map[string]*partial{}},
	}
	if cfg.Cgroup != "" {
		if s.groups, err = openCgroups(cfg.Cgroup, cfg.MaxProcesses); err != nil {
			_ = null.Close()
			return nil, err
		}
		if cfg.Memory == nil {
			if cfg.Memory, err = openMemory(cfg.Cgroup); err != nil {
				s.groups.close()
				_ = null.Close()
				return nil, err
			}
		}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if cfg.Memory != nil {
		s.guard = &memoryGuard{srv: s, memory: cfg.Memory, wake: make(chan struct{}, 1)}
		s.work.Go(s.guard.run)
	}
	return s, nil
}

// Serve accepts connections until ctx ends or the listener fails. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	defer context.AfterFunc(s.ctx, func() { _ = l.Close() })() //nolint:contextcheck // Two contexts end this call.
	defer func() { _ = l.Close() }()
	for {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || s.ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept: %w", err)
			}
			// Out of descriptors or memory: what helps is that other connections end.
			s.log.Warn("accept", slog.Any("err", err))
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		if s.cfg.AllowPeer != nil && !s.cfg.AllowPeer(nc.RemoteAddr()) {
			_ = nc.Close()
			continue
		}
		if !s.enter() {
			_ = nc.Close()
			continue
		}
		go func() {
			defer s.leave()
			s.serve(ctx, nc)
		}()
	}
}

// ServeConn serves one connection until it ends, ctx ends or the server is closed. It closes the connection.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn) {
	if !s.enter() {
		_ = nc.Close()
		return
	}
	defer s.leave()
	s.serve(ctx, nc)
}

// enter takes a slot for a connection.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	select {
	case s.slots <- struct{}{}:
		s.conns.Add(1)
		return true
	default:
		return false
	}
}

func (s *Server) leave() {
	<-s.slots
	s.conns.Done()
}

// Close ends every connection, kills every exec's group and waits for both.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	list := append([]*execution(nil), s.order...)
	s.mu.Unlock()
	s.cancel()
	for _, e := range list {
		e.kill(core.OutcomeCanceled)
	}
	s.conns.Wait()
	s.work.Wait()
	s.partials.close()
	s.reaper.close()
	s.groups.close()
	_ = s.null.Close()
}
