package control_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/store"
)

func TestTagTemplate(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	for range 2 {
		g.make(core.TemplateSpec{Name: "app", Image: image("app")})
	}
	for _, ref := range []string{"app@1", "app"} {
		got, err := g.svc.TagTemplate(t.Context(), alice, ref, "stable")
		if err != nil || len(got.Tags) != 1 || g.template("app:stable").ID != got.ID {
			t.Fatalf("%s: %+v, %v", ref, got, err)
		}
	}
	if v := g.template("app:stable").Version; v != 2 {
		t.Errorf("stable is version %d", v)
	}
	_, err := g.svc.TagTemplate(t.Context(), alice, "app", "latest")
	wantCode(t, err, core.CodeInvalid)
	_, err = g.svc.TagTemplate(t.Context(), bob, "app", "mine")
	wantCode(t, err, core.CodeNotFound)
	_, err = g.svc.TagTemplate(t.Context(), alice, "minimal", "mine")
	wantCode(t, err, core.CodeDenied)
	for i := range 32 {
		if _, err = g.svc.TagTemplate(t.Context(), alice, "app@2", "t"+strings.Repeat("x", i)); err != nil {
			break
		}
	}
	wantCode(t, err, core.CodeInvalid)

	wantCode(t, g.svc.UntagTemplate(t.Context(), bob, "app", "stable"), core.CodeNotFound)
	wantCode(t, g.svc.UntagTemplate(t.Context(), alice, "app", "latest"), core.CodeInvalid)
	wantCode(t, g.svc.UntagTemplate(t.Context(), alice, "app", "nope"), core.CodeNotFound)
	if err := g.svc.UntagTemplate(t.Context(), alice, "app", "stable"); err != nil {
		t.Fatal(err)
	}
	_, err = g.svc.GetTemplate(t.Context(), alice, "app:stable")
	wantCode(t, err, core.CodeNotFound)
}

func TestDeleteTemplate(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	for range 3 {
		g.make(core.TemplateSpec{Name: "app", Image: image("app")})
	}
	one, two := g.template("app@1"), g.template("app@2")
	sb := g.world.create(core.SandboxSpec{Template: "app@2"})
	for _, ref := range []string{"app@2", string(two.ID), "app"} {
		err := g.svc.DeleteTemplate(t.Context(), alice, ref)
		if e := wantCode(t, err, core.CodeConflict); e.Message != "app@2 is used by 1 sandbox ("+string(sb.ID)+"): delete it first" {
			t.Errorf("%s: %s", ref, e.Message)
		}
	}
	if g.template("app@3").State != core.TemplateReady {
		t.Error("a delete of all took some")
	}
	wantCode(t, g.svc.DeleteTemplate(t.Context(), bob, "app@1"), core.CodeNotFound)
	wantCode(t, g.svc.DeleteTemplate(t.Context(), alice, "nope"), core.CodeNotFound)
	wantCode(t, g.svc.DeleteTemplate(t.Context(), alice, "app@9"), core.CodeNotFound)
	for _, ref := range []string{"minimal", "minimal@1", string(g.template("minimal").ID)} {
		wantCode(t, g.svc.DeleteTemplate(t.Context(), alice, ref), core.CodeDenied)
	}
	if err := g.svc.DeleteTemplate(t.Context(), alice, "app@1"); err != nil {
		t.Fatal(err)
	}
	g.noTraces(one.ID)
	_, err := g.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Template: "app@1"})
	wantCode(t, err, core.CodeNotFound)
	if err := g.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	if err := g.svc.DeleteTemplate(t.Context(), alice, "app"); err != nil {
		t.Fatal(err)
	}
	g.noTraces(two.ID)
	wantCode(t, g.svc.DeleteTemplate(t.Context(), alice, "app"), core.CodeNotFound)
	// A tenant's own shadows the system's, and deleting it brings that back.
	own := g.make(core.TemplateSpec{Name: "minimal", Image: image("app")})
	if g.template("minimal").ID != own.ID {
		t.Error("its own is not found first")
	}
	if err := g.svc.DeleteTemplate(t.Context(), alice, "minimal"); err != nil {
		t.Fatal(err)
	}
	if got := g.template("minimal"); got.Tenant != core.SystemTenant {
		t.Errorf("%+v", got)
	}
}

// TestTemplateDeletedDuringCreate: a sandbox never starts from a template that is gone.
func TestTemplateDeletedDuringCreate(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.make(core.TemplateSpec{Name: "app", Image: image("app")})
	g.node.onReserve = func() {
		if err := g.svc.DeleteTemplate(context.Background(), alice, "app"); err != nil {
			t.Error(err)
		}
	}
	_, err := g.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Template: "app"})
	if e := wantCode(t, err, core.CodeNotFound); e.Field != "template" {
		t.Errorf("%+v", e)
	}
	if g.node.count() != 0 || len(g.node.reserved) != 0 {
		t.Error("something is left")
	}
}

// TestTemplateDeleteGoesOn: a delete that the node can't carry out now, or that a restart cuts off, is carried out later.
func TestTemplateDeleteGoesOn(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	tmpl := g.make(core.TemplateSpec{Name: "app", Image: image("app")})
	g.node.failTemplateDeletes(errors.New("the disk is busy"))
	if err := g.svc.DeleteTemplate(t.Context(), alice, "app"); err != nil {
		t.Fatal(err)
	}
	if err := g.svc.Close(); err != nil {
		t.Fatal(err)
	}
	err := g.store.View(t.Context(), func(r store.Reader) error {
		list, err := r.TemplatesInState(core.TemplateDeleted)
		if len(list) != 1 {
			t.Errorf("deleted: %v", list)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	g.node.failTemplateDeletes(nil)
	g.start()
	g.noTraces(tmpl.ID)
	if known := g.node.swept[len(g.node.swept)-1]; !known.Templates[tmpl.ID] {
		t.Error("its tree would have been set aside as unknown")
	}
}

func TestTemplateQuota(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	most, bytes := int64(2), int64(10)
	g.quota = core.Quota{Templates: &most, TemplateBytes: &bytes}
	_ = g.svc.Close()
	g.start()
	g.make(core.TemplateSpec{Name: "a", Image: image("app")}) // 7 bytes
	op, err := g.svc.CreateTemplate(t.Context(), alice, core.TemplateSpec{Name: "b", Image: image("app")})
	if err != nil {
		t.Fatal(err)
	}
	if op = g.ended(op.ID); op.State != core.OperationFailed || op.Code != core.CodeQuota {
		t.Fatalf("beyond its bytes: %+v", op)
	}
	g.noTraces(core.TemplateID(op.Target["template_id"]))
	for _, name := range []string{"c", "d"} {
		if _, err = g.svc.CreateTemplate(t.Context(), alice, core.TemplateSpec{Name: name, Image: image("slow")}); err != nil {
			break
		}
	}
	wantCode(t, err, core.CodeQuota)
}

// TestEntrypoint runs what a template says.
func TestEntrypoint(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.make(core.TemplateSpec{Name: "app", Image: image("app")})
	sb, bare := g.world.create(core.SandboxSpec{Template: "app"}), g.world.create(core.SandboxSpec{})
	for want, args := range map[string][]string{"/bin/app serve": nil, "/bin/app -v": {"-v"}} {
		e, _, err := g.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Entrypoint: true, Cmd: args, Detach: true})
		if err != nil || strings.Join(e.Spec.Cmd, " ") != want {
			t.Errorf("%v: %v, %v", args, e.Spec.Cmd, err)
		}
	}
	for _, spec := range []core.ExecSpec{{Entrypoint: true, Shell: "true"}, {}, {Entrypoint: true, Cmd: []string{"a\x00"}}} {
		_, _, err := g.svc.Exec(t.Context(), alice, string(sb.ID), spec)
		wantCode(t, err, core.CodeInvalid)
	}
	_, _, err := g.svc.Exec(t.Context(), alice, string(bare.ID), core.ExecSpec{Entrypoint: true})
	if e := wantCode(t, err, core.CodeInvalid); e.Field != "entrypoint" || !strings.Contains(e.Message, "minimal@1") {
		t.Errorf("%+v", e)
	}
	e, _, err := g.svc.Exec(t.Context(), alice, string(bare.ID), core.ExecSpec{Entrypoint: true, Cmd: []string{"ls"}, Detach: true})
	if err != nil || e.Spec.Cmd[0] != "ls" {
		t.Errorf("arguments without an entrypoint: %v, %v", e.Spec.Cmd, err)
	}
}
