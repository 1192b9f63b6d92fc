package panda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/store"
)

var epoch = time.Date(2026, 11, 29, 17, 0, 0, 0, time.UTC)

// fake is control in memory: sandboxes are records, a process is what the test says it is. What a test doesn't need is nil and panics.
type fake struct {
	dialect.Control

	mu        sync.Mutex
	sandboxes []core.Sandbox
	guest     *fakeGuest
	// specs are the execs that were started.
	specs []core.ExecSpec
	// noHome says that the guest has no /root.
	noHome bool
	// messages are what the stream of an exec yields, result what one that is waited for does.
	messages []core.ExecMessage
	result   core.ExecResult
	// open keeps a stream from ending after its messages.
	open chan struct{}
	// touched counts the uses that the adapter told of.
	touched int
	// fail, by method name, is what that method returns instead of working.
	fail map[string]error
}

func newFake() *fake { return &fake{guest: newGuest(), fail: map[string]error{}} }

// Authenticate knows two tenants.
func (*fake) Tie(control.Principal, func(error)) (func(), error) { return func() {}, nil }

func (*fake) Note(control.Principal, core.AuditEntry) {}

func (f *fake) Authenticate(_ context.Context, secret string) (control.Principal, error) {
	switch secret {
	case "pds_one", "pds_two":
		return control.Principal{Tenant: core.TenantID(secret[4:]), Actor: core.Actor{Kind: "key", ID: "k" + secret[4:]}}, nil
	}
	return control.Principal{}, core.Errorf(core.CodeUnauthenticated, "the API key is missing, unknown or expired")
}

func (f *fake) CreateSandbox(_ context.Context, p control.Principal, spec core.SandboxSpec) (core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["CreateSandbox"]; err != nil {
		return core.Sandbox{}, err
	}
	if spec.Template == "" {
		spec.Template = "base"
	}
	if spec.Template != "base" {
		return core.Sandbox{}, &core.Error{Code: core.CodeNotFound, Field: "template", Message: "there is no template " + spec.Template}
	}
	sb := core.Sandbox{
		ID: core.SandboxID(fmt.Sprintf("s%021d", len(f.sandboxes)+1)), Tenant: p.Tenant, TemplateName: spec.Template, State: core.StateRunning,
		Persistent: spec.Persistent, Labels: spec.Labels, Idle: spec.Idle, Resources: core.Resources{VCPUs: 0.5, MemoryBytes: 512 << 20},
		CreatedAt: epoch, StartedAt: epoch.Add(94 * time.Millisecond), ActiveAt: time.Now(),
	}
	f.sandboxes = append(f.sandboxes, sb)
	return sb, nil
}

func (f *fake) find(p control.Principal, ref string) (*core.Sandbox, error) {
	for i := range f.sandboxes {
		if sb := &f.sandboxes[i]; sb.Tenant == p.Tenant && string(sb.ID) == ref && sb.State != core.StateDeleted {
			return sb, nil
		}
	}
	return nil, core.Errorf(core.CodeNotFound, "no such sandbox")
}

func (f *fake) GetSandbox(_ context.Context, p control.Principal, ref string) (core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sb, err := f.find(p, ref)
	if err != nil {
		return core.Sandbox{}, err
	}
	if err := f.fail["GetSandbox"]; err != nil {
		return core.Sandbox{}, err
	}
	return *sb, nil
}

// ListSandboxes returns pages of two.
func (f *fake) ListSandboxes(_ context.Context, p control.Principal, _ store.SandboxFilter, page store.Page) ([]core.Sandbox, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["ListSandboxes"+page.Cursor]; err != nil {
		return nil, "", err
	}
	from := 0
	_, _ = fmt.Sscanf(page.Cursor, "%d", &from)
	var mine []core.Sandbox
	for _, sb := range f.sandboxes {
		if sb.Tenant == p.Tenant && sb.State != core.StateDeleted {
			mine = append(mine, sb)
		}
	}
	to, next := min(from+2, len(mine)), ""
	if to < len(mine) {
		next = fmt.Sprint(to)
	}
	return mine[from:to], next, nil
}

func (f *fake) Touch(_ context.Context, p control.Principal, ref string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.find(p, ref)
	f.touched++
	return err
}

func (f *fake) UpdateSandbox(_ context.Context, p control.Principal, ref string, patch control.SandboxPatch) (core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sb, err := f.find(p, ref)
	if err != nil {
		return core.Sandbox{}, err
	}
	if patch.Persistent != nil {
		sb.Persistent = *patch.Persistent
	}
	if patch.Idle != nil {
		sb.Idle = *patch.Idle
	}
	if patch.TTL != nil && *patch.TTL == 0 {
		sb.ExpiresAt = time.Time{}
	}
	return *sb, nil
}

func (f *fake) DeleteSandbox(_ context.Context, p control.Principal, ref string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	sb, err := f.find(p, ref)
	if err == nil {
		sb.State = core.StateDeleted
	}
	return err
}

func (f *fake) Files(_ context.Context, p control.Principal, ref string) (core.Guest, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(p, ref); err != nil {
		return nil, err
	}
	return f.guest, f.fail["Files"]
}

func (f *fake) start(p control.Principal, ref string, spec core.ExecSpec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(p, ref); err != nil {
		return err
	}
	f.specs = append(f.specs, spec)
	if f.noHome && spec.Cwd == "/root" {
		return core.Invalid("cwd", "there is no such directory")
	}
	return f.fail["Exec"]
}

func (f *fake) RunExec(_ context.Context, p control.Principal, ref string, spec core.ExecSpec, _ []byte, limit int) (core.ExecResult, error) {
	if err := f.start(p, ref, spec); err != nil {
		return core.ExecResult{}, err
	}
	out := f.result
	if len(out.Stdout) > limit {
		out.Stdout, out.Truncated = out.Stdout[:limit], true
	}
	return out, nil
}

func (f *fake) Exec(_ context.Context, p control.Principal, ref string, spec core.ExecSpec) (core.Exec, core.ExecStream, error) {
	if err := f.start(p, ref, spec); err != nil {
		return core.Exec{}, nil, err
	}
	return core.Exec{}, &fakeStream{messages: slices.Clone(f.messages), open: f.open, closed: make(chan struct{})}, nil
}

// Limits are the server's.
func (f *fake) Limits(control.Principal) control.Limits {
	return control.Limits{
		DefaultTTL: time.Hour, MaxTTL: 24 * time.Hour, Default: core.Resources{VCPUs: 1, MemoryBytes: 512 << 20}, DefaultTemplate: "base",
	}
}

func (f *fake) ListTemplates(_ context.Context, _ control.Principal, _ store.TemplateFilter, page store.Page) ([]core.Template, string, error) {
	list := templates()
	if page.Cursor == "" {
		return list[:2], "more", nil
	}
	return list[2:], "", nil
}

func (f *fake) GetTemplate(_ context.Context, _ control.Principal, ref string) (core.Template, error) {
	for _, t := range templates() {
		if t.Name == ref || string(t.ID) == ref {
			return t, nil
		}
	}
	return core.Template{}, core.Errorf(core.CodeNotFound, "no such template")
}

func templates() []core.Template {
	one := func(id, name string, version int64, state core.TemplateState) core.Template {
		return core.Template{
			ID: core.TemplateID(id), Tenant: core.SystemTenant, Name: name, Version: version, State: state, Source: "debian", SizeBytes: 1 << 20,
			Digest: "sha256:00", Percent: 100,
		}
	}
	building := one("t3", "minimal", 1, core.TemplateBuilding)
	building.Percent, building.Progress, building.Digest = 30, "unpack", ""
	return []core.Template{one("t1", "base", 1, core.TemplateReady), one("t2", "base", 2, core.TemplateReady), one("t4", "base", 3, core.TemplateFailed), building}
}

// fakeStream yields its messages, then ends or stays open.
type fakeStream struct {
	core.ExecStream
	messages []core.ExecMessage
	open     chan struct{}
	once     sync.Once
	closed   chan struct{}
}

func (s *fakeStream) Recv() (core.ExecMessage, error) {
	if len(s.messages) > 0 {
		m := s.messages[0]
		s.messages = s.messages[1:]
		return m, nil
	}
	if s.open != nil {
		select {
		case <-s.open:
		case <-s.closed:
		}
	}
	return core.ExecMessage{}, io.EOF
}

func (s *fakeStream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// fakeGuest has files in a map.
type fakeGuest struct {
	core.Guest
	mu    sync.Mutex
	files map[string]core.FileInfo
	data  map[string][]byte
	// writes are the options of the files that were written.
	writes []core.WriteOptions
}

func newGuest() *fakeGuest {
	g := &fakeGuest{files: map[string]core.FileInfo{}, data: map[string][]byte{}}
	for p, t := range map[string]core.FileType{"/": core.FileDirectory, "/dir": core.FileDirectory, "/link": core.FileSymlink, "/broken": core.FileSymlink} {
		g.files[p] = core.FileInfo{Name: path.Base(p), Path: p, Type: t, Mode: 0o755, MTime: epoch}
	}
	g.put("/dir/a.txt", []byte("hello"))
	g.put("/dir/caf\xe9", []byte("x"))
	return g
}

func (g *fakeGuest) put(p string, data []byte) {
	g.files[p] = core.FileInfo{Name: path.Base(p), Path: p, Type: core.FileRegular, Size: int64(len(data)), Mode: 0o644, MTime: epoch.Add(1500 * time.Millisecond)}
	g.data[p] = data
}

func (g *fakeGuest) Stat(_ context.Context, p string) (core.FileInfo, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f, ok := g.files[p]
	if !ok {
		return f, &core.Error{Code: core.CodeNotFound, Field: "path", Message: "no such file"}
	}
	return f, nil
}

func (g *fakeGuest) Walk(ctx context.Context, p string, _ core.WalkOptions) ([]core.FileInfo, bool, error) {
	f, err := g.Stat(ctx, p)
	if p == "/link" {
		f.Final = &core.FinalFile{Path: "/dir", Type: core.FileDirectory, Mode: 0o755}
	}
	return []core.FileInfo{f}, false, err
}

func (g *fakeGuest) ListFiles(ctx context.Context, p, after string, limit int) ([]core.FileInfo, bool, error) {
	if f, err := g.Stat(ctx, p); err != nil || f.Type != core.FileDirectory {
		return nil, false, errors.Join(err, core.Invalid("path", "a part of the path is not a directory"))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []core.FileInfo
	for _, name := range slices.Sorted(maps.Keys(g.files)) {
		if f := g.files[name]; name != "/" && path.Dir(name) == p && f.Name > after && len(out) < limit {
			out = append(out, f)
		}
	}
	return out, len(out) == limit, nil
}

func (g *fakeGuest) ReadFile(ctx context.Context, p string, _, _ int64) (core.FileInfo, io.ReadCloser, error) {
	f, err := g.Stat(ctx, p)
	if err != nil {
		return f, nil, err
	}
	if f.Type == core.FileDirectory {
		return f, nil, core.Invalid("path", "it is a directory")
	}
	return f, io.NopCloser(bytes.NewReader(g.data[p])), nil
}

func (g *fakeGuest) WriteFile(_ context.Context, p string, o core.WriteOptions, r io.Reader) (core.FileInfo, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return core.FileInfo{}, fmt.Errorf("read: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if strings.HasPrefix(p, "/full/") {
		return core.FileInfo{}, &core.Error{Code: core.CodeExhausted, Field: "path", Message: "the sandbox's disk is full"}
	}
	g.writes = append(g.writes, o)
	g.put(p, data)
	return g.files[p], nil
}

func (g *fakeGuest) Remove(ctx context.Context, p string, o core.RemoveOptions) error {
	f, err := g.Stat(ctx, p)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for name := range g.files {
		if strings.HasPrefix(name, p+"/") {
			if f.Type == core.FileDirectory && !o.Recursive {
				return core.Errorf(core.CodeConflict, "the directory is not empty")
			}
			delete(g.files, name)
		}
	}
	delete(g.files, p)
	return nil
}
