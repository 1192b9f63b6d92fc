package control_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// fork forks a sandbox.
func (w *world) fork(sb core.Sandbox, spec core.ForkSpec) []core.Sandbox {
	w.t.Helper()
	w.clock.advance(time.Millisecond)
	list, err := w.svc.ForkSandbox(w.t.Context(), alice, string(sb.ID), spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// wantOnly waits until so many sandboxes and trees of checkpoints are all that there is, and nothing is under way.
func (w *world) wantOnly(sandboxes, checkpoints int) {
	w.t.Helper()
	var have string
	eventually(w.t, fmt.Sprintf("%d sandboxes and %d checkpoints are all there is", sandboxes, checkpoints), func() bool {
		var all []core.Sandbox
		var saved []core.Checkpoint
		w.change(func(tx store.Tx) error {
			var err, serr error
			all, err = tx.AllSandboxes()
			saved, serr = tx.AllCheckpoints()
			return errors.Join(err, serr)
		})
		busy := 0
		for _, sb := range all {
			if sb.Operation != core.OpNone {
				busy++
			}
		}
		w.node.mu.Lock()
		running := len(w.node.running)
		w.node.mu.Unlock()
		have = fmt.Sprintf("%d sandboxes, %d busy, %d running, %d promised, %d checkpoints, %d trees",
			len(all), busy, running, w.node.promised(), len(saved), w.node.saved())
		return have == fmt.Sprintf("%[1]d sandboxes, 0 busy, %[1]d running, %[1]d promised, %[2]d checkpoints, %[2]d trees", sandboxes, checkpoints)
	})
}

func TestFork(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{
		Name: "lab", Persistent: true, Labels: map[string]string{"a": "b"}, Env: map[string]string{"A": "1", "B": "2"},
		Resources: core.Resources{MemoryBytes: 128 * mib},
	})
	before := w.save(lab, core.CheckpointSpec{})
	list := w.fork(lab, core.ForkSpec{
		Count: 3, Names: []string{"x", "y", "z"},
		Each: core.SandboxSpec{Env: map[string]string{"B": "3"}, Labels: map[string]string{"c": "d"}, TTL: time.Minute},
	})
	ids := map[core.SandboxID]bool{lab.ID: true}
	for i, sb := range list {
		ids[sb.ID] = true
		if sb.Name != string("xyz"[i]) || sb.State != core.StateRunning || sb.Operation != core.OpNone || sb.Parent != lab.ID ||
			sb.Source != list[0].Source || sb.Head != sb.Source || sb.Template != lab.Template || sb.Persistent ||
			!maps.Equal(sb.Env, map[string]string{"A": "1", "B": "3"}) || !maps.Equal(sb.Labels, map[string]string{"c": "d"}) ||
			sb.Resources.MemoryBytes != 128*mib || !sb.ExpiresAt.Equal(w.clock.Now().Add(time.Minute)) || sb.StartedAt.IsZero() {
			t.Errorf("%d is %+v", i, sb)
		}
		if spec := w.node.running[sb.ID]; spec.Source.Checkpoint != sb.Source || spec.Hostname != sb.Name || spec.Config.User != "root" {
			t.Errorf("of %d the node was told %+v", i, spec)
		}
		events, _, err := w.svc.Events(t.Context(), alice, string(sb.ID), 0, 10, 0)
		if err != nil || events[0].Data["parent"] != string(lab.ID) {
			t.Errorf("events say %+v, %v", events, err)
		}
	}
	if len(ids) != 4 {
		t.Errorf("the ids are %v", ids)
	}
	saved, err := w.svc.GetCheckpoint(t.Context(), alice, list[0].Source)
	if err != nil || saved.Cause != core.CauseFork || saved.Sandbox != lab.ID || saved.Parent != before.ID || saved.Origin == "" {
		t.Errorf("its checkpoint is %+v, %v", saved, err)
	}
	if now := w.lookUp(lab.ID); now.Head != before.ID || now.Operation != core.OpNone || now.Incarnation != lab.Incarnation {
		t.Errorf("the source is %+v", now)
	}
	if got := w.told(lab); got != "created, created" {
		t.Errorf("events say %q", got)
	}
	w.wantOnly(4, 2)
}

// TestForkLineage: the checkpoint of a fork stays until the last of its sandboxes is gone, whatever becomes of the one that they were forked
// from; forks of forks whose parents are gone work.
func TestForkLineage(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{})
	first := w.fork(lab, core.ForkSpec{Count: 2})
	drop := func(sb core.Sandbox) {
		t.Helper()
		if err := w.svc.DeleteSandboxWithCheckpoints(t.Context(), alice, string(sb.ID)); err != nil {
			t.Fatal(err)
		}
	}
	drop(lab)
	w.wantOnly(2, 1)
	second := w.fork(first[0], core.ForkSpec{Count: 1})
	third := w.fork(second[0], core.ForkSpec{Count: 2})
	if second[0].Parent != first[0].ID || third[0].Parent != second[0].ID {
		t.Errorf("parents are %s and %s", second[0].Parent, third[0].Parent)
	}
	drop(first[0])
	drop(second[0])
	w.wantOnly(3, 2) // The second's checkpoint had one fork, which is gone; the first's has first[1] left.
	w.restart()
	w.wantOnly(3, 2)
	drop(first[1])
	w.wantOnly(2, 1)
	// A checkpoint that somebody deletes by himself takes nothing with it.
	if err := w.svc.DeleteCheckpoint(t.Context(), alice, third[0].Source); err != nil {
		t.Fatal(err)
	}
	w.wantOnly(2, 0)
	if got := w.lookUp(third[1].ID); got.Source != third[1].Source || got.Head != "" || got.State != core.StateRunning {
		t.Errorf("it is %+v", got)
	}
	w.fork(third[0], core.ForkSpec{Count: 1})
	w.wantOnly(3, 1)
}

// TestForkInEveryState: nothing is woken for it.
func TestForkInEveryState(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	stopped, dead := w.create(core.SandboxSpec{Persistent: true}), w.create(core.SandboxSpec{})
	w.stop(stopped)
	w.node.crash(dead.ID)
	eventually(t, "it has failed", func() bool { return w.lookUp(dead.ID).State == core.StateFailed })
	for _, sb := range []core.Sandbox{stopped, dead} {
		was := w.lookUp(sb.ID)
		w.fork(sb, core.ForkSpec{Count: 1})
		if now := w.lookUp(sb.ID); now.State != was.State || now.Incarnation != was.Incarnation || now.Operation != core.OpNone {
			t.Errorf("the source was %+v and is %+v", was, now)
		}
	}
	if w.node.wakes != 0 {
		t.Errorf("%d were woken", w.node.wakes)
	}
}

func TestForkRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{Name: "lab"})
	for name, c := range map[string]struct {
		spec core.ForkSpec
		code core.Code
	}{
		"count 1": {core.ForkSpec{}, core.CodeInvalid}, "count 2": {core.ForkSpec{Count: core.MaxForks + 1}, core.CodeInvalid},
		"kind 1":       {core.ForkSpec{Count: 1, Kind: core.CheckpointFull}, core.CodeUnsupported},
		"kind 2":       {core.ForkSpec{Count: 1, Kind: "memory"}, core.CodeInvalid},
		"names 1":      {core.ForkSpec{Count: 2, Names: []string{"a"}}, core.CodeInvalid},
		"names 2":      {core.ForkSpec{Count: 2, Names: []string{"a", "a"}}, core.CodeInvalid},
		"names 3":      {core.ForkSpec{Count: 1, Names: []string{"A"}}, core.CodeInvalid},
		"name":         {core.ForkSpec{Count: 2, Names: []string{"a", "lab"}}, core.CodeConflict},
		"memory_bytes": {core.ForkSpec{Count: 1, Each: core.SandboxSpec{Resources: core.Resources{MemoryBytes: 1 << 50}}}, core.CodeInvalid},
	} {
		_, err := w.svc.ForkSandbox(t.Context(), alice, "lab", c.spec)
		if e := wantCode(t, err, c.code); e.Field != strings.Fields(name)[0] {
			t.Errorf("%s: it blames %q", name, e.Field)
		}
	}
	_, err := w.svc.ForkSandbox(t.Context(), bob, string(lab.ID), core.ForkSpec{Count: 1})
	wantCode(t, err, core.CodeNotFound)
	token := w.open(lab)
	_, err = w.svc.ForkSandbox(t.Context(), token, string(lab.ID), core.ForkSpec{Count: 1})
	wantCode(t, err, core.CodeDenied)
	w.wantOnly(1, 0)
}

// TestForkTooMany: what doesn't fit is refused before anything is made, and says how many would.
func TestForkTooMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{Resources: core.Resources{MemoryBytes: 128 * mib}})
	w.save(lab, core.CheckpointSpec{})
	w.node.max = 4
	made := 0
	w.node.setCheckpoint(func(context.Context, core.CheckpointID, core.SandboxID) error { made++; return nil }, nil)
	_, err := w.svc.ForkSandbox(t.Context(), alice, string(lab.ID), core.ForkSpec{Count: 4})
	if e := wantCode(t, err, core.CodeExhausted); !strings.Contains(e.Message, "3 of them would fit") {
		t.Errorf("it says %q", e.Message)
	}
	for _, c := range []struct {
		quota core.Quota
		field string
		fit   string
	}{
		{core.Quota{Sandboxes: ptr(int64(3))}, "quota.sandboxes", "of the 4 sandboxes 2 would fit"},
		{core.Quota{MemoryBytes: ptr(int64(300 * mib))}, "quota.memory_bytes", "of the 4 sandboxes 1 would fit"},
		{core.Quota{CreatesPerMinute: ptr(int64(1))}, "quota.creates_per_minute", "of the 4 sandboxes 0 would fit"},
		{core.Quota{Checkpoints: ptr(int64(1))}, "quota.checkpoints", ""},
	} {
		w.limit(c.quota)
		w.node.max = 100
		_, err := w.svc.ForkSandbox(t.Context(), alice, string(lab.ID), core.ForkSpec{Count: 4})
		if e := wantCode(t, err, core.CodeQuota); e.Field != c.field || !strings.Contains(e.Message, c.fit) {
			t.Errorf("it blames %q and says %q", e.Field, e.Message)
		}
	}
	w.wantOnly(1, 1)
	if made != 0 {
		t.Errorf("%d checkpoints were made", made)
	}
	w.limit(core.Quota{Sandboxes: ptr(int64(3))})
	w.fork(lab, core.ForkSpec{Count: 2})
}

// TestForkAllOrNone breaks a fork at its steps: nothing of it is left, its source goes on and its key is free.
func TestForkAllOrNone(t *testing.T) {
	t.Parallel()
	broken := core.Errorf(core.CodeExhausted, "the disk is full")
	for name, arrange := range map[string]func(w *world, lab core.Sandbox, leave context.CancelFunc){
		"checkpoint": func(w *world, _ core.Sandbox, _ context.CancelFunc) {
			w.node.setCheckpoint(func(context.Context, core.CheckpointID, core.SandboxID) error { return broken }, nil)
		},
		"one create": func(w *world, _ core.Sandbox, _ context.CancelFunc) {
			var n atomic.Int32
			w.node.onCreate = func(ctx context.Context, _ core.NodeSpec) error {
				if n.Add(1) == 2 {
					return broken
				}
				<-ctx.Done() // the others are ended
				return ctx.Err()
			}
		},
		"a death": func(w *world, _ core.Sandbox, _ context.CancelFunc) {
			var n atomic.Int32
			w.node.afterCreate = func(id core.SandboxID) {
				if n.Add(1) == 3 {
					w.node.crash(id)
				}
			}
		},
		"caller leaves at checkpoint": func(w *world, _ core.Sandbox, leave context.CancelFunc) {
			w.node.setCheckpoint(func(context.Context, core.CheckpointID, core.SandboxID) error { leave(); return nil }, nil)
		},
		"caller leaves at create": func(w *world, _ core.Sandbox, leave context.CancelFunc) {
			w.node.onCreate = func(ctx context.Context, _ core.NodeSpec) error { leave(); <-ctx.Done(); return ctx.Err() }
		},
		"caller leaves at last": func(w *world, _ core.Sandbox, leave context.CancelFunc) {
			var n atomic.Int32
			w.node.afterCreate = func(core.SandboxID) {
				if n.Add(1) == 3 {
					leave()
				}
			}
		},
		"one is deleted": func(w *world, _ core.Sandbox, _ context.CancelFunc) {
			var n atomic.Int32
			w.node.onCreate = func(ctx context.Context, spec core.NodeSpec) error {
				if n.Add(1) == 1 {
					if err := w.svc.DeleteSandbox(context.WithoutCancel(ctx), alice, string(spec.Sandbox)); err != nil {
						w.t.Error(err)
					}
				}
				return nil
			}
		},
		"its checkpoint's quota": func(w *world, _ core.Sandbox, _ context.CancelFunc) {
			w.node.write(mib)
			w.limit(core.Quota{CheckpointBytes: ptr(int64(1))})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).start().ready()
			lab := w.create(core.SandboxSpec{})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			arrange(w, lab, leave)
			spec := core.ForkSpec{Count: 3, Names: []string{"a", "b", "c"}, Once: keyed("k")}
			if list, err := w.svc.ForkSandbox(ctx, alice, string(lab.ID), spec); err == nil {
				t.Fatalf("it succeeded: %+v", list)
			}
			w.node.onCreate, w.node.afterCreate = nil, nil
			w.node.setCheckpoint(nil, nil)
			w.limit(core.Quota{})
			w.wantOnly(1, 0)
			if now := w.lookUp(lab.ID); now.Operation != core.OpNone || now.State != core.StateRunning {
				t.Errorf("the source is %+v", now)
			}
			if list := w.fork(lab, spec); len(list) != 3 || spec.Once.Repeated {
				t.Errorf("afterwards there are %d, repeated %v", len(list), spec.Once.Repeated)
			}
			w.wantOnly(4, 1)
		})
	}
}

// TestForkFailsDuringCheckpoint: the undo of a fork leaves a checkpoint of its source that has begun since alone.
func TestForkFailsDuringCheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	w.node.onCreate = func(context.Context, core.NodeSpec) error {
		w.node.setCheckpoint(func(context.Context, core.CheckpointID, core.SandboxID) error {
			close(begun)
			<-goOn
			return nil
		}, nil)
		go func() {
			_, err := w.svc.CreateCheckpoint(context.Background(), alice, string(lab.ID), core.CheckpointSpec{})
			done <- err
		}()
		<-begun
		return core.Errorf(core.CodeExhausted, "the disk is full")
	}
	_, err := w.svc.ForkSandbox(t.Context(), alice, string(lab.ID), core.ForkSpec{Count: 1})
	wantCode(t, err, core.CodeExhausted)
	if now := w.lookUp(lab.ID); now.Operation != core.OpCheckpoint {
		t.Errorf("during the checkpoint %q is under way", now.Operation)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.wantState(lab.ID, core.StateRunning)
	w.wantOnly(1, 1)
}

// TestForkSourceDeleted: while its files are saved a delete of the source ends the fork, from then on not.
func TestForkSourceDeleted(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		w := newWorld(t).start().ready()
		lab := w.create(core.SandboxSpec{})
		drop := func() {
			if err := w.svc.DeleteSandbox(t.Context(), alice, string(lab.ID)); err != nil {
				t.Error(err)
			}
		}
		if late {
			var n atomic.Int32
			w.node.onCreate = func(context.Context, core.NodeSpec) error {
				if n.Add(1) == 1 {
					drop()
				}
				return nil
			}
		} else {
			w.node.setCheckpoint(func(context.Context, core.CheckpointID, core.SandboxID) error { drop(); return nil }, nil)
		}
		list, err := w.svc.ForkSandbox(t.Context(), alice, string(lab.ID), core.ForkSpec{Count: 2})
		if late {
			if err != nil || len(list) != 2 {
				t.Errorf("late: %d, %v", len(list), err)
			}
			w.wantOnly(2, 1)
			continue
		}
		wantCode(t, err, core.CodeConflict)
		w.wantOnly(0, 0)
	}
}

// TestForkSourceGoesOn: once its files are saved, the source can be used and changed while the forks are made.
func TestForkSourceGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{})
	w.node.onCreate = func(context.Context, core.NodeSpec) error {
		w.save(lab, core.CheckpointSpec{})
		return nil
	}
	w.fork(lab, core.ForkSpec{Count: 1})
}

func TestForkOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{})
	spec := core.ForkSpec{Count: core.MaxForks, Once: keyed("k")}
	first := w.fork(lab, spec)
	same := func(when string) {
		t.Helper()
		again := w.fork(lab, spec)
		if len(again) != len(first) || !spec.Once.Repeated {
			t.Fatalf("%s: %d, repeated %v", when, len(again), spec.Once.Repeated)
		}
		for i := range again {
			if again[i].ID != first[i].ID {
				t.Fatalf("%s: %d is another one", when, i)
			}
		}
	}
	same("at once")
	w.restart()
	same("after a restart")
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(first[0].ID)); err != nil {
		t.Fatal(err)
	}
	same("without one")
	w.wantOnly(core.MaxForks, 1)
}

// TestForkCutOff: the next server undoes all of a fork that the last one had not finished, also those that run already.
func TestForkCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	lab := w.create(core.SandboxSpec{})
	half := core.Checkpoint{
		ID: core.CheckpointID(core.NewID()), Tenant: lab.Tenant, Sandbox: lab.ID, Kind: core.CheckpointDisk,
		State: core.CheckpointCreating, Cause: core.CauseFork, CreatedAt: w.clock.Now(),
	}
	w.change(func(tx store.Tx) error {
		now, err := tx.SandboxByID(lab.ID)
		if err != nil {
			return err
		}
		now.Begin(core.OpFork, w.clock.Now())
		now.OperationArg = string(half.ID)
		err = errors.Join(tx.PutSandbox(now), tx.PutCheckpoint(half), tx.PutKeyedCall(core.KeyedCall{
			Tenant: lab.Tenant, Route: "forks of " + string(lab.ID), Key: "k", Digest: keyed("k").Digest, At: w.clock.Now(), Checkpoint: half.ID,
		}))
		for range 2 {
			one := lab
			one.ID, one.State, one.Parent, one.Source, one.Head = core.SandboxID(core.NewID()), core.StateCreating, lab.ID, half.ID, half.ID
			one.Begin(core.OpCreate, w.clock.Now())
			w.node.running[one.ID] = core.NodeSpec{Sandbox: one.ID, Incarnation: one.Incarnation, Epoch: one.Epoch}
			w.node.reserved[one.ID] = one.Resources
			err = errors.Join(err, tx.PutSandbox(one))
		}
		return err
	})
	w.node.mu.Lock()
	w.node.checkpoints[half.ID] = core.CheckpointTree{}
	w.node.mu.Unlock()
	w.restart()
	w.wantOnly(1, 0)
	if list := w.fork(lab, core.ForkSpec{Count: 1, Once: keyed("k")}); len(list) != 1 {
		t.Errorf("the key is not free: %d", len(list))
	}
}

// TestForkLabeled: whom a fork's sandboxes belong to, and who sees its checkpoint.
func TestForkLabeled(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	red := alice
	red.Labels = map[string]string{"team": "red"}
	mine, theirs := w.createAs(red), w.create(core.SandboxSpec{})
	_, err := w.svc.ForkSandbox(t.Context(), red, string(theirs.ID), core.ForkSpec{Count: 1})
	wantCode(t, err, core.CodeNotFound)
	list, err := w.svc.ForkSandbox(t.Context(), red, string(mine.ID), core.ForkSpec{Count: 1})
	if err != nil || list[0].Labels["team"] != "red" || list[0].Tenant != "alice" {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := w.svc.GetCheckpoint(t.Context(), red, list[0].Source); err != nil {
		t.Error(err)
	}
	for name, p := range map[string]control.Principal{"another tenant": bob, "other labels": {Tenant: "alice", Scopes: alice.Scopes, Labels: map[string]string{"team": "blue"}}} {
		if _, err := w.svc.GetCheckpoint(t.Context(), p, list[0].Source); !core.IsCode(err, core.CodeNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
