package envd_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
	"shoal/internal/guest/wire"
	"shoal/internal/store"
)

// fakeControl is control with one sandbox, whose guest agent is a real one in this process. Records are kept in memory.
type fakeControl struct {
	*client.Client
	home string

	mu sync.Mutex
	// execs are in the order in which they started.
	execs []core.Exec
	// fail, by method name, is what that method returns instead of working.
	fail map[string]error
	// wrap, if set, goes around each stream.
	wrap func(core.ExecStream) core.ExecStream
	cpu  float64
	kept kept
}

var _ envd.Control = (*fakeControl)(nil)

// newFake starts a guest agent that ends with the test. Files lie below a home of its own.
func newFake(t *testing.T) *fakeControl {
	t.Helper()
	srv, err := guest.New(guest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), l) }()
	var d net.Dialer
	f := &fakeControl{home: t.TempDir(), fail: map[string]error{}}
	f.Client = client.New(client.Config{Dial: func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", l.Addr().String()) }})
	t.Cleanup(func() {
		f.Close()
		srv.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	// The home keeps login shells from what this machine's user has in its own profile.
	id := wire.Identity{Sandbox: "box", Incarnation: 1, Env: map[string]string{"FROM_CREATE": "yes", "HOME": f.home}, Workdir: f.home}
	if err := f.Configure(context.Background(), id); err != nil {
		t.Fatal(err)
	}
	return f
}

// must fails for the methods that are to fail, and for a caller of another tenant.
func (f *fakeControl) must(method string, p control.Principal, ref string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Tenant != "acme" || ref != string(boxID) {
		return core.Errorf(core.CodeNotFound, "no such sandbox")
	}
	return f.fail[method]
}

func (f *fakeControl) Exec(ctx context.Context, p control.Principal, ref string, spec core.ExecSpec) (core.Exec, core.ExecStream, error) {
	if err := f.must("Exec", p, ref); err != nil {
		return core.Exec{}, nil, err
	}
	e := core.Exec{ID: core.ExecID(core.NewID()), Spec: spec, StartedAt: time.Now()}
	stream, err := f.Client.Exec(ctx, e.ID, spec)
	if err != nil {
		return e, nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return e, nil, err
	}
	e.PID = first.Exec.PID
	f.mu.Lock()
	f.execs = append(f.execs, e)
	f.mu.Unlock()
	return e, f.watched(e, stream), nil
}

func (f *fakeControl) watched(e core.Exec, stream core.ExecStream) core.ExecStream {
	if f.wrap != nil {
		stream = f.wrap(stream)
	}
	return &recorded{ExecStream: stream, f: f, exec: e}
}

// recorded is a stream that records the end of its exec when it passes.
type recorded struct {
	core.ExecStream
	f    *fakeControl
	exec core.Exec
}

func (r *recorded) Recv() (core.ExecMessage, error) {
	m, err := r.ExecStream.Recv()
	if err == nil && m.Exec != nil {
		whole := r.exec
		whole.Outcome, whole.ExitCode, whole.Signal, whole.OutOfMemory = m.Exec.Outcome, m.Exec.ExitCode, m.Exec.Signal, m.Exec.OutOfMemory
		if m.Kind == core.ExecEnded {
			r.f.ended(&whole)
		}
		m.Exec = &whole
	}
	return m, err
}

// ended keeps how an exec ended.
func (f *fakeControl) ended(e *core.Exec) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, old := range f.execs {
		if old.ID == e.ID {
			if old.EndedAt.IsZero() {
				old.EndedAt = time.Now()
			}
			e.EndedAt = old.EndedAt
			f.execs[i] = *e
		}
	}
}

func (f *fakeControl) AttachExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, from int64) (core.ExecStream, error) {
	e, err := f.GetExec(ctx, p, ref, id)
	if err != nil {
		return nil, err
	}
	stream, err := f.Attach(ctx, id, from)
	if err != nil {
		return nil, err
	}
	return f.watched(e, stream), nil
}

func (f *fakeControl) GetExec(ctx context.Context, p control.Principal, ref string, id core.ExecID) (core.Exec, error) {
	if err := f.must("GetExec", p, ref); err != nil {
		return core.Exec{}, err
	}
	f.mu.Lock()
	i := slices.IndexFunc(f.execs, func(e core.Exec) bool { return e.ID == id })
	if i < 0 {
		f.mu.Unlock()
		return core.Exec{}, core.Errorf(core.CodeNotFound, "no such exec")
	}
	e := f.execs[i]
	f.mu.Unlock()
	live, err := f.Client.GetExec(ctx, id)
	if err != nil {
		return e, err
	}
	e.OutputBytes = live.OutputBytes
	if e.Outcome == core.OutcomeRunning && live.Outcome != core.OutcomeRunning {
		e.Outcome, e.ExitCode, e.Signal = live.Outcome, live.ExitCode, live.Signal
		f.ended(&e)
	}
	return e, nil
}

func (f *fakeControl) all(ctx context.Context, p control.Principal, ref string) (list []core.Exec, err error) {
	f.mu.Lock()
	ids := slices.Clone(f.execs)
	f.mu.Unlock()
	for _, e := range slices.Backward(ids) {
		if e, err = f.GetExec(ctx, p, ref, e.ID); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func (f *fakeControl) FindExec(ctx context.Context, p control.Principal, ref string, by control.ExecSelector) (core.Exec, error) {
	if err := f.must("FindExec", p, ref); err != nil {
		return core.Exec{}, err
	}
	list, err := f.all(ctx, p, ref)
	if err != nil {
		return core.Exec{}, err
	}
	found, ok := core.Exec{}, false
	for _, e := range list {
		if (by.PID == 0 || by.PID == e.PID) && (by.Tag == "" || by.Tag == e.Spec.Tag) && (!ok || e.Outcome == core.OutcomeRunning && found.Outcome != "") {
			found, ok = e, true
		}
	}
	if !ok {
		return core.Exec{}, core.Errorf(core.CodeNotFound, "no exec has %s", by)
	}
	return found, nil
}

func (f *fakeControl) ListExecs(ctx context.Context, p control.Principal, ref string, filter store.ExecFilter, _ store.Page) (list []core.Exec, _ string, err error) {
	if err := f.must("ListExecs", p, ref); err != nil {
		return nil, "", err
	}
	all, err := f.all(ctx, p, ref)
	for _, e := range all {
		if !filter.Running || e.Outcome == core.OutcomeRunning {
			e.Spec.Env = nil
			list = append(list, e)
		}
	}
	return list, "", err
}

func (f *fakeControl) SignalExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, signal string) error {
	if err := f.must("SignalExec", p, ref); err != nil {
		return err
	}
	return f.Signal(ctx, id, signal)
}

func (f *fakeControl) ResizeExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, rows, cols uint16) error {
	if err := f.must("ResizeExec", p, ref); err != nil {
		return err
	}
	return f.Resize(ctx, id, rows, cols)
}

func (f *fakeControl) WriteExecStdin(ctx context.Context, p control.Principal, ref string, id core.ExecID, data []byte, end bool) error {
	if err := f.must("WriteExecStdin", p, ref); err != nil {
		return err
	}
	return f.WriteStdin(ctx, id, data, end)
}

func (f *fakeControl) Files(_ context.Context, p control.Principal, ref string) (core.Guest, error) {
	return failingFiles{f.Client, f}, f.must("Files", p, ref)
}

// failingFiles can be made to describe no file.
type failingFiles struct {
	*client.Client
	control *fakeControl
}

func (f failingFiles) Walk(ctx context.Context, path string, opts core.WalkOptions) ([]core.FileInfo, bool, error) {
	f.control.mu.Lock()
	err := f.control.fail["Walk"]
	f.control.mu.Unlock()
	if err != nil {
		return nil, false, err
	}
	return f.Client.Walk(ctx, path, opts)
}

func (f *fakeControl) failWalk(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail["Walk"] = err
}

func (f *fakeControl) Metrics(_ context.Context, p control.Principal, ref string) (core.SandboxMetrics, error) {
	if err := f.must("Metrics", p, ref); err != nil {
		return core.SandboxMetrics{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cpu += 0.1
	return core.SandboxMetrics{At: time.Now(), CPUSeconds: f.cpu, MemoryBytes: 3 << 20, MemoryLimitBytes: 512 << 20, DiskBytes: -1}, nil
}

const boxID core.SandboxID = "s000000000000000000001"

func box() core.Sandbox {
	return core.Sandbox{
		ID: boxID, Tenant: "acme", State: core.StateRunning, Template: "t000000000000000000001", TemplateName: "base",
		Env: map[string]string{"FROM_CREATE": "yes"}, Resources: core.Resources{VCPUs: 2, DiskBytes: 4 << 30},
	}
}

// bench is a handler with what is behind it, reachable over the network as a client would.
type bench struct {
	*fakeControl
	url     string
	closing context.CancelFunc
}

// newBench serves one sandbox. Each request is given it as its target, unless it has the header No-Target.
func newBench(t *testing.T) *bench {
	t.Helper()
	closing, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	f := newFake(t)
	h := envd.New(envd.Config{Control: f, Closing: closing})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("No-Target") == "" {
			p := control.Principal{Tenant: "acme", Sandbox: boxID}
			r = r.WithContext(envd.WithTarget(r.Context(), envd.Target{Principal: p, Sandbox: box(), Token: "secret-token"}))
		}
		h.ServeHTTP(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.Start()
	t.Cleanup(srv.Close)
	return &bench{fakeControl: f, url: srv.URL, closing: stop}
}

// me is the name of the user who runs the tests.
func me() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return os.Getenv("USER")
}
