package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
	diskfake "shoal/internal/disk/fake"
	"shoal/internal/guest"
	networkfake "shoal/internal/network/fake"
	"shoal/internal/node"
	"shoal/internal/runtime"
	runtimefake "shoal/internal/runtime/fake"
)

const (
	mib = 1 << 20
	// patience bounds every wait: far longer than any takes.
	patience = 20 * time.Second
)

// template is the one that sandboxes of these tests start from.
var template = core.TemplateID("basetemplate0000000000")

// host is what outlives a server: machines, slots, trees, the node's directory.
type host struct {
	t      *testing.T
	dir    string
	world  *runtimefake.World
	kernel *networkfake.Kernel
	clock  *clock
	limits node.Limits
	log    logged
	// cleanErr is what the cleaning of a captured tree returns.
	cleanErr error

	// memory is what the agents believe to be in use.
	memory usedMemory

	mu     sync.Mutex
	agents map[core.SandboxID]*guest.Server
	// stopped holds back the agents' connections until it is closed; nil while they answer.
	stopped chan struct{}
}

// usedMemory tells agents how much memory is in use, of what they were told to be the limit.
type usedMemory struct{ used atomic.Int64 }

// Used returns what is in use.
func (m *usedMemory) Used() (used, limit int64, err error) { return m.used.Load(), 1 << 40, nil }

// Close does nothing.
func (m *usedMemory) Close() error { return nil }

// server is a node with its drivers.
type server struct {
	*node.Node
	host    *host
	runtime *runtimefake.Driver
	network *networkfake.Driver
	disk    *diskfake.Driver
	stop    func()
}

// logged holds what servers log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds a line.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns what was logged since the last call.
func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{
		t: t, dir: t.TempDir(), kernel: networkfake.NewKernel(), clock: newClock(), agents: map[core.SandboxID]*guest.Server{},
		limits: node.Limits{MemoryBytes: 1024 * mib, MaxSandboxes: 100},
	}
	h.world = runtimefake.NewWorld(runtimefake.Config{Agent: h.agent})
	t.Cleanup(func() {
		h.world.Close()
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, a := range h.agents {
			a.Close()
		}
	})
	return h
}

// agent serves a connection as the sandbox's guest agent does.
func (h *host) agent(ctx context.Context, spec runtime.Spec, conn net.Conn) {
	h.mu.Lock()
	a := h.agents[spec.ID]
	if a == nil {
		var err error
		if a, err = guest.New(guest.Config{Memory: &h.memory}); err != nil {
			h.t.Errorf("new agent: %v", err)
			h.mu.Unlock()
			return
		}
		h.agents[spec.ID] = a
	}
	stopped := h.stopped
	h.mu.Unlock()
	if stopped != nil {
		select {
		case <-stopped:
		case <-ctx.Done():
			return
		}
	}
	a.ServeConn(ctx, conn)
}

// open starts a server on the host, which ends with the test at the latest.
func (h *host) open() *server {
	h.t.Helper()
	d, err := diskfake.Open(filepath.Join(h.dir, "trees"))
	if err != nil {
		h.t.Fatal(err)
	}
	s := &server{host: h, runtime: runtimefake.Open(h.world), network: networkfake.New(h.kernel), disk: d}
	s.Node, err = node.Open(h.t.Context(), node.Config{
		Dir: filepath.Join(h.dir, "node"), Runtime: s.runtime, Disk: d, Network: s.network, AgentBinary: []byte("agent"),
		Digest: func(context.Context, string) (core.TreeInfo, error) { return core.TreeInfo{Digest: "d", Files: 1}, nil },
		Clean: func(_ context.Context, dir string) ([]core.Package, error) {
			return []core.Package{{Name: "p", Version: "1"}}, errors.Join(os.Remove(filepath.Join(dir, "mine")), h.cleanErr)
		},
		Limits: h.limits, Clock: h.clock, Logger: slog.New(slog.NewTextHandler(&h.log, nil)),
	})
	if err != nil {
		h.t.Fatalf("open: %v", err)
	}
	s.stop = sync.OnceFunc(func() {
		// A machine keeps its network namespace in use, whoever has attached it.
		for _, spec := range h.world.Specs() {
			_, _ = h.kernel.Hold(spec.ID)
		}
		if err := s.Close(); err != nil {
			h.t.Errorf("close: %v", err)
		}
		for _, err := range []error{s.runtime.Close(), s.network.Close(), s.disk.Close()} {
			if err != nil {
				h.t.Errorf("close driver: %v", err)
			}
		}
	})
	h.t.Cleanup(s.stop)
	return s
}

// start opens a server that has the template.
func start(t *testing.T) *server {
	t.Helper()
	s := newHost(t).open()
	s.importTemplate(t)
	return s
}

func (s *server) importTemplate(t *testing.T) {
	t.Helper()
	_, err := s.ImportTemplate(t.Context(), template, func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600)
	})
	if err != nil {
		t.Fatalf("import template: %v", err)
	}
}

// restart ends the server and starts another on the same host.
func (s *server) restart() *server {
	s.host.t.Helper()
	s.stop()
	return s.host.open()
}

func newSpec() core.NodeSpec {
	return core.NodeSpec{
		Source:  core.TreeSource{Template: template},
		Sandbox: core.SandboxID(core.NewID()), Tenant: "tenant", Incarnation: 1, Epoch: 3, Template: template, Hostname: "box",
		Resources: core.Resources{MemoryBytes: 64 * mib, VCPUs: 1},
	}
}

// reserve makes a spec with a reservation.
func (s *server) reserve(t *testing.T) core.NodeSpec {
	t.Helper()
	spec := newSpec()
	if err := s.Reserve(t.Context(), spec.Sandbox, spec.Resources); err != nil {
		t.Fatalf("reserve: %v", err)
	}
	return spec
}

// create makes a sandbox that runs.
func (s *server) create(t *testing.T) core.NodeSpec {
	t.Helper()
	spec := s.reserve(t)
	if err := s.Create(t.Context(), spec); err != nil {
		t.Fatalf("create: %v", err)
	}
	return spec
}

// reachable says whether the sandbox's agent answers.
func (s *server) reachable(t *testing.T, id core.SandboxID) bool {
	t.Helper()
	g, err := s.Guest(id)
	if err != nil {
		if !core.IsCode(err, core.CodeUnavailable) {
			t.Errorf("guest: %v, want unavailable", err)
		}
		return false
	}
	if err := g.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
		return false
	}
	return true
}

// trace is what is left of sandboxes, each list with the ids.
type trace struct {
	machines, slots, trees, runDirs, journal string
	reserved                                 int
	memory                                   int64
}

func (s *server) trace(t *testing.T) trace {
	t.Helper()
	var tr trace
	add := func(list *string, name string) { *list = strings.TrimSpace(*list + " " + name) }
	for _, spec := range s.host.world.Specs() {
		add(&tr.machines, string(spec.ID))
	}
	slots, err := s.network.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, slot := range slots {
		add(&tr.slots, string(slot.Sandbox))
	}
	trees, err := s.disk.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range trees {
		if tree.Ref.Kind == disk.KindSandbox {
			add(&tr.trees, tree.Ref.ID)
		}
	}
	for _, name := range s.host.names(t, "run") {
		add(&tr.runDirs, name)
	}
	for _, name := range s.host.names(t, "journal") {
		if name != "aside" {
			add(&tr.journal, strings.TrimSuffix(name, ".json"))
		}
	}
	c, err := s.Capacity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tr.reserved, tr.memory = c.Sandboxes, c.MemoryReservedBytes
	return tr
}

// wantNothing fails the test if anything is left of any sandbox.
func (s *server) wantNothing(t *testing.T) {
	t.Helper()
	if got := s.trace(t); got != (trace{}) {
		t.Errorf("left behind: %+v", got)
	}
}

// names lists a directory of the node's own.
func (h *host) names(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(h.dir, "node", dir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range list {
		names = append(names, d.Name())
	}
	return names
}

func (h *host) journalPath(id core.SandboxID) string {
	return filepath.Join(h.dir, "node", "journal", string(id)+".json")
}

// setPhase rewrites a journal entry as if the server had died in that phase.
func (h *host) setPhase(t *testing.T, id core.SandboxID, phase string) {
	t.Helper()
	data, err := os.ReadFile(h.journalPath(id))
	if err != nil {
		t.Fatal(err)
	}
	var e map[string]any
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	e["phase"] = phase
	if data, err = json.Marshal(e); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.journalPath(id), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// blockJournal makes the next write of the sandbox's journal entry fail.
func (h *host) blockJournal(t *testing.T, id core.SandboxID) {
	t.Helper()
	if err := os.Mkdir(h.journalPath(id)+".new", 0o700); err != nil {
		t.Error(err)
	}
}

// aside counts trees that were set aside.
func (h *host) aside(t *testing.T, kind disk.Kind, id string) int {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(h.dir, "trees", string(kind), id+".*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// exit waits for the end of a machine.
func (s *server) exit(t *testing.T) core.NodeExit {
	t.Helper()
	select {
	case e := <-s.Exits():
		return e
	case <-time.After(patience):
		t.Fatal("no exit was reported")
		return core.NodeExit{}
	}
}

// exitsLeft stops the server and returns the exits that nobody has taken.
func (s *server) exitsLeft() []core.NodeExit {
	s.stop()
	var list []core.NodeExit
	for {
		select {
		case e := <-s.Exits():
			list = append(list, e)
		default:
			return list
		}
	}
}

// clock is the system's for short waits; long ones end when the test says so.
type clock struct {
	mu      sync.Mutex
	ahead   time.Duration
	waiting []wait
}

// wait is one that the test ends.
type wait struct {
	until time.Time
	done  chan time.Time
}

func newClock() *clock { return &clock{} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) After(d time.Duration) <-chan time.Time {
	if d < time.Second {
		return time.After(d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := wait{until: time.Now().Add(c.ahead + d), done: make(chan time.Time, 1)}
	c.waiting = append(c.waiting, w)
	return w.done
}

// advance moves the clock on, once somebody waits for no longer than d, and ends all waits up to then.
func (c *clock) advance(t *testing.T, d time.Duration) {
	t.Helper()
	deadline := time.After(patience)
	for !c.tryAdvance(d) {
		select {
		case <-deadline:
			t.Fatal("nobody waits for the clock")
		case <-time.After(time.Millisecond):
		}
	}
}

func (c *clock) tryAdvance(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().Add(c.ahead + d)
	over := func(w wait) bool { return !w.until.After(now) }
	if !slices.ContainsFunc(c.waiting, over) {
		return false
	}
	c.ahead += d
	for _, w := range c.waiting {
		if over(w) {
			w.done <- now
		}
	}
	c.waiting = slices.DeleteFunc(c.waiting, over)
	return true
}

// await waits until somebody waits for no longer than d.
func (c *clock) await(t *testing.T, d time.Duration) {
	t.Helper()
	deadline := time.After(patience)
	for c.waits(d) == 0 {
		select {
		case <-deadline:
			t.Fatal("nobody waits for the clock")
		case <-time.After(time.Millisecond):
		}
	}
}

// waits counts those who wait for no longer than d.
func (c *clock) waits(d time.Duration) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().Add(c.ahead + d)
	n := 0
	for _, w := range c.waiting {
		if !w.until.After(now) {
			n++
		}
	}
	return n
}
