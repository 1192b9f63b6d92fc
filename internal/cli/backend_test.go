package cli_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/httpapi"
	"shoal/internal/image/spool"
	"shoal/internal/pki"
	"shoal/internal/seal"
	"shoal/internal/store/sqlite"
)

// backend is the real API on the real use cases and a real store; only the machine is ours: its sandboxes are directories
// and their processes ordinary processes of this machine.
type backend struct {
	url, key string
	// tlsURL is the same over TLS, with a certificate of an authority of its own.
	tlsURL  string
	machine *machine
	control *control.Service
	// release lets the template's build end; nothing can be created before.
	release func()
	// shutDown ends the API's streams, as the end of a server does.
	shutDown func()
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "shoal.db"), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	uploads, err := spool.Open(spool.Config{Dir: filepath.Join(dir, "uploads")})
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(dir)
	goOn, begun := make(chan struct{}), make(chan struct{})
	svc := control.New(control.Config{
		Store: store, Node: m, NodeID: "node", Logger: log, Bootstrap: []string{"minimal"},
		Limits: control.Limits{
			DefaultTTL: time.Hour, MaxTTL: 24 * time.Hour, DefaultTemplate: "minimal",
			Default:         core.Resources{VCPUs: 1, MemoryBytes: 512 << 20, OpenFiles: 65536, CPUWeight: 100, IOWeight: 100},
			Max:             core.Resources{VCPUs: 4, MemoryBytes: 8 << 30, Pids: 4096, OpenFiles: 1 << 20, CPUWeight: 100, IOWeight: 100},
			CPUWeight:       true,
			DiskQuotaReason: "a test has no quotas",
		},
		ImportImage: importImage, Spool: uploads, Vault: seal.New(filepath.Join(dir, seal.KeyFile)),
		Build: func(ctx context.Context, _, _ string, progress func(string, int)) (control.BuiltTemplate, error) {
			progress("unpacking packages", 40)
			close(begun)
			select {
			case <-goOn:
			case <-ctx.Done():
				return control.BuiltTemplate{}, ctx.Err()
			}
			return control.BuiltTemplate{
				Source: "a test", Packages: []core.Package{{Name: "python3", Version: "3.11"}},
				Config: core.TemplateConfig{User: "root", Workdir: "/home"},
			}, nil
		},
	})
	if err := svc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Close() })
	<-begun
	key, err := svc.NewAdminKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.Open(filepath.Join(dir, "ca"), pki.Names{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a, err := httpapi.New(svc, httpapi.Options{
		Logger: log, Version: "v1.2.3", Commit: "abcdef0", Loopback: true, Dialects: dialects(),
		CA: &api.CA{Certificate: string(authority.PEM()), Fingerprint: authority.Fingerprint(), ExpiresAt: authority.Expires()},
	})
	if err != nil {
		t.Fatal(err)
	}
	server, encrypted := httptest.NewServer(a.Handler()), httptest.NewUnstartedServer(a.Handler())
	cert, err := authority.Issuer(func() pki.Names { return pki.Names{} }, core.SystemClock{}).GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	encrypted.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	encrypted.EnableHTTP2 = true
	encrypted.Config.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	encrypted.StartTLS()
	for _, s := range []*httptest.Server{server, encrypted} {
		t.Cleanup(s.Close)
		t.Cleanup(s.CloseClientConnections)
	}
	t.Cleanup(a.Close)
	t.Cleanup(m.endAll)
	var once sync.Once
	b := &backend{url: server.URL, tlsURL: encrypted.URL, key: key.Reveal(), machine: m, control: svc, release: func() { once.Do(func() { close(goOn) }) }, shutDown: a.Close}
	t.Cleanup(b.release)
	return b
}

// importImage imports example/app, registry.example/secret for the user ci, example/slow never, and every tar with an index.json in it.
func importImage(ctx context.Context, src core.ImageSource, _ string, progress func(core.OperationProgress)) (control.BuiltTemplate, error) {
	progress(core.OperationProgress{Step: "fetching the image", Percent: 10, BytesDone: 10 << 20, BytesTotal: 100 << 20})
	switch {
	case src.Ref == "example/app", src.Ref == "registry.example/secret" && src.Username == "ci" && src.Password == "hunter2":
	case src.Ref == "registry.example/secret" && src.Username == "" && src.Login != nil:
		username, password, err := src.Login(ctx, "registry.example")
		if err != nil || username != "ci" || password != "hunter2" {
			return control.BuiltTemplate{}, errors.Join(err, core.Errorf(core.CodeNotFound, "the registry has no such image"))
		}
	case src.Ref == "example/slow":
		<-ctx.Done()
		return control.BuiltTemplate{}, ctx.Err()
	case src.Archive != "":
		data, err := os.ReadFile(src.Archive)
		if err != nil {
			return control.BuiltTemplate{}, err
		}
		if !bytes.Contains(data, []byte("index.json")) {
			return control.BuiltTemplate{}, core.Invalid("archive", "the upload is no image")
		}
	default:
		return control.BuiltTemplate{}, core.Errorf(core.CodeNotFound, "the registry has no such image")
	}
	return control.BuiltTemplate{Source: "an image", Config: core.TemplateConfig{
		User: "root", Workdir: "/", Entrypoint: []string{"echo", "two words"}, Cmd: []string{"ran"},
		Labels: map[string]string{"org.example.made-by": "a test"},
	}}, nil
}

// dialects are those that the server says it speaks.
func dialects() []httpapi.Dialect {
	return []httpapi.Dialect{
		{Dialect: api.Dialect{
			Name: "e2b", URL: "http://127.0.0.1:8701", Domain: "e2b.shoal.test:8443", DomainURL: "https://api.e2b.shoal.test:8443", OwnCA: true,
			Templates: map[string]string{"code": "base"}, Clients: []string{"one 1.0", "two 2.0"},
		}},
		{Dialect: api.Dialect{Name: "panda", OwnCA: true, Templates: map[string]string{}, Clients: []string{}}},
	}
}

// ready lets the template be built and waits for it.
func (b *backend) ready(t *testing.T) *backend {
	t.Helper()
	b.release()
	eventually(t, func() bool { return b.control.Ready(t.Context()) == nil })
	return b
}

// eventually waits until ok, at most ten seconds.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come true within 10 s")
		}
		<-time.After(5 * time.Millisecond)
	}
}

// machine is a core.Node whose sandboxes are directories below dir.
type machine struct {
	dir   string
	exits chan core.NodeExit

	mu          sync.Mutex
	guests      map[core.SandboxID]*guest
	templates   map[core.TemplateID]bool
	checkpoints map[core.CheckpointID]bool
	full        bool
}

func newMachine(dir string) *machine {
	return &machine{
		dir: dir, exits: make(chan core.NodeExit, 8), guests: map[core.SandboxID]*guest{}, templates: map[core.TemplateID]bool{},
		checkpoints: map[core.CheckpointID]bool{},
	}
}

func (m *machine) Reserve(context.Context, core.SandboxID, core.Resources) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return &core.Error{Code: core.CodeExhausted, Message: "no memory is left: 512 MiB asked for, 128 MiB free", RetryAfter: 7 * time.Second}
	}
	return nil
}

// ReserveAll finds room for all.
func (m *machine) ReserveAll(context.Context, []core.SandboxID, core.Resources) error { return nil }

// Resize refuses memory that the metrics say is in use.
func (m *machine) Resize(_ context.Context, _ core.SandboxID, r core.Resources, _ bool) error {
	if r.MemoryBytes < 65<<20 {
		return core.Errorf(core.CodeConflict, "the sandbox uses 65 MiB of memory now, which is more than %d MiB", r.MemoryBytes>>20)
	}
	return nil
}

func (m *machine) Release(core.SandboxID) {}

func (m *machine) Create(_ context.Context, spec core.NodeSpec) error {
	g, err := newGuest(filepath.Join(m.dir, string(spec.Sandbox)), spec)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.guests[spec.Sandbox] = g
	return nil
}

// Stop ends what runs and keeps the directory.
func (m *machine) Stop(_ context.Context, id core.SandboxID) error {
	m.mu.Lock()
	g := m.guests[id]
	delete(m.guests, id)
	m.mu.Unlock()
	if g != nil {
		g.die()
	}
	return nil
}

// Wake starts anew in the directory.
func (m *machine) Wake(ctx context.Context, spec core.NodeSpec) error { return m.Create(ctx, spec) }

// Restore starts anew in the directory, which has no other files than before.
func (m *machine) Restore(ctx context.Context, spec core.NodeSpec) error {
	if err := m.Stop(ctx, spec.Sandbox); err != nil {
		return err
	}
	return m.Create(ctx, spec)
}

func (m *machine) Delete(_ context.Context, id core.SandboxID) error {
	m.mu.Lock()
	g := m.guests[id]
	delete(m.guests, id)
	m.mu.Unlock()
	if g != nil {
		g.die()
	}
	return nil
}

// endAll ends the processes that a test has left.
func (m *machine) endAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.guests {
		g.die()
	}
}

func (m *machine) Guest(id core.SandboxID) (core.Guest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.guests[id]; g != nil {
		return g, nil
	}
	return nil, core.Errorf(core.CodeUnavailable, "the sandbox does not run")
}

func (m *machine) Metrics(_ context.Context, _ core.SandboxID) (core.SandboxMetrics, error) {
	return core.SandboxMetrics{
		At: time.Now(), CPUSeconds: 1.5, MemoryBytes: 30 << 20, MemoryLimitBytes: 512 << 20, DiskBytes: -1, Processes: 3,
	}, nil
}

func (m *machine) List(context.Context) ([]core.NodeSandbox, error)      { return nil, nil }
func (m *machine) Exits() <-chan core.NodeExit                           { return m.exits }
func (m *machine) Sweep(context.Context, core.Known) error               { return nil }
func (m *machine) DeleteTemplate(context.Context, core.TemplateID) error { return nil }
func (m *machine) Capacity(context.Context) (core.NodeCapacity, error) {
	return core.NodeCapacity{}, nil
}

func (m *machine) CaptureTemplate(_ context.Context, id core.TemplateID, from core.TreeSource) (core.CapturedTree, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.guests[from.Sandbox] == nil && !m.checkpoints[from.Checkpoint] {
		return core.CapturedTree{}, core.Errorf(core.CodeNotFound, "no such tree")
	}
	m.templates[id] = true
	return core.CapturedTree{TreeInfo: core.TreeInfo{Digest: "sha256:4567", SizeBytes: 150 << 20, Files: 9001}}, nil
}

func (m *machine) Checkpoint(_ context.Context, id core.CheckpointID, _ core.SandboxID) (core.CheckpointTree, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkpoints[id] = true
	return core.CheckpointTree{Origin: "pool/1", WrittenBytes: 3 << 20}, nil
}

func (m *machine) HasCheckpoint(_ context.Context, id core.CheckpointID) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.checkpoints[id], nil
}

func (m *machine) DeleteCheckpoint(_ context.Context, id core.CheckpointID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.checkpoints, id)
	return nil
}

func (m *machine) HasTemplate(_ context.Context, id core.TemplateID) (bool, error) {
	return m.templates[id], nil
}

func (m *machine) ImportTemplate(ctx context.Context, id core.TemplateID, fill func(context.Context, string) error) (core.TreeInfo, error) {
	if err := fill(ctx, m.dir); err != nil {
		return core.TreeInfo{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.templates[id] = true
	return core.TreeInfo{Digest: "sha256:0123", SizeBytes: 140 << 20, Files: 9000}, nil
}
