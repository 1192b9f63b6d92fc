package httpapi_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/httpapi"
	"shoal/internal/obs"
	"shoal/internal/store"
)

const (
	adminKey  = "admin-secret"
	tenantKey = "tenant-secret"
	otherKey  = "other-secret"
)

var epoch = time.Date(2026, 11, 29, 17, 0, 0, 0, time.UTC)

// fakeControl is control in memory: sandboxes are records, processes are the few programs of process_test.go and files
// are a map.
type fakeControl struct {
	mu         sync.Mutex
	now        time.Time
	ids        int
	sandboxes  []core.Sandbox
	keys       []core.Key
	operations []core.Operation
	procs      map[core.SandboxID][]*process
	files      map[core.SandboxID]*fakeFiles
	grants     []fakeGrant
	events     map[core.TenantID][]core.Event
	// grace is what the last stop was asked for.
	grace time.Duration
	// oldest is the first event that is kept.
	oldest int64
	// changed is closed and renewed with every event.
	changed chan struct{}

	// calls are those with a key.
	calls map[string]fakeCall

	// silent says that no sandbox's kernel answers.
	silent bool
	// ready is what Ready returns; fail, by method name, is what that method returns instead of working.
	ready error
	fail  map[string]error
	// full makes creates fail as on a full node.
	full bool

	fakeTenants
}

var _ httpapi.Control = (*fakeControl)(nil)

func newFake() *fakeControl {
	return &fakeControl{
		now: epoch, procs: map[core.SandboxID][]*process{}, files: map[core.SandboxID]*fakeFiles{},
		events: map[core.TenantID][]core.Event{}, changed: make(chan struct{}), calls: map[string]fakeCall{}, fail: map[string]error{}, oldest: 1,
		operations: fakeOperations(),
	}
}

// id returns the next id: predictable, and of the right shape.
func (f *fakeControl) id(letter string) string {
	f.ids++
	return fmt.Sprintf("%s%021d", letter, f.ids)
}

func (f *fakeControl) Authenticate(_ context.Context, secret string) (control.Principal, error) {
	actor := func(id string) core.Actor { return core.Actor{Kind: "key", ID: id} }
	switch secret {
	case adminKey:
		return control.Principal{Tenant: core.DefaultTenant, Actor: actor("k-admin"), Admin: true}, nil
	case tenantKey:
		return control.Principal{Tenant: "t1", Actor: actor("k-1")}, nil
	case otherKey:
		return control.Principal{Tenant: "t2", Actor: actor("k-2")}, nil
	case "broken-store":
		return control.Principal{}, errors.New("disk I/O error at /secret/path")
	}
	return control.Principal{}, core.Errorf(core.CodeUnauthenticated, "the API key is unknown or expired")
}

func (f *fakeControl) NewKey(_ context.Context, p control.Principal, spec core.KeySpec) (core.Key, obs.Secret, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !p.Admin {
		return core.Key{}, obs.Secret{}, core.Errorf(core.CodeDenied, "only an admin's key may make keys")
	}
	k := core.Key{
		ID: core.KeyID(f.id("k")), Tenant: p.Tenant, Name: spec.Name, Dialect: spec.Dialect, Scopes: spec.Scopes, Labels: spec.Labels, CreatedAt: f.now,
	}
	if k.Scopes == 0 {
		k.Scopes = core.OrdinaryScopes()
	}
	if spec.ExpiresIn != 0 {
		k.ExpiresAt = f.now.Add(spec.ExpiresIn)
	}
	f.keys = append(f.keys, k)
	return k, obs.NewSecret(string(spec.Dialect) + "_secret"), nil
}

func (f *fakeControl) ListKeys(_ context.Context, p control.Principal, page store.Page) ([]core.Key, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !p.Admin {
		return nil, "", core.Errorf(core.CodeDenied, "only an admin's key may list keys")
	}
	return paged(f.keys, page)
}

func (f *fakeControl) DeleteKey(_ context.Context, p control.Principal, id core.KeyID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !p.Admin {
		return core.Errorf(core.CodeDenied, "only an admin's key may delete keys")
	}
	before := len(f.keys)
	if f.keys = slices.DeleteFunc(f.keys, func(k core.Key) bool { return k.ID == id }); len(f.keys) == before {
		return core.Errorf(core.CodeNotFound, "no such key")
	}
	return nil
}

func (f *fakeControl) Ready(context.Context) error { return f.ready }

func (f *fakeControl) event(p control.Principal, id core.SandboxID, kind core.EventType, data map[string]string) {
	list := f.events[p.Tenant]
	f.events[p.Tenant] = append(list, core.Event{
		Seq: int64(len(list) + 1), Tenant: p.Tenant, Sandbox: id, Type: kind, At: f.now, Actor: p.Actor, Data: data,
	})
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeControl) CreateSandbox(_ context.Context, p control.Principal, spec core.SandboxSpec) (core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["CreateSandbox"]; err != nil {
		return core.Sandbox{}, err
	}
	if found, err := f.again(p, "create", spec.Once); err != nil || found.sandbox.ID != "" {
		return found.sandbox, err
	}
	if f.full {
		return core.Sandbox{}, &core.Error{Code: core.CodeExhausted, Message: "no room for 512 MiB", RetryAfter: 1500 * time.Millisecond}
	}
	switch {
	case spec.From != "" && spec.From != fakeCheckpoint().ID:
		return core.Sandbox{}, &core.Error{Code: core.CodeNotFound, Field: "from_checkpoint", Message: "no such checkpoint"}
	case spec.From != "" && spec.Template != "":
		return core.Sandbox{}, &core.Error{Code: core.CodeInvalid, Field: "from_checkpoint", Message: "give one of them"}
	}
	if spec.Template == "" {
		spec.Template = "base"
	}
	if spec.Template != "base" {
		return core.Sandbox{}, &core.Error{Code: core.CodeNotFound, Field: "template", Message: "no such template"}
	}
	for _, s := range f.sandboxes {
		if spec.Name != "" && s.Name == spec.Name && s.Tenant == p.Tenant && s.State != core.StateDeleted {
			return core.Sandbox{}, &core.Error{Code: core.CodeConflict, Field: "name", Message: "the name is taken"}
		}
	}
	s := core.Sandbox{
		ID: core.SandboxID(f.id("s")), Tenant: p.Tenant, Name: spec.Name, Template: "t000000000000000000001",
		TemplateName: spec.Template, State: core.StateRunning, Incarnation: 1, Persistent: spec.Persistent,
		Resources: spec.Resources, Env: spec.Env, Labels: spec.Labels, CreatedAt: f.now, StartedAt: f.now.Add(94 * time.Millisecond),
		StateSince: f.now.Add(94 * time.Millisecond), Rules: spec.Rules, Source: spec.From, Head: spec.From,
	}
	s.Resources.VCPUs = cmp.Or(s.Resources.VCPUs, 1)
	s.Resources.MemoryBytes = cmp.Or(s.Resources.MemoryBytes, 512<<20)
	s.Resources.DiskBytes = cmp.Or(s.Resources.DiskBytes, 4<<30)
	if ttl := spec.TTL; ttl != 0 || !spec.Persistent {
		s.ExpiresAt = f.now.Add(cmp.Or(ttl, time.Hour))
	}
	f.sandboxes = append([]core.Sandbox{s}, f.sandboxes...)
	f.files[s.ID] = newFakeFiles()
	f.event(p, s.ID, core.EventSandboxRunning, map[string]string{"template": spec.Template})
	f.made(p, "create", spec.Once, fakeCall{sandbox: s})
	return s, nil
}

func (f *fakeControl) CreateSandboxes(
	ctx context.Context, p control.Principal, batch control.Batch, tell func(control.BatchResult) error,
) error {
	if err := f.fail["CreateSandboxes"]; err != nil {
		return err
	}
	for i, spec := range batch.Specs {
		sb, err := f.CreateSandbox(ctx, p, spec)
		if err := tell(control.BatchResult{Index: i, Sandbox: sb, Err: err}); err != nil {
			return err
		}
		if err != nil && batch.Stop {
			return nil
		}
	}
	return nil
}

func (f *fakeControl) ForkSandbox(ctx context.Context, p control.Principal, ref string, spec core.ForkSpec) (list []core.Sandbox, err error) {
	if err := f.fail["ForkSandbox"]; err != nil {
		return nil, err
	}
	source, err := f.GetSandbox(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	for i := range spec.Count {
		one := spec.Each
		if one.Name = ""; len(spec.Names) > 0 {
			one.Name = spec.Names[i]
		}
		if spec.Once != nil {
			one.Once = &core.Once{Key: fmt.Sprintf("%s, %d", spec.Once.Key, i), Digest: spec.Once.Digest}
		}
		sb, err := f.CreateSandbox(ctx, p, one)
		if err != nil {
			return nil, err
		}
		sb.Parent, sb.Source, sb.Head = source.ID, fakeCheckpoint().ID, fakeCheckpoint().ID
		list = append(list, sb)
		if spec.Once != nil {
			spec.Once.Repeated = one.Once.Repeated
		}
	}
	return list, nil
}

func (f *fakeControl) GetOrCreateSandbox(
	ctx context.Context, p control.Principal, name string, spec core.SandboxSpec,
) (core.Sandbox, bool, error) {
	if sb, err := f.GetSandbox(ctx, p, name); err == nil {
		if spec.Template != "" && spec.Template != sb.TemplateName {
			return sb, false, &core.Error{Code: core.CodeConflict, Field: "template", Message: "its template is another"}
		}
		return sb, false, nil
	}
	spec.Name = name
	sb, err := f.CreateSandbox(ctx, p, spec)
	return sb, err == nil, err
}

// find returns the index of a live sandbox; the caller holds mu.
func (f *fakeControl) find(p control.Principal, ref string) (int, error) {
	for i, s := range f.sandboxes {
		if s.Tenant == p.Tenant && s.State != core.StateDeleted && (string(s.ID) == ref || s.Name == ref && ref != "") {
			return i, nil
		}
	}
	return -1, core.Errorf(core.CodeNotFound, "no such sandbox")
}

func (f *fakeControl) GetSandbox(_ context.Context, p control.Principal, ref string) (core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["GetSandbox"]; err != nil {
		return core.Sandbox{}, err
	}
	if f.fail["panic"] != nil {
		panic("the store is gone: /secret/path")
	}
	i, err := f.find(p, ref)
	if err != nil {
		return core.Sandbox{}, err
	}
	return f.sandboxes[i], nil
}

func (f *fakeControl) ListSandboxes(_ context.Context, p control.Principal, filter store.SandboxFilter, page store.Page) ([]core.Sandbox, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []core.Sandbox
	for _, s := range f.sandboxes {
		match := s.Tenant == p.Tenant && (filter.IncludeDeleted || s.State != core.StateDeleted)
		match = match && (len(filter.States) == 0 || slices.Contains(filter.States, s.State))
		for k, v := range filter.Labels {
			match = match && s.Labels[k] == v
		}
		match = match && (filter.Template == "" || filter.Template == s.TemplateName || filter.Template == string(s.Template))
		match = match && (filter.StartedAfter.IsZero() || s.StartedAt.After(filter.StartedAfter))
		if match {
			list = append(list, s)
		}
	}
	if filter.OldestFirst {
		slices.Reverse(list)
	}
	return paged(list, page)
}

// paged cuts a page out of a list; the cursor is a number.
func paged[T any](list []T, page store.Page) ([]T, string, error) {
	from := 0
	if page.Cursor != "" {
		if _, err := fmt.Sscanf(page.Cursor, "%d", &from); err != nil || from > len(list) {
			return nil, "", core.Invalid("cursor", "cursor is not one of a page before")
		}
	}
	to := min(from+page.Limit, len(list))
	next := ""
	if to < len(list) {
		next = fmt.Sprint(to)
	}
	return list[from:to], next, nil
}

func (f *fakeControl) UpdateSandbox(_ context.Context, p control.Principal, ref string, patch control.SandboxPatch) (core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p, ref)
	if err != nil {
		return core.Sandbox{}, err
	}
	s := &f.sandboxes[i]
	if patch.TTL != nil {
		if *patch.TTL == 0 && !s.Persistent {
			return core.Sandbox{}, core.Invalid("ttl_seconds", "an ephemeral sandbox has a ttl")
		}
		s.ExpiresAt = time.Time{}
		if *patch.TTL != 0 {
			s.ExpiresAt = f.now.Add(*patch.TTL)
		}
	}
	if patch.Persistent != nil {
		s.Persistent = *patch.Persistent
	}
	if patch.Idle != nil {
		s.Idle, s.OnIdle, s.ActiveAt = *patch.Idle, core.ActionDelete, f.now
	}
	if patch.Rules != nil {
		s.Rules = *patch.Rules
	}
	if patch.ExtendTTL != nil {
		if until := f.now.Add(*patch.ExtendTTL); until.After(s.ExpiresAt) {
			s.ExpiresAt = until
		}
	}
	if patch.Labels != nil {
		s.Labels = *patch.Labels
	}
	return *s, nil
}

// Why is that of a sandbox with one exec, which somebody follows.
func (f *fakeControl) Why(_ context.Context, p control.Principal, ref string) (control.Why, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p, ref)
	if err != nil {
		return control.Why{}, err
	}
	sb := f.sandboxes[i]
	return control.Why{
		At: f.now, Sandbox: sb, Rules: core.Schedule(sb), KeptBytes: 4096,
		Uses:    []control.UseNow{{Kind: core.UseExecStream, Count: 2, Since: f.now.Add(-time.Minute)}},
		Execs:   []core.Exec{{ID: "e1", StartedAt: f.now.Add(-time.Minute), Spec: core.ExecSpec{Tag: "web", Shell: "export TOKEN=secret"}}},
		Metrics: &core.SandboxMetrics{MemoryBytes: 1 << 20, Processes: 3},
	}, nil
}

func (f *fakeControl) DeleteSandbox(_ context.Context, p control.Principal, ref string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p, ref)
	if err != nil {
		return err
	}
	f.sandboxes[i].State, f.sandboxes[i].DeletedAt = core.StateDeleted, f.now
	for _, pr := range f.procs[f.sandboxes[i].ID] {
		pr.end(core.OutcomeLost, nil, "")
	}
	f.event(p, f.sandboxes[i].ID, core.EventSandboxDeleted, nil)
	return nil
}

func (f *fakeControl) StopSandbox(_ context.Context, p control.Principal, ref string, grace time.Duration) (core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p, ref)
	if err != nil {
		return core.Sandbox{}, err
	}
	f.grace = grace
	f.sandboxes[i].Become(core.StateStopped, f.now)
	return f.sandboxes[i], nil
}

func (f *fakeControl) WakeSandbox(_ context.Context, p control.Principal, ref string) (core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p, ref)
	if err != nil {
		return core.Sandbox{}, err
	}
	f.sandboxes[i].Become(core.StateRunning, f.now)
	f.sandboxes[i].Incarnation++
	return f.sandboxes[i], nil
}

func (f *fakeControl) Files(_ context.Context, p control.Principal, ref string) (core.Guest, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p, ref)
	if err != nil {
		return nil, err
	}
	return f.files[f.sandboxes[i].ID], nil
}

func (f *fakeControl) Metrics(_ context.Context, p control.Principal, ref string) (core.SandboxMetrics, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(p, ref); err != nil {
		return core.SandboxMetrics{}, err
	}
	m := core.SandboxMetrics{At: f.now, CPUSeconds: 0.25, MemoryBytes: 1 << 20, MemoryLimitBytes: 512 << 20, DiskBytes: -1, Processes: 2}
	if f.silent {
		m.Processes, m.PSSBytes = -1, 24<<20
	}
	return m, nil
}

// Usage is that of two sandboxes in two days.
func (f *fakeControl) Usage(_ context.Context, p control.Principal, q control.UsageQuery, page store.Page) (control.UsagePage, error) {
	out := control.UsagePage{From: q.From, To: q.To}
	if out.To == 0 {
		out.To = core.DayOf(f.now)
	}
	if out.From == 0 {
		out.From = out.To - 29
	}
	if q.Sandbox != "" {
		if _, err := f.find(p, q.Sandbox); err != nil {
			return out, err
		}
	}
	u := core.UsageRow{Usage: core.Usage{
		AwakeMillis: 1500, KeptMillis: 2000, VCPUMillis: 3_000_000, MeasuredMillis: 1000, Execs: 2, ExecMillis: 61_207,
		Memory: core.ByteTime{Large: 2 << 30 / core.ByteTimeUnit * 1500}, Disk: core.ByteTime{Large: 1 << 29 / core.ByteTimeUnit * 1000},
	}}
	if q.ByTenant {
		u.Tenant = p.Tenant
	}
	if q.BySandbox {
		u.Sandbox, u.Name, u.Labels = "s1", "lab", map[string]string{"team": "data"}
	}
	if q.ByDay {
		u.Day = out.To
	}
	out.Rows = []core.UsageRow{u}
	if page.Limit == 1 && page.Cursor == "" {
		out.Next = "more"
	}
	return out, nil
}

func (f *fakeControl) FindEvents(ctx context.Context, p control.Principal, q control.EventQuery) (page store.EventPage, err error) {
	ref, after := q.Sandbox, q.After
	timeout := time.NewTimer(q.Wait)
	defer timeout.Stop()
	for {
		f.mu.Lock()
		var id core.SandboxID
		if ref != "" {
			i, err := f.find(p, ref)
			if err != nil {
				f.mu.Unlock()
				return page, err
			}
			id = f.sandboxes[i].ID
		}
		var list []core.Event
		for _, e := range f.events[p.Tenant] {
			if e.Seq > after && e.Seq >= f.oldest && (id == "" || e.Sandbox == id) && len(list) < q.Limit && (len(q.Types) == 0 || slices.Contains(q.Types, string(e.Type))) &&
				!e.At.Before(q.Since) && (q.Until.IsZero() || e.At.Before(q.Until)) {
				list = append(list, e)
			}
		}
		changed := f.changed
		page = store.EventPage{Events: list, Oldest: f.oldest, Through: int64(len(f.events[p.Tenant]))}
		f.mu.Unlock()
		if len(list) > 0 {
			page.Through = list[len(list)-1].Seq
			return page, nil
		}
		select {
		case <-changed:
		case <-timeout.C:
			return page, nil
		case <-ctx.Done():
			return page, ctx.Err()
		}
	}
}

func (f *fakeControl) CountSandboxes(context.Context) (map[core.State]int, error) {
	return map[core.State]int{core.StateRunning: 1}, nil
}

func (f *fakeControl) Capacity(context.Context, control.Principal) (core.NodeCapacity, error) {
	return core.NodeCapacity{MemoryBytes: 8 << 30, MemoryReservedBytes: 1 << 30, Sandboxes: 2, MaxSandboxes: 100, DiskBytes: 1 << 40, DiskFreeBytes: 1 << 39}, nil
}

// proc returns a process.
func (f *fakeControl) proc(p control.Principal, ref string, id core.ExecID) (*process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p, ref)
	if err != nil {
		return nil, err
	}
	for _, pr := range f.procs[f.sandboxes[i].ID] {
		if pr.exec.ID == id {
			return pr, nil
		}
	}
	return nil, core.Errorf(core.CodeNotFound, "no such exec")
}

func (f *fakeControl) start(p control.Principal, ref string, spec core.ExecSpec) (*process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p, ref)
	if err != nil {
		return nil, err
	}
	if found, err := f.again(p, "exec in "+ref, spec.Once); err != nil || found.process != nil {
		return found.process, err
	}
	if spec.Shell != "" {
		spec.Cmd = strings.Fields(spec.Shell)
	}
	if len(spec.Cmd) == 0 {
		return nil, core.Invalid("cmd", "cmd or shell is needed")
	}
	id := f.sandboxes[i].ID
	pr := newProcess(core.Exec{
		ID: core.ExecID(f.id("e")), Sandbox: id, Spec: spec, PID: 17, StartedAt: f.now, Processes: 1,
	})
	f.procs[id] = append(f.procs[id], pr)
	f.made(p, "exec in "+ref, spec.Once, fakeCall{process: pr})
	go pr.run()
	return pr, nil
}

func (f *fakeControl) Exec(_ context.Context, p control.Principal, ref string, spec core.ExecSpec) (core.Exec, core.ExecStream, error) {
	pr, err := f.start(p, ref, spec)
	if err != nil {
		return core.Exec{}, nil, err
	}
	if spec.Detach {
		return pr.started, nil, nil
	}
	return pr.started, pr.follow(0, true), nil
}

func (f *fakeControl) RunExec(ctx context.Context, p control.Principal, ref string, spec core.ExecSpec, stdin []byte, limit int) (core.ExecResult, error) {
	pr, err := f.start(p, ref, spec)
	if err != nil {
		return core.ExecResult{}, err
	}
	if stdin != nil && (spec.Once == nil || !spec.Once.Repeated) {
		_ = pr.input(stdin, true)
	}
	select {
	case <-pr.done:
	case <-ctx.Done():
		return core.ExecResult{}, core.Wrap(core.CodeCanceled, ctx.Err(), "the call ended first")
	}
	out, errs := pr.output(core.ExecStdout), pr.output(core.ExecStderr)
	return core.ExecResult{
		Exec: pr.record(), Stdout: out[:min(len(out), limit)], Stderr: errs[:min(len(errs), limit)],
		Truncated: len(out) > limit || len(errs) > limit, Duration: 38 * time.Millisecond,
	}, nil
}

func (f *fakeControl) AttachExec(_ context.Context, p control.Principal, ref string, id core.ExecID, from int64) (core.ExecStream, error) {
	pr, err := f.proc(p, ref, id)
	if err != nil {
		return nil, err
	}
	return pr.follow(from, false), nil
}

func (f *fakeControl) GetExec(_ context.Context, p control.Principal, ref string, id core.ExecID) (core.Exec, error) {
	pr, err := f.proc(p, ref, id)
	if err != nil {
		return core.Exec{}, err
	}
	return pr.record(), nil
}

func (f *fakeControl) ListExecs(
	_ context.Context, p control.Principal, ref string, filter store.ExecFilter, page store.Page,
) ([]core.Exec, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p, ref)
	if err != nil {
		return nil, "", err
	}
	var list []core.Exec
	for _, pr := range slices.Backward(f.procs[f.sandboxes[i].ID]) {
		e := pr.record()
		if (filter.Tag == "" || filter.Tag == e.Spec.Tag) && (!filter.Running || e.Outcome == core.OutcomeRunning) {
			list = append(list, e)
		}
	}
	return paged(list, page)
}

func (f *fakeControl) SignalExec(_ context.Context, p control.Principal, ref string, id core.ExecID, signal string) error {
	pr, err := f.proc(p, ref, id)
	if err != nil {
		return err
	}
	return pr.signal(signal)
}

func (f *fakeControl) CancelExec(_ context.Context, p control.Principal, ref string, id core.ExecID) error {
	pr, err := f.proc(p, ref, id)
	if err != nil {
		return err
	}
	pr.end(core.OutcomeCanceled, nil, "")
	return nil
}

func (f *fakeControl) ResizeExec(_ context.Context, p control.Principal, ref string, id core.ExecID, rows, cols uint16) error {
	pr, err := f.proc(p, ref, id)
	if err != nil {
		return err
	}
	return pr.resize(rows, cols)
}

func (f *fakeControl) WriteExecStdin(_ context.Context, p control.Principal, ref string, id core.ExecID, data []byte, end bool) error {
	pr, err := f.proc(p, ref, id)
	if err != nil {
		return err
	}
	return pr.input(data, end)
}
