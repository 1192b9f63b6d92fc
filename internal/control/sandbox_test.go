package control_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

func TestCreateRunsAndIsFound(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Name: "one", Labels: map[string]string{"a": "b"}})
	if sb.State != core.StateRunning || sb.Operation != core.OpNone || sb.ExpiresAt != sb.CreatedAt.Add(time.Hour) {
		t.Fatalf("created %+v", sb)
	}
	for _, ref := range []string{"one", string(sb.ID)} {
		got, err := w.svc.GetSandbox(t.Context(), alice, ref)
		if err != nil || got.ID != sb.ID {
			t.Errorf("get %s: %v %v", ref, got.ID, err)
		}
		_, err = w.svc.GetSandbox(t.Context(), bob, ref)
		wantCode(t, err, core.CodeNotFound)
	}
	if spec := w.node.running[sb.ID]; spec.Hostname != "one" || spec.Config.User != "root" {
		t.Errorf("the node was told %+v", spec)
	}
}

func TestCreateRefuses(t *testing.T) {
	w := newWorld(t).start().ready()
	for _, tc := range []struct {
		name  string
		spec  core.SandboxSpec
		code  core.Code
		field string
	}{
		{"template", core.SandboxSpec{Template: "nope"}, core.CodeNotFound, "template"},
		{"name", core.SandboxSpec{Name: "Not A Name"}, core.CodeInvalid, "name"},
		{"name like id", core.SandboxSpec{Name: core.NewID()}, core.CodeInvalid, "name"},
		{"ttl ceiling", core.SandboxSpec{TTL: 25 * time.Hour}, core.CodeInvalid, "ttl_seconds"},
		{"ttl negative", core.SandboxSpec{TTL: -1}, core.CodeInvalid, "ttl_seconds"},
		{"vcpus", core.SandboxSpec{Resources: core.Resources{VCPUs: 99}}, core.CodeInvalid, "vcpus"},
		{"memory", core.SandboxSpec{Resources: core.Resources{MemoryBytes: 1}}, core.CodeInvalid, "memory_bytes"},
		{"disk", core.SandboxSpec{Resources: core.Resources{DiskBytes: 1 << 30}}, core.CodeUnsupported, "disk_bytes"},
		{"env", core.SandboxSpec{Env: map[string]string{"a=b": ""}}, core.CodeInvalid, "env"},
		{"label", core.SandboxSpec{Labels: map[string]string{"": "x"}}, core.CodeInvalid, "labels"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := w.svc.CreateSandbox(t.Context(), alice, tc.spec)
			if e := wantCode(t, err, tc.code); e.Field != tc.field {
				t.Errorf("blames %q, want %q", e.Field, tc.field)
			}
		})
	}
	if n := w.node.count(); n != 0 {
		t.Errorf("%d machines after refusals", n)
	}
	if len(w.node.reserved) != 0 {
		t.Errorf("reservations left: %v", w.node.reserved)
	}
}

func TestPersistentIsExemptFromTTL(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Persistent: true})
	if !sb.ExpiresAt.IsZero() {
		t.Errorf("expires at %v", sb.ExpiresAt)
	}
	sb = w.create(core.SandboxSpec{Persistent: true, TTL: 100 * 24 * time.Hour})
	if sb.ExpiresAt != sb.CreatedAt.Add(100*24*time.Hour) {
		t.Errorf("expires at %v", sb.ExpiresAt)
	}
}

func TestOneNameOneWinner(t *testing.T) {
	w := newWorld(t).start().ready()
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() { _, errs[i] = w.svc.CreateSandbox(context.Background(), alice, core.SandboxSpec{Name: "same"}) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			wantCode(t, err, core.CodeConflict)
		}
	}
	if won != 1 || w.node.count() != 1 || len(w.node.reserved) != 1 {
		t.Errorf("%d won, %d machines, %d reservations", won, w.node.count(), len(w.node.reserved))
	}
	if _, err := w.svc.CreateSandbox(t.Context(), bob, core.SandboxSpec{Name: "same"}); err != nil {
		t.Errorf("another tenant's name: %v", err)
	}
}

func TestFullNodeLeavesNothing(t *testing.T) {
	w := newWorld(t).start().ready()
	w.node.max = 1
	first := w.create(core.SandboxSpec{})
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{})
	if e := wantCode(t, err, core.CodeExhausted); e.RetryAfter == 0 {
		t.Error("no retry advice")
	}
	list, _, err := w.svc.ListSandboxes(t.Context(), alice, store.SandboxFilter{IncludeDeleted: true}, store.Page{Limit: 10})
	if err != nil || len(list) != 1 {
		t.Errorf("list %v %v", list, err)
	}
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(first.ID)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the place is free", func() bool {
		_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{})
		return err == nil
	})
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	w := newWorld(t).start().ready()
	w.node.onCreate = func(context.Context, core.NodeSpec) error { return core.Errorf(core.CodeUnavailable, "no luck") }
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Name: "x"})
	wantCode(t, err, core.CodeUnavailable)
	_, err = w.svc.GetSandbox(t.Context(), alice, "x")
	wantCode(t, err, core.CodeNotFound)
	eventually(t, "the reservation is released", func() bool {
		w.node.mu.Lock()
		defer w.node.mu.Unlock()
		return len(w.node.reserved) == 0
	})
	w.node.onCreate = nil
	w.create(core.SandboxSpec{Name: "x"}) // the name is free again
}

func TestCanceledCallerUndoesCreate(t *testing.T) {
	w := newWorld(t).start().ready()
	ctx, cancel := context.WithCancel(t.Context())
	w.node.onCreate = func(context.Context, core.NodeSpec) error { cancel(); return nil }
	_, err := w.svc.CreateSandbox(ctx, alice, core.SandboxSpec{Name: "x"})
	wantCode(t, err, core.CodeCanceled)
	if w.node.count() != 0 {
		t.Error("a machine is left")
	}
	_, err = w.svc.GetSandbox(t.Context(), alice, "x")
	wantCode(t, err, core.CodeNotFound)
}

// A delete that comes during the create wins, cancels it, and nothing is left.
func TestDeleteDuringCreate(t *testing.T) {
	w := newWorld(t).start().ready()
	inside := make(chan struct{})
	w.node.onCreate = func(ctx context.Context, _ core.NodeSpec) error {
		close(inside)
		<-ctx.Done()
		return core.Wrap(core.CodeCanceled, ctx.Err(), "canceled")
	}
	result := make(chan error, 1)
	go func() {
		_, err := w.svc.CreateSandbox(context.Background(), alice, core.SandboxSpec{Name: "x"})
		result <- err
	}()
	<-inside
	if err := w.svc.DeleteSandbox(t.Context(), alice, "x"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-result, core.CodeCanceled)
	_, err := w.svc.GetSandbox(t.Context(), alice, "x")
	wantCode(t, err, core.CodeNotFound)
	eventually(t, "the node was told", func() bool {
		w.node.mu.Lock()
		defer w.node.mu.Unlock()
		return len(w.node.deleted) == 1 && len(w.node.reserved) == 0
	})
}

// The delete comes when the node is done and before the create is committed: the machine must not survive.
func TestDeleteBetweenNodeAndCommit(t *testing.T) {
	w := newWorld(t).start().ready()
	w.node.onCreate = func(context.Context, core.NodeSpec) error {
		w.node.onCreate = nil
		return w.svc.DeleteSandbox(context.Background(), alice, "x")
	}
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Name: "x"})
	wantCode(t, err, core.CodeCanceled)
	eventually(t, "nothing is left", func() bool {
		w.node.mu.Lock()
		defer w.node.mu.Unlock()
		return len(w.node.running) == 0 && len(w.node.reserved) == 0 && len(w.node.deleted) == 1
	})
}

func TestDeleteTwiceOneOutcome(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = w.svc.DeleteSandbox(context.Background(), alice, string(sb.ID)) })
	}
	wg.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
		} else {
			wantCode(t, err, core.CodeNotFound)
		}
	}
	if done != 1 {
		t.Errorf("%d deletes succeeded", done)
	}
	list, _, err := w.svc.Events(t.Context(), alice, "", 0, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for i, e := range list {
		types = append(types, string(e.Type))
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has seq %d", i, e.Seq)
		}
	}
	if got, want := fmt.Sprint(types), "[sandbox.creating sandbox.running sandbox.deleted]"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

func TestDeleteIsTriedUntilNothingIsLeft(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.node.mu.Lock()
	w.node.deleteErr = []error{errors.New("busy"), errors.New("busy")}
	w.node.mu.Unlock()
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the machine is gone", func() bool { w.clock.advance(time.Minute); return w.node.count() == 0 })
}

func TestTTLDeletesOnTime(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{TTL: 10 * time.Minute})
	keep := w.create(core.SandboxSpec{TTL: 10 * time.Minute})
	ttl := time.Hour
	if _, err := w.svc.UpdateSandbox(t.Context(), alice, string(keep.ID), control.SandboxPatch{TTL: &ttl}); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(10*time.Minute - time.Second)
	if _, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Second)
	eventually(t, "the ttl is applied", func() bool {
		w.clock.advance(time.Second)
		_, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
		return core.IsCode(err, core.CodeNotFound)
	})
	if _, err := w.svc.GetSandbox(t.Context(), alice, string(keep.ID)); err != nil {
		t.Errorf("the extended sandbox: %v", err)
	}
}

func TestTTLPassesWhileDown(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{TTL: time.Minute})
	_ = w.svc.Close()
	w.clock.advance(time.Hour)
	w.start()
	eventually(t, "the ttl is applied at start", func() bool {
		_, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
		return core.IsCode(err, core.CodeNotFound) && w.node.count() == 0
	})
}

func TestRestart(t *testing.T) {
	w := newWorld(t).start().ready()
	lives := w.create(core.SandboxSpec{Name: "lives"})
	died := w.create(core.SandboxSpec{Name: "died"})
	_ = w.svc.Close()
	w.node.mu.Lock()
	delete(w.node.running, died.ID)
	delete(w.node.guests, died.ID)
	w.node.mu.Unlock()
	w.start()
	got, err := w.svc.GetSandbox(t.Context(), alice, "lives")
	if err != nil || got.State != core.StateRunning {
		t.Errorf("lives: %+v %v", got, err)
	}
	got, err = w.svc.GetSandbox(t.Context(), alice, "died")
	if err != nil || got.State != core.StateFailed || got.Failure == "" {
		t.Errorf("died: %+v %v", got, err)
	}
	known := w.node.swept[len(w.node.swept)-1]
	if !known.Sandboxes[lives.ID] || !known.Sandboxes[died.ID] || len(known.Sandboxes) != 2 || !known.Templates[lives.Template] || len(known.Templates) != 1 {
		t.Errorf("swept with %v", known)
	}
}

func TestMachineThatCrashesFails(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.node.crash(sb.ID)
	eventually(t, "it is failed", func() bool {
		got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
		return err == nil && got.State == core.StateFailed && got.Failure == "it crashed"
	})
	_, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "true"})
	wantCode(t, err, core.CodeConflict)
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
}

func TestTemplateThatCannotBeBuilt(t *testing.T) {
	w := newWorld(t)
	fail := true
	w.build = func(context.Context, string, string, func(string, int)) (control.BuiltTemplate, error) {
		if fail {
			return control.BuiltTemplate{}, core.Errorf(core.CodeUnavailable, "no network")
		}
		return control.BuiltTemplate{}, nil
	}
	w.start()
	eventually(t, "the failure is told", func() bool {
		err := w.svc.Ready(t.Context())
		var e *core.Error
		return errors.As(err, &e) && e.Code == core.CodeUnavailable && e.Message == "template minimal could not be built, and will be tried again: no network"
	})
	fail = false
	eventually(t, "it is tried again", func() bool { w.clock.advance(time.Minute); return w.svc.Ready(t.Context()) == nil })
	list, _, err := w.svc.ListTemplates(t.Context(), alice, store.TemplateFilter{}, store.Page{Limit: 10})
	if err != nil || len(list) != 1 || list[0].Version != 1 || list[0].Digest == "" {
		t.Errorf("templates %+v %v", list, err)
	}
}

// The machine ends when its create is done and not yet committed: it must not be running for ever.
func TestMachineThatEndsBeforeTheCommit(t *testing.T) {
	w := newWorld(t).start().ready()
	w.node.afterCreate = func(id core.SandboxID) { w.node.crash(id) }
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Name: "x"})
	wantCode(t, err, core.CodeUnavailable)
	_, err = w.svc.GetSandbox(t.Context(), alice, "x")
	wantCode(t, err, core.CodeNotFound)
}

// The caller goes away when the machine is made and the create not yet committed: what nobody would hear of is not kept.
func TestCallerThatLeavesBeforeTheCommit(t *testing.T) {
	w := newWorld(t).start().ready()
	ctx, leave := context.WithCancel(t.Context())
	w.node.afterCreate = func(core.SandboxID) { leave() }
	_, err := w.svc.CreateSandbox(ctx, alice, core.SandboxSpec{Name: "x"})
	wantCode(t, err, core.CodeCanceled)
	_, err = w.svc.GetSandbox(t.Context(), alice, "x")
	wantCode(t, err, core.CodeNotFound)
	eventually(t, "its machine is gone", func() bool { return w.node.count() == 0 })
}

func TestEventsOfADeletedSandbox(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	list, _, err := w.svc.Events(t.Context(), alice, string(sb.ID), 0, 100, 0)
	if err != nil || len(list) != 3 || list[2].Type != core.EventSandboxDeleted {
		t.Errorf("%+v %v", list, err)
	}
	_, _, err = w.svc.Events(t.Context(), bob, string(sb.ID), 0, 100, 0)
	wantCode(t, err, core.CodeNotFound)
}
