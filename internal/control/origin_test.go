package control_test

import (
	"context"
	"fmt"
	"testing"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// from creates a sandbox from a checkpoint.
func (w *world) from(c core.Checkpoint, spec core.SandboxSpec) core.Sandbox {
	w.t.Helper()
	spec.From = c.ID
	return w.create(spec)
}

// TestCreateFrom: files, config and limits are the checkpoint's; name, labels, environment and lifecycle are the caller's.
func TestCreateFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{
		Name: "lab", Persistent: true, Labels: map[string]string{"a": "b"}, Env: map[string]string{"SECRET": "s"},
		Resources: core.Resources{VCPUs: 0.5, MemoryBytes: 128 * mib, Pids: 99},
	})
	saved := w.save(lab, core.CheckpointSpec{})
	sb := w.from(saved, core.SandboxSpec{Resources: core.Resources{VCPUs: 0.25}})
	if sb.Source != saved.ID || sb.Head != saved.ID || sb.Parent != "" || sb.Template != lab.Template || sb.TemplateName != "minimal" ||
		sb.Config == nil || sb.Config.User != "root" || sb.Persistent || len(sb.Labels)+len(sb.Env) != 0 || sb.ExpiresAt.IsZero() {
		t.Errorf("it is %+v", sb)
	}
	if r := sb.Resources; r.VCPUs != 0.25 || r.MemoryBytes != 128*mib || r.Pids != 99 {
		t.Errorf("its limits are %+v", r)
	}
	spec := w.node.running[sb.ID]
	if spec.Source != (core.TreeSource{Checkpoint: saved.ID}) || spec.Config.User != "root" || len(spec.Env) != 0 || spec.Hostname != string(sb.ID) {
		t.Errorf("the node was told %+v", spec)
	}
	if got := w.node.running[lab.ID].Source; got != (core.TreeSource{Template: lab.Template}) {
		t.Errorf("of the first the node was told %+v", got)
	}
	events, _, err := w.svc.Events(t.Context(), alice, string(sb.ID), 0, 10, 0)
	if err != nil || len(events) == 0 || events[0].Data["from_checkpoint"] != string(saved.ID) {
		t.Errorf("events say %+v, %v", events, err)
	}
	// A checkpoint of it descends from the one that it started from.
	if next := w.save(sb, core.CheckpointSpec{}); next.Parent != saved.ID {
		t.Errorf("its checkpoint has the parent %s", next.Parent)
	}
}

func TestCreateFromRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{Labels: map[string]string{"team": "red"}})
	saved := w.save(lab, core.CheckpointSpec{})
	blue := alice
	blue.Labels = map[string]string{"team": "blue"}
	red := alice
	red.Labels = map[string]string{"team": "red"}
	for name, c := range map[string]struct {
		p     control.Principal
		spec  core.SandboxSpec
		code  core.Code
		field string
	}{
		"both":           {alice, core.SandboxSpec{From: saved.ID, Template: "minimal"}, core.CodeInvalid, "from_checkpoint"},
		"none such":      {alice, core.SandboxSpec{From: core.CheckpointID(core.NewID())}, core.CodeNotFound, "from_checkpoint"},
		"another tenant": {bob, core.SandboxSpec{From: saved.ID}, core.CodeNotFound, "from_checkpoint"},
		"other labels":   {blue, core.SandboxSpec{From: saved.ID}, core.CodeNotFound, "from_checkpoint"},
	} {
		_, err := w.svc.CreateSandbox(t.Context(), c.p, c.spec)
		if e := wantCode(t, err, c.code); e.Field != c.field {
			t.Errorf("%s: it blames %q", name, e.Field)
		}
		_, _, err = w.svc.GetOrCreateSandbox(t.Context(), c.p, "other", c.spec)
		wantCode(t, err, c.code)
	}
	sb, err := w.svc.CreateSandbox(t.Context(), red, core.SandboxSpec{From: saved.ID})
	if err != nil || sb.Labels["team"] != "red" {
		t.Errorf("with the labels: %+v, %v", sb.Labels, err)
	}
	if n := w.node.promised(); n != 2 {
		t.Errorf("%d reservations, want 2", n)
	}
}

// TestCreateFromGetOrCreate: what is there must have started from the same.
func TestCreateFromGetOrCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	saved := w.save(w.create(core.SandboxSpec{}), core.CheckpointSpec{})
	ask := func(from core.CheckpointID) (bool, error) {
		_, created, err := w.svc.GetOrCreateSandbox(t.Context(), alice, "lab", core.SandboxSpec{From: from})
		return created, err
	}
	for i := range 2 {
		if created, err := ask(saved.ID); err != nil || created != (i == 0) {
			t.Errorf("call %d: created %v, %v", i, created, err)
		}
	}
	_, err := ask(core.CheckpointID(core.NewID()))
	if e := wantCode(t, err, core.CodeConflict); e.Field != "from_checkpoint" {
		t.Errorf("it blames %q", e.Field)
	}
}

// TestCreateFromOutlives: the checkpoint, the sandbox that it was made of and the template's record may go. Wake, checkpoints and templates
// of it work as before.
func TestCreateFromOutlives(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{})
	saved := w.save(lab, core.CheckpointSpec{})
	// Its template was one of the tenant's own, which is gone by now.
	w.change(func(tx store.Tx) error {
		c, err := tx.CheckpointByID(saved.ID)
		if err != nil {
			return err
		}
		c.Template, c.TemplateName, c.Config.Entrypoint = core.TemplateID(core.NewID()), "gone", []string{"serve"}
		return tx.PutCheckpoint(c)
	})
	sb := w.from(saved, core.SandboxSpec{Persistent: true})
	if err := w.svc.DeleteCheckpoint(t.Context(), alice, saved.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(lab.ID)); err != nil {
		t.Fatal(err)
	}
	w.wantSettled(0)
	w.stop(sb)
	w.restart()
	if got := w.wake(sb); got.Source != saved.ID || got.Head != "" {
		t.Errorf("it is %+v", got)
	}
	if spec := w.node.running[sb.ID]; spec.Config.User != "root" || spec.Config.Entrypoint[0] != "serve" {
		t.Errorf("the node was told %+v", spec)
	}
	next := w.save(sb, core.CheckpointSpec{})
	if next.Config.User != "root" || next.TemplateName != "gone" || next.Parent != "" {
		t.Errorf("a checkpoint of it is %+v", next)
	}
	_, err := w.svc.CreateTemplate(t.Context(), alice, core.TemplateSpec{Name: "app", Sandbox: string(sb.ID)})
	if err != nil {
		t.Errorf("a template of it: %v", err)
	}
}

// TestCreateFromDeletedMeanwhile: a checkpoint that goes before its files are cloned takes the create with it.
func TestCreateFromDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{})
	for _, late := range []bool{false, true} {
		saved := w.save(lab, core.CheckpointSpec{})
		drop := func() {
			if err := w.svc.DeleteCheckpoint(t.Context(), alice, saved.ID); err != nil {
				t.Error(err)
			}
			w.wantSettled(0)
		}
		if late {
			w.node.onCreate = func(context.Context, core.NodeSpec) error { drop(); return nil }
		} else {
			w.node.onReserve = drop
		}
		_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{From: saved.ID})
		wantCode(t, err, core.CodeNotFound)
		w.node.onCreate = nil
		eventually(t, fmt.Sprintf("late %v: nothing is left", late), func() bool { return w.node.promised() == 1 })
	}
}

// TestCreateFromLimits: limits of before that are not allowed any more are lowered, those that are asked for are refused.
func TestCreateFromLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	saved := w.save(w.create(core.SandboxSpec{Resources: core.Resources{MemoryBytes: 512 * mib}}), core.CheckpointSpec{})
	most := int64(256 * mib)
	w.limit(core.Quota{MaxMemoryBytes: &most})
	if sb := w.from(saved, core.SandboxSpec{}); sb.Resources.MemoryBytes != most {
		t.Errorf("it has %d", sb.Resources.MemoryBytes)
	}
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{From: saved.ID, Resources: core.Resources{MemoryBytes: 512 * mib}})
	wantCode(t, err, core.CodeInvalid)
}

// TestCreateFromOnce: a repeat, and a batch of several, from one checkpoint.
func TestCreateFromOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	saved := w.save(w.create(core.SandboxSpec{}), core.CheckpointSpec{})
	first := w.from(saved, core.SandboxSpec{Once: keyed("k")})
	if again := w.from(saved, core.SandboxSpec{Once: keyed("k")}); again.ID != first.ID {
		t.Errorf("the repeat made another")
	}
	list, err := w.batch(t.Context(), control.Batch{Specs: []core.SandboxSpec{{From: saved.ID}, {From: saved.ID}, {From: "none"}}})
	if err != nil || len(list) != 3 {
		t.Fatalf("%d results, %v", len(list), err)
	}
	for _, r := range list {
		if r.Index == 2 {
			wantCode(t, r.Err, core.CodeNotFound)
		} else if r.Err != nil || r.Sandbox.Source != saved.ID {
			t.Errorf("%d: %+v, %v", r.Index, r.Sandbox, r.Err)
		}
	}
}
