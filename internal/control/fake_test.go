package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
	"shoal/internal/store/sqlite"
)

// clock is a clock that moves when it is told to.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []timer
}

type timer struct {
	at time.Time
	c  chan time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d <= 0 {
		ch <- c.now
		return ch
	}
	c.timers = append(c.timers, timer{c.now.Add(d), ch})
	return ch
}

// count is how many timers are set.
func (c *clock) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	var left []timer
	for _, t := range c.timers {
		if t.at.After(c.now) {
			left = append(left, t)
		} else {
			t.c <- c.now
		}
	}
	c.timers = left
}

// node is a scriptable core.Node. Its state outlives a "restart" of the service.
type node struct {
	diffs
	mu        sync.Mutex
	max       int
	reserved  map[core.SandboxID]core.Resources
	running   map[core.SandboxID]core.NodeSpec
	guests    map[core.SandboxID]*guest
	swept     []core.Known
	deleted   map[core.SandboxID]int
	templates map[core.TemplateID]bool
	exits     chan core.NodeExit
	// restored is what the files of sandboxes were last restored to.
	restored map[core.SandboxID]core.TreeSource
	// onRestore runs inside Restore, with nothing done yet; midRestore when the machine is ended and the files are others.
	onRestore, midRestore func(ctx context.Context, spec core.NodeSpec) error

	// onCreate runs inside Create, with the machine not yet there.
	onCreate func(ctx context.Context, spec core.NodeSpec) error
	// onResize runs inside Resize, before the limits are others.
	onResize func(ctx context.Context, r core.Resources, force bool) error
	// afterCreate runs when the machine is there and Create has not yet returned.
	afterCreate func(id core.SandboxID)
	// onCapture runs inside CaptureTemplate.
	onCapture func(ctx context.Context, from core.TreeSource) error
	// checkpoints has the trees of checkpoints, and what their sandboxes had written; onCheckpoint runs inside Checkpoint, before the tree
	// is there. checkpointErr is what deletes of them return.
	checkpoints   map[core.CheckpointID]core.CheckpointTree
	onCheckpoint  func(ctx context.Context, id core.CheckpointID, from core.SandboxID) error
	checkpointErr error
	// written is what sandboxes have written.
	written int64
	// onReserve, if it is set, is called once by the next Reserve.
	onReserve func()
	// onStop and onWake run inside Stop and Wake, before anything is done.
	onStop func(ctx context.Context) error
	onWake func(ctx context.Context, spec core.NodeSpec) error
	// afterWake runs when the machine is there and Wake has not yet returned.
	afterWake func(id core.SandboxID)
	// stops and wakes count what was asked for.
	stops, wakes int
	// templateErr is what deletes of templates return.
	templateErr error
	// deleteErr is returned by the next deletes, one each.
	deleteErr []error
}

func newNode() *node {
	return &node{
		max: 1000, reserved: map[core.SandboxID]core.Resources{}, running: map[core.SandboxID]core.NodeSpec{},
		guests: map[core.SandboxID]*guest{}, deleted: map[core.SandboxID]int{}, templates: map[core.TemplateID]bool{},
		checkpoints: map[core.CheckpointID]core.CheckpointTree{},
		restored:    map[core.SandboxID]core.TreeSource{}, exits: make(chan core.NodeExit, 8),
	}
}

func (n *node) Reserve(_ context.Context, id core.SandboxID, r core.Resources) error {
	n.mu.Lock()
	on := n.onReserve
	n.onReserve = nil
	n.mu.Unlock()
	if on != nil {
		on()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, again := n.reserved[id]; !again && len(n.reserved) >= n.max {
		return &core.Error{Code: core.CodeExhausted, Message: "full", RetryAfter: time.Second}
	}
	n.reserved[id] = r
	return nil
}

func (n *node) ReserveAll(_ context.Context, ids []core.SandboxID, each core.Resources) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if fit := n.max - len(n.reserved); len(ids) > fit {
		return &core.Error{Code: core.CodeExhausted, Message: fmt.Sprintf("full: %d of them would fit", fit), RetryAfter: time.Second}
	}
	for _, id := range ids {
		n.reserved[id] = each
	}
	return nil
}

func (n *node) Resize(ctx context.Context, id core.SandboxID, r core.Resources, force bool) error {
	if n.onResize != nil {
		if err := n.onResize(ctx, r, force); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	spec, ok := n.running[id]
	if !ok {
		return core.Errorf(core.CodeUnavailable, "it does not run")
	}
	spec.Resources, n.reserved[id] = r, r
	n.running[id] = spec
	return nil
}

func (n *node) Release(id core.SandboxID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.reserved, id)
}

func (n *node) Create(ctx context.Context, spec core.NodeSpec) error {
	if n.onCreate != nil {
		if err := n.onCreate(ctx, spec); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return core.Wrap(core.CodeCanceled, ctx.Err(), "canceled")
	}
	n.mu.Lock()
	if from := spec.Source.Checkpoint; from != "" {
		if _, ok := n.checkpoints[from]; !ok {
			n.mu.Unlock()
			return core.Errorf(core.CodeNotFound, "the checkpoint was deleted meanwhile")
		}
	}
	n.running[spec.Sandbox] = spec
	n.guests[spec.Sandbox] = newGuest()
	n.mu.Unlock()
	if n.afterCreate != nil {
		n.afterCreate(spec.Sandbox)
	}
	return nil
}

func (n *node) Stop(ctx context.Context, id core.SandboxID) error {
	n.mu.Lock()
	n.stops++
	on := n.onStop
	n.mu.Unlock()
	if on != nil {
		if err := on(ctx); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return core.Wrap(core.CodeCanceled, ctx.Err(), "canceled")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.end(id)
	return nil
}

// stopBy has the stops from now on run something.
func (n *node) stopBy(f func(ctx context.Context) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onStop = f
}

// end is under n.mu.
func (n *node) end(id core.SandboxID) {
	if g := n.guests[id]; g != nil {
		g.die()
	}
	delete(n.running, id)
	delete(n.guests, id)
	delete(n.reserved, id)
}

func (n *node) Wake(ctx context.Context, spec core.NodeSpec) error {
	n.mu.Lock()
	n.wakes++
	_, promised := n.reserved[spec.Sandbox]
	n.mu.Unlock()
	if !promised {
		return core.Errorf(core.CodeInternal, "no reservation")
	}
	var err error
	if n.onWake != nil {
		err = n.onWake(ctx, spec)
	}
	if err == nil && ctx.Err() != nil {
		err = core.Wrap(core.CodeCanceled, ctx.Err(), "canceled")
	}
	n.mu.Lock()
	if err != nil {
		delete(n.reserved, spec.Sandbox)
		n.mu.Unlock()
		return err
	}
	n.running[spec.Sandbox] = spec
	n.guests[spec.Sandbox] = newGuest()
	n.mu.Unlock()
	if n.afterWake != nil {
		n.afterWake(spec.Sandbox)
	}
	return nil
}

func (n *node) Delete(_ context.Context, id core.SandboxID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deleted[id]++
	if len(n.deleteErr) > 0 {
		err := n.deleteErr[0]
		n.deleteErr = n.deleteErr[1:]
		return err
	}
	n.end(id)
	return nil
}

func (n *node) Guest(id core.SandboxID) (core.Guest, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if g := n.guests[id]; g != nil {
		return g, nil
	}
	return nil, core.Errorf(core.CodeUnavailable, "does not run")
}

func (n *node) Files(_ context.Context, id core.SandboxID) (core.FileReader, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.guests[id] != nil {
		return nil, core.Errorf(core.CodeConflict, "it runs")
	}
	return &keptFiles{text: "kept"}, nil
}

// keptFiles are the files of a sandbox that doesn't run: each has the same content.
type keptFiles struct {
	core.FileReader // any method that is not below panics: no test reaches it
	text            string
}

func (k *keptFiles) ReadFile(_ context.Context, path string, _, _ int64) (core.FileInfo, io.ReadCloser, error) {
	return core.FileInfo{Path: path, Size: int64(len(k.text))}, io.NopCloser(strings.NewReader(k.text)), nil
}

func (n *node) guest(id core.SandboxID) *guest {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.guests[id]
}

func (n *node) Metrics(context.Context, core.SandboxID) (core.SandboxMetrics, error) {
	return core.SandboxMetrics{MemoryBytes: 42}, nil
}

func (n *node) List(context.Context) ([]core.NodeSandbox, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []core.NodeSandbox
	for id, spec := range n.running {
		out = append(out, core.NodeSandbox{Sandbox: id, Incarnation: spec.Incarnation, Epoch: spec.Epoch, Running: true})
	}
	return out, nil
}

func (n *node) Exits() <-chan core.NodeExit { return n.exits }

func (n *node) Sweep(_ context.Context, known core.Known) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.swept = append(n.swept, known)
	return nil
}

func (n *node) ImportTemplate(ctx context.Context, id core.TemplateID, fill func(context.Context, string) error) (core.TreeInfo, error) {
	if err := fill(ctx, "/nowhere"); err != nil {
		return core.TreeInfo{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.templates[id] = true
	return core.TreeInfo{Digest: "sha256:1", SizeBytes: 7, OwnBytes: 7}, nil
}

func (n *node) CaptureTemplate(ctx context.Context, id core.TemplateID, from core.TreeSource) (core.CapturedTree, error) {
	if n.onCapture != nil {
		if err := n.onCapture(ctx, from); err != nil {
			return core.CapturedTree{}, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.templates[id] = true
	return core.CapturedTree{
		TreeInfo: core.TreeInfo{Digest: "sha256:2", SizeBytes: 9, OwnBytes: 2, Files: 3}, Packages: []core.Package{{Name: "p", Version: "1"}},
	}, nil
}

func (n *node) HasTemplate(_ context.Context, id core.TemplateID) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.templates[id], nil
}

func (n *node) failTemplateDeletes(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.templateErr = err
}

func (n *node) DeleteTemplate(_ context.Context, id core.TemplateID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.templateErr != nil {
		return n.templateErr
	}
	delete(n.templates, id)
	return nil
}

func (n *node) Capacity(context.Context) (core.NodeCapacity, error) {
	return core.NodeCapacity{MaxSandboxes: n.max}, nil
}

func (n *node) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.running)
}

// crash ends a machine as if by itself.
func (n *node) crash(id core.SandboxID) {
	n.mu.Lock()
	spec := n.running[id]
	g := n.guests[id]
	delete(n.running, id)
	delete(n.guests, id)
	n.mu.Unlock()
	g.die()
	n.exits <- core.NodeExit{Sandbox: id, Incarnation: spec.Incarnation, Reason: "it crashed"}
}

// guest is a scriptable guest agent: an exec runs until finish is called.
type guest struct {
	core.Guest // any method that is not below panics: no test reaches it
	mu         sync.Mutex
	execs      map[core.ExecID]*proc
	watches    []*toldWatch
	acked      map[core.ExecID]bool
	// deaf execs ignore every signal but SIGKILL; signals are all that came.
	deaf bool
	// silent makes it answer nothing of execs.
	silent  bool
	signals []string
	// processes is what it tells of, or why it can't.
	processes    core.ProcessList
	processesErr error
	// next is the process id of the next exec; zero means one that no other has.
	next int
	dead chan struct{}
}

type proc struct {
	exec     core.Exec
	messages chan core.ExecMessage
}

func newGuest() *guest {
	return &guest{execs: map[core.ExecID]*proc{}, acked: map[core.ExecID]bool{}, dead: make(chan struct{})}
}

// startAs gives the next exec a process id.
func (g *guest) startAs(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = pid
}

func (g *guest) die() { close(g.dead) }

func (g *guest) Exec(_ context.Context, id core.ExecID, spec core.ExecSpec) (core.ExecStream, error) {
	switch spec.Shell {
	case "refuse":
		return nil, core.Invalid("cmd", "no such program")
	case "deny":
		return nil, &core.Error{Code: core.CodeDenied, Field: "cmd", Message: "not executable"}
	case "vanish": // the request never arrives
		return nil, core.Errorf(core.CodeUnavailable, "the guest agent does not answer")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	pid := 7 + len(g.execs)
	if g.next != 0 {
		pid, g.next = g.next, 0
	}
	p := &proc{exec: core.Exec{ID: id, PID: pid}, messages: make(chan core.ExecMessage, 64)}
	started := p.exec
	p.messages <- core.ExecMessage{Kind: core.ExecStarted, Exec: &started}
	g.execs[id] = p
	if spec.Shell == "doubt" { // the answer never arrives
		return nil, core.Errorf(core.CodeUnavailable, "the guest agent does not answer")
	}
	return &stream{g: g, p: p, closed: make(chan struct{})}, nil
}

func (g *guest) Attach(_ context.Context, id core.ExecID, _ int64) (core.ExecStream, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.execs[id]
	if p == nil {
		return nil, core.Errorf(core.CodeNotFound, "no such exec")
	}
	return &stream{g: g, p: p, closed: make(chan struct{})}, nil
}

func (g *guest) GetExec(_ context.Context, id core.ExecID) (core.Exec, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.execs[id]; p != nil {
		return p.exec, nil
	}
	return core.Exec{}, core.Errorf(core.CodeNotFound, "no such exec")
}

func (g *guest) ListExecs(context.Context) ([]core.Exec, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.silent {
		return nil, core.Errorf(core.CodeUnavailable, "the guest agent does not answer")
	}
	var out []core.Exec
	for _, p := range g.execs {
		out = append(out, p.exec)
	}
	return out, nil
}

func (g *guest) Cancel(_ context.Context, id core.ExecID) error {
	return g.finish(id, core.Exec{Outcome: core.OutcomeCanceled})
}

// Signal ends an exec by the signal, unless it is deaf to it.
func (g *guest) Signal(_ context.Context, id core.ExecID, signal string) error {
	g.mu.Lock()
	g.signals = append(g.signals, signal)
	deaf := g.deaf && signal != "SIGKILL"
	g.mu.Unlock()
	if deaf {
		return nil
	}
	return g.finish(id, core.Exec{Outcome: core.OutcomeSignaled, Signal: signal})
}

func (g *guest) Acknowledge(_ context.Context, ids []core.ExecID) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		g.acked[id] = true
	}
	return nil
}

// wrote makes an exec have printed n bytes more.
func (g *guest) wrote(id core.ExecID, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.execs[id].exec.OutputBytes += n
}

// ReadFile has every file but /missing.
func (g *guest) ReadFile(_ context.Context, path string, _, _ int64) (core.FileInfo, io.ReadCloser, error) {
	if path == "/missing" {
		return core.FileInfo{}, nil, core.Errorf(core.CodeNotFound, "no such file")
	}
	return core.FileInfo{}, io.NopCloser(strings.NewReader("content")), nil
}

// WriteFile takes everything but /missing, when it has read it.
func (g *guest) WriteFile(_ context.Context, path string, _ core.WriteOptions, r io.Reader) (core.FileInfo, error) {
	if path == "/missing" {
		return core.FileInfo{}, core.Errorf(core.CodeNotFound, "no such directory")
	}
	_, err := io.Copy(io.Discard, r)
	return core.FileInfo{}, err
}

// WritePart takes everything but /missing, when it has read it.
func (g *guest) WritePart(ctx context.Context, path string, o core.PartOptions, r io.Reader) (core.PartialFile, error) {
	info, err := g.WriteFile(ctx, path, o.WriteOptions, r)
	return core.PartialFile{File: info}, err
}

// DialPort has every port open but 1.
func (g *guest) DialPort(_ context.Context, port uint16) (net.Conn, error) {
	if port == 1 {
		return nil, core.Errorf(core.CodeUnavailable, "nothing listens there")
	}
	here, there := net.Pipe()
	return &pipeConn{here, there}, nil
}

// pipeConn closes both ends.
type pipeConn struct {
	net.Conn
	other net.Conn
}

func (p *pipeConn) Close() error { return errors.Join(p.Conn.Close(), p.other.Close()) }

func (g *guest) print(id core.ExecID, text string) {
	g.mu.Lock()
	p := g.execs[id]
	g.mu.Unlock()
	p.messages <- core.ExecMessage{Kind: core.ExecStdout, Data: []byte(text)}
}

func (g *guest) finish(id core.ExecID, end core.Exec) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.execs[id]
	if p == nil || p.exec.Outcome != core.OutcomeRunning {
		return core.Errorf(core.CodeNotFound, "no such exec")
	}
	p.exec.Outcome, p.exec.ExitCode, p.exec.Signal = end.Outcome, end.ExitCode, end.Signal
	ended := p.exec
	p.messages <- core.ExecMessage{Kind: core.ExecEnded, Exec: &ended}
	close(p.messages)
	return nil
}

type stream struct {
	g      *guest
	p      *proc
	closed chan struct{}
	once   sync.Once
}

func (s *stream) Recv() (core.ExecMessage, error) {
	select {
	case m, ok := <-s.p.messages:
		if !ok {
			return m, io.EOF
		}
		return m, nil
	case <-s.g.dead:
		lost := s.p.exec
		lost.Outcome = core.OutcomeLost
		return core.ExecMessage{Kind: core.ExecEnded, Exec: &lost}, nil
	case <-s.closed:
		return core.ExecMessage{}, net.ErrClosed
	}
}

func (s *stream) SendStdin([]byte) error      { return nil }
func (s *stream) CloseStdin() error           { return nil }
func (s *stream) Signal(string) error         { return nil }
func (s *stream) Resize(uint16, uint16) error { return nil }
func (s *stream) Close() error                { s.once.Do(func() { close(s.closed) }); return nil }

// world is a service on a store and a node that outlive it.
type world struct {
	t     testing.TB
	clock *clock
	node  *node
	store store.Store
	// dir has the database.
	dir   string
	svc   *control.Service
	build control.TemplateBuilder
	// images imports images; uploads, if it is set, takes uploads.
	images  control.ImageImporter
	uploads control.Spool
	// vault seals logins; nil keeps none.
	vault control.Vault
	// time, if it is set, takes the place of clock.
	time core.Clock
	// boot names the boot of the node's machine.
	boot string
	// sizes are what sandboxes keep on the disk.
	sizes *sizes
	// quota is every tenant's.
	quota core.Quota
	// prepare, if it is set, is told of each service before it starts.
	prepare func(*control.Service)
}

var (
	alice = control.Principal{Tenant: "alice", Actor: core.Actor{Kind: "key", ID: "k1"}, Scopes: tenantsScopes}
	bob   = control.Principal{Tenant: "bob", Actor: core.Actor{Kind: "key", ID: "k2"}, Scopes: tenantsScopes}

	// tenantsScopes are all but the operator's.
	tenantsScopes = core.AllScopes().Without(core.ScopeAdmin)
)

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{t: tb, clock: newClock(), node: newNode(), sizes: &sizes{by: map[core.SandboxID]int64{}}}
	w.build = func(_ context.Context, _, _ string, progress func(string, int)) (control.BuiltTemplate, error) {
		progress("unpacking", 50)
		return control.BuiltTemplate{Source: "test", Config: core.TemplateConfig{User: "root"}}, nil
	}
	w.dir = tb.TempDir()
	st, err := sqlite.Open(tb.Context(), sqlite.Config{Path: filepath.Join(w.dir, "shoal.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = st.Close() })
	w.store = st
	w.change(func(tx store.Tx) error {
		return errors.Join(tx.PutTenant(core.Tenant{ID: "alice", Name: "alice"}), tx.PutTenant(core.Tenant{ID: "bob", Name: "bob"}))
	})
	return w
}

// change changes the store past the service.
func (w *world) change(fn func(tx store.Tx) error) {
	w.t.Helper()
	if err := w.store.Update(context.Background(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// start starts the service and waits for its first template.
func (w *world) start() *world {
	w.t.Helper()
	now := w.time
	if now == nil {
		now = w.clock
	}
	w.svc = control.New(control.Config{
		Store: w.store, Node: w.node, NodeID: "n1", BootID: w.boot, Clock: now, Logger: slog.New(slog.DiscardHandler),
		Bootstrap: []string{"minimal"}, ImportImage: w.images, Spool: w.uploads, Sizes: w.sizes, Vault: w.vault,
		Build: func(ctx context.Context, recipe, dir string, p func(string, int)) (control.BuiltTemplate, error) {
			return w.build(ctx, recipe, dir, p)
		},
		Limits: control.Limits{
			DefaultTTL: time.Hour, MaxTTL: 24 * time.Hour, DefaultTemplate: "minimal",
			Default: core.Resources{VCPUs: 1, MemoryBytes: 512 << 20, OpenFiles: 65536, CPUWeight: 100, IOWeight: 100},
			Max:     core.Resources{VCPUs: 4, MemoryBytes: 8 << 30, Pids: 4096, OpenFiles: 1 << 20, CPUWeight: 100, IOWeight: 100}, CPUWeight: true,
			DiskQuotaReason: "this is a fake", Quota: w.quota,
		},
	})
	if w.prepare != nil {
		w.prepare(w.svc)
	}
	if err := w.svc.Start(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	svc := w.svc
	w.t.Cleanup(func() { _ = svc.Close() })
	return w
}

func (w *world) ready() *world {
	w.t.Helper()
	eventually(w.t, "the template is ready", func() bool { return w.svc.Ready(context.Background()) == nil })
	return w
}

// execEvents returns the types of a sandbox's events of execs, with their outcomes.
func (w *world) execEvents(sb core.Sandbox) string {
	w.t.Helper()
	list, _, err := w.svc.Events(w.t.Context(), alice, string(sb.ID), 0, 1000, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		if e.Data["exec_id"] != "" {
			out = append(out, strings.TrimSpace(string(e.Type)+" "+e.Data["outcome"]))
		}
	}
	return strings.Join(out, ", ")
}

func (w *world) create(spec core.SandboxSpec) core.Sandbox {
	w.t.Helper()
	sb, err := w.svc.CreateSandbox(w.t.Context(), alice, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return sb
}

// eventually waits for a condition that another goroutine makes true.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			tb.Fatalf("did not come true: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func wantCode(tb testing.TB, err error, code core.Code) *core.Error {
	tb.Helper()
	if core.CodeOf(err) != code {
		tb.Fatalf("error is %v, want code %s", err, code)
	}
	e, _ := err.(*core.Error) //nolint:errorlint // the edge of control returns the type itself
	return e
}
