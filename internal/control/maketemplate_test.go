package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/seal"
	"shoal/internal/store"
)

// shelf keeps uploads in memory.
type shelf struct {
	clock *clock
	mu    sync.Mutex
	kept  map[core.UploadID]string
	since map[core.UploadID]time.Time
}

func (s *shelf) Put(_ context.Context, tenant core.TenantID, r io.Reader) (core.Upload, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return core.Upload{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := core.UploadID(core.NewID())
	s.kept[id], s.since[id] = string(tenant)+" "+string(text), s.clock.Now()
	return core.Upload{ID: id, SizeBytes: int64(len(text))}, nil
}

func (s *shelf) Path(tenant core.TenantID, id core.UploadID) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, text, ok := strings.Cut(s.kept[id], " ")
	if !ok || owner != string(tenant) {
		return "", core.Errorf(core.CodeNotFound, "no such upload")
	}
	return "/shelf/" + text, nil
}

func (s *shelf) Delete(_ core.TenantID, id core.UploadID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, id)
	return nil
}

func (s *shelf) DeleteAll(tenant core.TenantID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, text := range s.kept {
		if strings.HasPrefix(text, string(tenant)+" ") {
			delete(s.kept, id)
		}
	}
	return nil
}

func (s *shelf) Expire(now time.Time, keep func(core.TenantID, core.UploadID) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.kept {
		if !keep("", id) && now.Sub(s.since[id]) >= time.Hour {
			delete(s.kept, id)
		}
	}
	return nil
}

func (s *shelf) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept)
}

// gallery is a world with images: "app" has a config, "slow" comes when it is let, those of private.example need a login, all others are
// refused.
type gallery struct {
	*world
	shelf *shelf
	mu    sync.Mutex
	asked []core.ImageSource
	slow  chan struct{}
}

func newGallery(t *testing.T) *gallery {
	t.Helper()
	g := &gallery{world: newWorld(t), slow: make(chan struct{})}
	g.shelf = &shelf{clock: g.clock, kept: map[core.UploadID]string{}, since: map[core.UploadID]time.Time{}}
	g.uploads, g.vault = g.shelf, seal.New(filepath.Join(t.TempDir(), seal.KeyFile))
	g.images = func(ctx context.Context, src core.ImageSource, _ string, progress func(core.OperationProgress)) (control.BuiltTemplate, error) {
		g.mu.Lock()
		g.asked = append(g.asked, src)
		g.mu.Unlock()
		progress(core.OperationProgress{Step: "fetching", Percent: 10, BytesTotal: 200})
		switch {
		case src.Ref == "app", src.Archive == "/shelf/app.tar":
			progress(core.OperationProgress{Step: "fetching", Percent: 90, BytesDone: 200, BytesTotal: 200})
		case src.Ref == "slow", src.Archive == "/shelf/slow.tar":
			progress(core.OperationProgress{Step: "waiting", Percent: 20, BytesDone: 150, BytesTotal: 200})
			select {
			case <-g.slow:
			case <-ctx.Done():
				return control.BuiltTemplate{}, ctx.Err()
			}
		case strings.HasPrefix(src.Ref, "private.example/"):
			if err := g.enter(ctx, src); err != nil {
				return control.BuiltTemplate{}, err
			}
		case src.Ref == "secret" && src.Username == "u" && src.Password.Reveal() == "pass-word":
		default:
			return control.BuiltTemplate{}, core.Errorf(core.CodeNotFound, "the registry has no such image")
		}
		return control.BuiltTemplate{
			Source: "image " + src.Ref,
			Config: core.TemplateConfig{
				User: "1000", Workdir: "/app", Env: map[string]string{"A": "1", "B": "2"}, Entrypoint: []string{"/bin/app"}, Cmd: []string{"serve"},
			},
		}, nil
	}
	g.start().ready()
	return g
}

func image(ref string) core.ImageSource { return core.ImageSource{Ref: ref} }

// make makes a template and wants it to succeed.
func (g *gallery) make(spec core.TemplateSpec) core.Template {
	g.t.Helper()
	op, err := g.svc.CreateTemplate(g.t.Context(), alice, spec)
	if err != nil {
		g.t.Fatal(err)
	}
	if op = g.ended(op.ID); op.State != core.OperationSucceeded {
		g.t.Fatalf("%+v", op)
	}
	return g.template(op.Result["template"])
}

func (g *gallery) ended(id core.OperationID) core.Operation {
	g.t.Helper()
	op, err := g.svc.AwaitOperation(g.t.Context(), alice, id, math.MaxInt64, time.Hour)
	if err != nil || !op.Ended() {
		g.t.Fatalf("%+v, %v", op, err)
	}
	return op
}

func (g *gallery) template(ref string) core.Template {
	g.t.Helper()
	tmpl, err := g.svc.GetTemplate(g.t.Context(), alice, ref)
	if err != nil {
		g.t.Fatalf("%s: %v", ref, err)
	}
	return tmpl
}

// events lists what happened to templates.
func (g *gallery) events() (out []string) {
	g.t.Helper()
	list, _, err := g.svc.Events(g.t.Context(), alice, "", 0, 1000, 0)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, e := range list {
		if strings.HasPrefix(string(e.Type), "template.") {
			out = append(out, strings.TrimSpace(string(e.Type)+" "+e.Data["template"]+" "+e.Data["tag"]))
		}
	}
	return out
}

// noTraces wants nothing to be left of a template.
func (g *gallery) noTraces(id core.TemplateID) {
	g.t.Helper()
	eventually(g.t, "its tree and its record are gone", func() bool {
		left := false
		err := g.store.View(g.t.Context(), func(r store.Reader) error {
			for _, state := range []core.TemplateState{core.TemplateBuilding, core.TemplateReady, core.TemplateFailed, core.TemplateDeleted} {
				list, err := r.TemplatesInState(state)
				for _, x := range list {
					left = left || x.ID == id
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		has, _ := g.node.HasTemplate(g.t.Context(), id)
		return err == nil && !left && !has
	})
}

func TestImportTemplate(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	one := g.make(core.TemplateSpec{Name: "app", Image: image("app"), Tags: []string{"stable", "1.0"}})
	if one.Version != 1 || one.State != core.TemplateReady || one.Visibility != core.VisibilityPrivate || one.Digest == "" || one.ReadyAt.IsZero() {
		t.Fatalf("%+v", one)
	}
	if diff := cmp.Diff(core.TemplateConfig{
		User: "1000", Workdir: "/app", Env: map[string]string{"A": "1", "B": "2"}, Entrypoint: []string{"/bin/app"}, Cmd: []string{"serve"},
	}, one.Config); diff != "" {
		t.Error(diff)
	}
	user, none := "root", []string{}
	two := g.make(core.TemplateSpec{Name: "app", Image: image("app"), Tags: []string{"stable"}, Config: core.TemplateOverrides{
		User: &user, Env: map[string]string{"B": "3", "C": "4"}, Entrypoint: &none, Cmd: &[]string{"/bin/other"},
	}})
	if diff := cmp.Diff(core.TemplateConfig{
		User: "root", Workdir: "/app", Env: map[string]string{"A": "1", "B": "3", "C": "4"}, Entrypoint: none, Cmd: []string{"/bin/other"},
	}, two.Config, cmp.FilterValues(func(a, b []string) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
	for ref, want := range map[string]int64{"app": 2, "app@1": 1, "app:stable": 2, "app:1.0": 1, "app:latest": 2, string(one.ID): 1} {
		if got := g.template(ref); got.Version != want {
			t.Errorf("%s is version %d, want %d", ref, got.Version, want)
		}
		_, err := g.svc.GetTemplate(t.Context(), bob, ref)
		wantCode(t, err, core.CodeNotFound)
	}
	sb := g.world.create(core.SandboxSpec{Template: "app:1.0"})
	if sb.Template != one.ID || g.node.running[sb.ID].Config.Workdir != "/app" {
		t.Errorf("it started from %v", sb.Template)
	}
	want := []string{
		"template.importing app@1", "template.ready app@1", "template.tagged app@1 stable", "template.tagged app@1 1.0",
		"template.importing app@2", "template.ready app@2", "template.tagged app@2 stable",
	}
	if diff := cmp.Diff(want, g.events()); diff != "" {
		t.Error(diff)
	}
	for _, ref := range []string{"", "app@3", "app:x", "App", "app@", "nope"} {
		_, err := g.svc.GetTemplate(t.Context(), alice, ref)
		wantCode(t, err, core.CodeNotFound)
	}
}

func TestCreateTemplateRefuses(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	empty, relative := "", "app"
	for name, tc := range map[string]struct {
		spec  core.TemplateSpec
		code  core.Code
		field string
	}{
		"name":          {core.TemplateSpec{Name: "A B", Image: image("app")}, core.CodeInvalid, "name"},
		"tag":           {core.TemplateSpec{Name: "app", Image: image("app"), Tags: []string{"ok", "No"}}, core.CodeInvalid, "tags"},
		"latest":        {core.TemplateSpec{Name: "app", Image: image("app"), Tags: []string{"latest"}}, core.CodeInvalid, "tags"},
		"tags":          {core.TemplateSpec{Name: "app", Image: image("app"), Tags: strings.Split(strings.Repeat("a,", 17), ",")}, core.CodeInvalid, "tags"},
		"no source":     {core.TemplateSpec{Name: "app"}, core.CodeInvalid, "from_image"},
		"two sources":   {core.TemplateSpec{Name: "app", Image: image("app"), Sandbox: "lab"}, core.CodeInvalid, "from_image"},
		"checkpoint":    {core.TemplateSpec{Name: "app", Checkpoint: "c"}, core.CodeNotFound, ""},
		"no upload":     {core.TemplateSpec{Name: "app", Upload: core.UploadID(core.NewID())}, core.CodeNotFound, ""},
		"no sandbox":    {core.TemplateSpec{Name: "app", Sandbox: "nobody"}, core.CodeNotFound, ""},
		"stray user":    {core.TemplateSpec{Name: "app", Sandbox: "lab", Image: core.ImageSource{Username: "u"}}, core.CodeInvalid, "username"},
		"no password":   {core.TemplateSpec{Name: "app", Image: core.ImageSource{Ref: "app", Username: "u"}}, core.CodeInvalid, "password"},
		"platform":      {core.TemplateSpec{Name: "app", Sandbox: "lab", Image: core.ImageSource{Platform: "linux/arm64"}}, core.CodeInvalid, "platform"},
		"long ref":      {core.TemplateSpec{Name: "app", Image: image(strings.Repeat("x", 2000))}, core.CodeInvalid, "from_image"},
		"user":          {core.TemplateSpec{Name: "app", Image: image("app"), Config: core.TemplateOverrides{User: &empty}}, core.CodeInvalid, "user"},
		"workdir":       {core.TemplateSpec{Name: "app", Image: image("app"), Config: core.TemplateOverrides{Workdir: &relative}}, core.CodeInvalid, "workdir"},
		"env":           {core.TemplateSpec{Name: "app", Image: image("app"), Config: core.TemplateOverrides{Env: map[string]string{"a=b": ""}}}, core.CodeInvalid, "env"},
		"cmd":           {core.TemplateSpec{Name: "app", Image: image("app"), Config: core.TemplateOverrides{Cmd: &[]string{"a\x00"}}}, core.CodeInvalid, "cmd"},
		"no importer's": {core.TemplateSpec{Name: "app", Upload: "../../etc/passwd"}, core.CodeNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := g.svc.CreateTemplate(t.Context(), alice, tc.spec)
			if e := wantCode(t, err, tc.code); e.Field != tc.field {
				t.Errorf("it blames %q, want %q: %v", e.Field, tc.field, e)
			}
		})
	}
	list, _, err := g.svc.ListOperations(t.Context(), alice, store.OperationFilter{}, store.Page{Limit: 10})
	if err != nil || len(list) != 0 {
		t.Errorf("operations: %+v, %v", list, err)
	}
}

func TestImportFails(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	op, err := g.svc.CreateTemplate(t.Context(), alice, core.TemplateSpec{Name: "app", Image: image("nope"), Tags: []string{"stable"}})
	if err != nil {
		t.Fatal(err)
	}
	id := core.TemplateID(op.Target["template_id"])
	if op = g.ended(op.ID); op.State != core.OperationFailed || op.Code != core.CodeNotFound || op.Message != "the registry has no such image" {
		t.Fatalf("%+v", op)
	}
	g.noTraces(id)
	for _, ref := range []string{"app", "app@1", "app:stable", string(id)} {
		_, err := g.svc.GetTemplate(t.Context(), alice, ref)
		wantCode(t, err, core.CodeNotFound)
	}
	if two := g.make(core.TemplateSpec{Name: "app", Image: image("app")}); two.Version != 2 {
		t.Errorf("the next is version %d", two.Version)
	}
}

// TestImportBytes: what an import has moved is told while it runs, and at its end, though the last of it was never written before.
func TestImportBytes(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	if op := g.importAs(alice, image("app")); op.State != core.OperationSucceeded || op.Progress.BytesDone != 200 || op.Progress.BytesTotal != 200 {
		t.Errorf("%+v", op)
	}
	op, err := g.svc.CreateTemplate(t.Context(), alice, core.TemplateSpec{Name: "app", Image: image("slow")})
	if err != nil {
		t.Fatal(err)
	}
	moved := func(op core.Operation) bool { return op.Progress.BytesDone == 150 && op.Progress.BytesTotal == 200 }
	eventually(t, "the bytes are told", func() bool {
		op, err := g.svc.GetOperation(t.Context(), alice, op.ID)
		return err == nil && moved(op)
	})
	if err := g.svc.CancelOperation(t.Context(), alice, op.ID); err != nil {
		t.Fatal(err)
	}
	if op := g.ended(op.ID); op.State != core.OperationCanceled || !moved(op) {
		t.Errorf("%+v", op)
	}
}

func TestImportCanceled(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	op, err := g.svc.CreateTemplate(t.Context(), alice, core.TemplateSpec{Name: "app", Image: image("slow")})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "its step shows in the template too", func() bool {
		tmpl, err := g.svc.GetTemplate(t.Context(), alice, "app")
		return err == nil && tmpl.State == core.TemplateBuilding && tmpl.Progress == "waiting" && tmpl.Percent == 20
	})
	_, err = g.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Template: "app"})
	wantCode(t, err, core.CodeUnavailable)
	_, err = g.svc.CreateSandbox(t.Context(), bob, core.SandboxSpec{Template: "app"})
	wantCode(t, err, core.CodeNotFound)
	wantCode(t, g.svc.DeleteTemplate(t.Context(), alice, "app@1"), core.CodeConflict)
	wantCode(t, g.svc.DeleteTemplate(t.Context(), alice, "app"), core.CodeConflict)
	_, err = g.svc.TagTemplate(t.Context(), alice, "app@1", "x")
	wantCode(t, err, core.CodeConflict)
	if err := g.svc.CancelOperation(t.Context(), alice, op.ID); err != nil {
		t.Fatal(err)
	}
	_, err = g.svc.GetTemplate(t.Context(), alice, "app")
	wantCode(t, err, core.CodeNotFound)
	g.noTraces(core.TemplateID(op.Target["template_id"]))
}

// TestImportCredentials: a password is used for its import, and is in no record.
func TestImportCredentials(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.make(core.TemplateSpec{Name: "app", Image: core.ImageSource{Ref: "secret", Username: "u", Password: "pass-word"}})
	err := g.store.View(t.Context(), func(r store.Reader) error {
		list, _, err := r.ListOperations("alice", store.OperationFilter{}, store.Page{Limit: 10})
		if text := fmt.Sprintf("%+v", list); strings.Contains(text, "pass-word") || strings.Contains(text, "hidden") || list[0].Intent != "" {
			t.Errorf("recorded: %s", text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestUploads(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	put := func(text string) core.UploadID {
		up, err := g.svc.PutUpload(t.Context(), alice, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return up.ID
	}
	id := put("app.tar")
	_, err := g.svc.CreateTemplate(t.Context(), bob, core.TemplateSpec{Name: "app", Upload: id})
	wantCode(t, err, core.CodeNotFound)
	wantCode(t, g.svc.DeleteUpload(t.Context(), bob, id), core.CodeNotFound)
	g.make(core.TemplateSpec{Name: "app", Upload: id})
	eventually(t, "an upload that was used is removed", func() bool { return g.shelf.count() == 0 })
	wantCode(t, g.svc.DeleteUpload(t.Context(), alice, id), core.CodeNotFound)

	id = put("unused.tar")
	if err := g.svc.DeleteUpload(t.Context(), alice, id); err != nil || g.shelf.count() != 0 {
		t.Fatal(err)
	}
	id = put("slow.tar")
	op, err := g.svc.CreateTemplate(t.Context(), alice, core.TemplateSpec{Name: "app", Upload: id})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, g.svc.DeleteUpload(t.Context(), alice, id), core.CodeConflict)
	other := put("other.tar")
	eventually(t, "one that is too old is removed, one that is needed is not", func() bool {
		g.clock.advance(time.Hour)
		_, gone := g.shelf.Path("alice", other)
		return gone != nil
	})
	if _, err := g.shelf.Path("alice", id); err != nil {
		t.Fatal("an upload was removed under its import")
	}
	if err := g.svc.CancelOperation(t.Context(), alice, op.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its upload is removed", func() bool { return g.shelf.count() == 0 })
}

// TestImportAfterRestart: what needs no password is done again, by the same operation.
func TestImportAfterRestart(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	up, err := g.svc.PutUpload(t.Context(), alice, strings.NewReader("slow.tar"))
	if err != nil {
		t.Fatal(err)
	}
	var ops []core.Operation
	for _, spec := range []core.TemplateSpec{
		{Name: "a", Image: image("slow"), Tags: []string{"x"}},
		{Name: "b", Upload: up.ID},
		{Name: "c", Image: core.ImageSource{Ref: "slow", Password: "pw"}},
	} {
		op, err := g.svc.CreateTemplate(t.Context(), alice, spec)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	sb := g.world.create(core.SandboxSpec{})
	g.node.onCapture = func(ctx context.Context, _ core.TreeSource) error { <-ctx.Done(); return ctx.Err() }
	op, err := g.svc.CreateTemplate(t.Context(), alice, core.TemplateSpec{Name: "d", Sandbox: string(sb.ID)})
	if err != nil {
		t.Fatal(err)
	}
	ops = append(ops, op)
	if err := g.svc.Close(); err != nil {
		t.Fatal(err)
	}
	close(g.slow)
	g.start()
	for i, want := range []core.OperationState{
		core.OperationSucceeded, core.OperationSucceeded, core.OperationFailed, core.OperationFailed,
	} {
		op := g.ended(ops[i].ID)
		if op.State != want {
			t.Errorf("%+v", op)
		}
		if want == core.OperationFailed {
			if op.Code != core.CodeUnavailable {
				t.Errorf("%+v", op)
			}
			g.noTraces(core.TemplateID(op.Target["template_id"]))
		}
	}
	if got := g.template("a:x"); got.Version != 1 {
		t.Errorf("%+v", got)
	}
	g.template("b@1")
}

func TestTemplateOfSandbox(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.make(core.TemplateSpec{Name: "app", Image: image("app")})
	sb := g.world.create(core.SandboxSpec{Name: "lab", Template: "app"})
	dir := "/work"
	made := g.make(core.TemplateSpec{Name: "warm", Sandbox: "lab", Config: core.TemplateOverrides{Workdir: &dir}})
	if made.Config.Workdir != "/work" || made.Config.User != "1000" || made.Config.Entrypoint[0] != "/bin/app" || len(made.Packages) != 1 ||
		made.Source != "sandbox "+string(sb.ID)+" of app@1" || made.Digest != "sha256:2" || made.Files != 3 {
		t.Fatalf("%+v", made)
	}
	if got := g.world.create(core.SandboxSpec{Template: "warm"}); got.Template != made.ID {
		t.Errorf("%+v", got)
	}
	_, err := g.svc.CreateTemplate(t.Context(), bob, core.TemplateSpec{Name: "warm", Sandbox: string(sb.ID)})
	wantCode(t, err, core.CodeNotFound)

	g.node.crash(sb.ID)
	eventually(t, "it has failed", func() bool {
		got, err := g.svc.GetSandbox(t.Context(), alice, "lab")
		return err == nil && got.State == core.StateFailed
	})
	if again := g.make(core.TemplateSpec{Name: "warm", Sandbox: "lab"}); again.Version != 2 {
		t.Errorf("of one that has failed: %+v", again)
	}
}

// TestSandboxDeletedDuringCapture: the delete wins, and waits for nothing.
func TestSandboxDeletedDuringCapture(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	sb := g.world.create(core.SandboxSpec{})
	began := make(chan struct{})
	g.node.onCapture = func(ctx context.Context, _ core.TreeSource) error {
		close(began)
		<-ctx.Done()
		return errors.New("interrupted")
	}
	op, err := g.svc.CreateTemplate(t.Context(), alice, core.TemplateSpec{Name: "warm", Sandbox: string(sb.ID)})
	if err != nil {
		t.Fatal(err)
	}
	<-began
	if err := g.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	if op = g.ended(op.ID); op.State != core.OperationFailed || op.Code != core.CodeConflict {
		t.Fatalf("%+v", op)
	}
	g.noTraces(core.TemplateID(op.Target["template_id"]))
	eventually(t, "the sandbox is gone", func() bool { return g.node.count() == 0 })
}

// TestTemplatesAreMetered: what a tenant's own templates keep counts for it and for no sandbox, what versions share once, also while no
// server is there, until they are deleted.
func TestTemplatesAreMetered(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	used := func() (n int64) {
		t.Helper()
		page, err := g.svc.Usage(t.Context(), alice, control.UsageQuery{}, store.Page{Limit: 10})
		if err != nil || len(page.Rows) > 1 {
			t.Fatalf("%+v: %v", page, err)
		}
		for _, row := range page.Rows {
			n += row.Templates.Big().Int64()
		}
		return n
	}
	one := g.make(core.TemplateSpec{Name: "app", Image: image("app")})
	g.clock.advance(10 * time.Second)
	if got := used(); got != 7*10_000 {
		t.Errorf("10 s of 7 bytes count %d", got)
	}
	g.make(core.TemplateSpec{Name: "again", Image: image("app")}) // the same content
	sb := g.world.create(core.SandboxSpec{Template: string(one.ID)})
	g.clock.advance(10 * time.Second)
	if got := used(); got != 7*20_000 {
		t.Errorf("20 s of 7 bytes, which two versions share for the second half, count %d", got)
	}
	g.make(core.TemplateSpec{Name: "lab", Sandbox: string(sb.ID)}) // of 9 bytes 2 are its own
	g.restart()
	g.clock.advance(10 * time.Second)
	if got := used(); got != 7*20_000+9*10_000 {
		t.Errorf("with a template of a sandbox it is %d", got)
	}
	if err := g.svc.DeleteTemplate(t.Context(), alice, "again"); err != nil {
		t.Fatal(err)
	}
	g.clock.advance(10 * time.Second)
	if got := used(); got != 7*20_000+9*20_000 {
		t.Errorf("what is kept by another version counts no more: %d", got)
	}
	if err := g.svc.DeleteTemplate(t.Context(), alice, "lab"); err != nil {
		t.Fatal(err)
	}
	if err := g.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	if err := g.svc.DeleteTemplate(t.Context(), alice, "app"); err != nil {
		t.Fatal(err)
	}
	want := used()
	g.clock.advance(time.Hour)
	if got := used(); got != want || got != 7*20_000+9*20_000 {
		t.Errorf("without templates it goes on: %d, then %d", want, got)
	}
}
