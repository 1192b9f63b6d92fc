package control_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// save makes a checkpoint. The clock moves on before, so that they are in an order.
func (w *world) save(sb core.Sandbox, spec core.CheckpointSpec) core.Checkpoint {
	w.t.Helper()
	w.clock.advance(time.Millisecond)
	c, err := w.svc.CreateCheckpoint(w.t.Context(), alice, string(sb.ID), spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// savedOf returns what is listed of a sandbox, oldest first, as comments; of all for no sandbox.
func (w *world) savedOf(ref string) string {
	w.t.Helper()
	list, _, err := w.svc.ListCheckpoints(w.t.Context(), alice, control.CheckpointQuery{Sandbox: ref}, store.Page{Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, c := range slices.Backward(list) {
		out = append(out, c.Comment)
	}
	return strings.Join(out, " ")
}

// told returns a sandbox's events of checkpoints, with their reasons.
func (w *world) told(sb core.Sandbox) string {
	w.t.Helper()
	list, _, err := w.svc.Events(w.t.Context(), alice, string(sb.ID), 0, 1000, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		if verb, ok := strings.CutPrefix(string(e.Type), "checkpoint."); ok {
			out = append(out, strings.TrimSpace(verb+" "+e.Data["code"]+e.Data["reason"]))
		}
	}
	return strings.Join(out, ", ")
}

// wantSettled waits until there are so many checkpoints, with a tree each and nothing more, and nothing is under way.
func (w *world) wantSettled(n int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d checkpoints are there and nothing else of any", n), func() bool {
		var all []core.Checkpoint
		w.change(func(tx store.Tx) (err error) { all, err = tx.AllCheckpoints(); return err })
		return len(all) == n && w.node.saved() == n
	})
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Name: "lab", Labels: map[string]string{"a": "b"}})
	w.node.write(5 * mib)
	first := w.save(sb, core.CheckpointSpec{Comment: "first", TTL: time.Hour})
	got, err := w.svc.GetCheckpoint(t.Context(), alice, first.ID)
	if err != nil || got.Sandbox != sb.ID || got.Kind != core.CheckpointDisk || got.State != core.CheckpointReady || got.Cause != core.CauseCall ||
		got.Comment != "first" || got.Parent != "" || got.TemplateName != "minimal" || got.Template != sb.Template || got.Config.User != "root" ||
		got.Resources != sb.Resources || got.Labels["a"] != "b" || got.WrittenBytes != 5*mib || got.Origin == "" ||
		!got.ExpiresAt.Equal(got.CreatedAt.Add(time.Hour)) {
		t.Errorf("got %+v, %v", got, err)
	}
	second := w.save(sb, core.CheckpointSpec{Comment: "second"})
	now, err := w.svc.GetSandbox(t.Context(), alice, "lab")
	if err != nil || second.Parent != first.ID || now.Head != second.ID || now.Operation != core.OpNone || now.State != core.StateRunning {
		t.Errorf("second's parent is %s, and the sandbox %+v, %v", second.Parent, now, err)
	}
	if got := w.savedOf("lab"); got != "first second" {
		t.Errorf("listed are %q", got)
	}
	text, none := "third", time.Duration(0)
	patched, err := w.svc.UpdateCheckpoint(t.Context(), alice, first.ID, control.CheckpointPatch{Comment: &text, TTL: &none})
	if err != nil || patched.Comment != "third" || !patched.ExpiresAt.IsZero() {
		t.Errorf("patched to %+v, %v", patched, err)
	}
	if got := w.told(sb); got != "created, created" {
		t.Errorf("events say %q", got)
	}
	for name, spec := range map[string]core.CheckpointSpec{
		"kind": {Kind: "memory"}, "comment": {Comment: strings.Repeat("x", core.MaxCheckpointComment+1)}, "ttl_seconds": {TTL: -1},
		"keep_last": {KeepLast: -1},
	} {
		_, err := w.svc.CreateCheckpoint(t.Context(), alice, "lab", spec)
		if e := wantCode(t, err, core.CodeInvalid); e.Field != name {
			t.Errorf("%s: it blames %q", name, e.Field)
		}
	}
	_, err = w.svc.CreateCheckpoint(t.Context(), alice, "lab", core.CheckpointSpec{Kind: core.CheckpointFull})
	wantCode(t, err, core.CodeUnsupported)
	_, err = w.svc.CreateCheckpoint(t.Context(), alice, "nobody", core.CheckpointSpec{})
	wantCode(t, err, core.CodeNotFound)
	w.wantSettled(2)
}

// TestCheckpointOfTheDead: what a machine that ended has left can be saved.
func TestCheckpointOfTheDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.node.crash(sb.ID)
	eventually(t, "it has failed", func() bool {
		got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
		return err == nil && got.State == core.StateFailed
	})
	w.save(sb, core.CheckpointSpec{})
	if got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID)); err != nil || got.State != core.StateFailed || got.Operation != core.OpNone {
		t.Errorf("afterwards it is %+v, %v", got, err)
	}
}

// TestCheckpointDeleted removes links of a chain: the others hang together, and the sandbox hangs on what is left.
func TestCheckpointDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	var list []core.Checkpoint
	for i := range 5 {
		list = append(list, w.save(sb, core.CheckpointSpec{Comment: fmt.Sprint(i)}))
	}
	parents := func() string {
		t.Helper()
		var out []string
		name := map[core.CheckpointID]string{"": "-"}
		for i, c := range list {
			name[c.ID] = fmt.Sprint(i)
		}
		for i, c := range list {
			if got, err := w.svc.GetCheckpoint(t.Context(), alice, c.ID); err == nil {
				out = append(out, name[got.Parent]+"<"+fmt.Sprint(i))
			}
		}
		got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(append(out, name[got.Head]+"<sandbox"), " ")
	}
	for _, c := range []struct {
		gone int
		want string
	}{
		{2, "-<0 0<1 1<3 3<4 4<sandbox"}, {0, "-<1 1<3 3<4 4<sandbox"}, {4, "-<1 1<3 3<sandbox"}, {1, "-<3 3<sandbox"}, {3, "-<sandbox"},
	} {
		if err := w.svc.DeleteCheckpoint(t.Context(), alice, list[c.gone].ID); err != nil {
			t.Fatal(err)
		}
		if got := parents(); got != c.want {
			t.Errorf("without %d: %s, want %s", c.gone, got, c.want)
		}
		_, err := w.svc.GetCheckpoint(t.Context(), alice, list[c.gone].ID)
		wantCode(t, err, core.CodeNotFound)
		wantCode(t, w.svc.DeleteCheckpoint(t.Context(), alice, list[c.gone].ID), core.CodeNotFound)
	}
	w.wantSettled(0)
}

// TestCheckpointFails: what came to nothing leaves nothing, the sandbox can be used, and the key is free.
func TestCheckpointFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.node.setCheckpoint(func(context.Context, core.CheckpointID, core.SandboxID) error {
		return core.Errorf(core.CodeExhausted, "the disk is full")
	}, nil)
	spec := core.CheckpointSpec{Once: keyed("k")}
	_, err := w.svc.CreateCheckpoint(t.Context(), alice, string(sb.ID), spec)
	wantCode(t, err, core.CodeExhausted)
	got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
	if err != nil || got.Operation != core.OpNone || got.Head != "" {
		t.Errorf("the sandbox is %+v, %v", got, err)
	}
	w.wantSettled(0)
	w.node.setCheckpoint(nil, nil)
	c := w.save(sb, spec)
	if spec.Once.Repeated {
		t.Error("what failed is the answer")
	}
	if again := w.save(sb, spec); again.ID != c.ID || !spec.Once.Repeated {
		t.Errorf("the repeat made another, %s", again.ID)
	}
	if got := w.told(sb); got != "failed exhaustedthe disk is full, created" {
		t.Errorf("events say %q", got)
	}
	// The answer outlives sandbox and checkpoint, and nothing is made again.
	if err := w.svc.DeleteCheckpoint(t.Context(), alice, c.ID); err != nil {
		t.Fatal(err)
	}
	if again := w.save(sb, spec); again.ID != c.ID {
		t.Errorf("the repeat made another, %s", again.ID)
	}
	w.wantSettled(0)
}

// TestCheckpointCutOff: the next server undoes what the last one had begun, and goes on with its removals.
func TestCheckpointCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	kept, gone := w.save(sb, core.CheckpointSpec{Comment: "kept"}), w.save(sb, core.CheckpointSpec{})
	w.node.setCheckpoint(nil, core.Errorf(core.CodeUnavailable, "not now"))
	if err := w.svc.DeleteCheckpoint(t.Context(), alice, gone.ID); err != nil {
		t.Fatal(err)
	}
	half := core.Checkpoint{
		ID: core.CheckpointID(core.NewID()), Tenant: sb.Tenant, Sandbox: sb.ID, Parent: kept.ID, Kind: core.CheckpointDisk,
		State: core.CheckpointCreating, Cause: core.CauseCall, CreatedAt: w.clock.Now(),
	}
	w.change(func(tx store.Tx) error {
		now, err := tx.SandboxByID(sb.ID)
		if err != nil {
			return err
		}
		now.Begin(core.OpCheckpoint, w.clock.Now())
		now.OperationArg = string(half.ID)
		if err := tx.PutSandbox(now); err != nil {
			return err
		}
		if err := tx.PutKeyedCall(core.KeyedCall{
			Tenant: sb.Tenant, Route: "checkpoint of " + string(sb.ID), Key: "k", Digest: keyed("k").Digest, At: w.clock.Now(), Checkpoint: half.ID,
		}); err != nil {
			return err
		}
		return tx.PutCheckpoint(half)
	})
	w.node.mu.Lock()
	w.node.checkpoints[half.ID] = core.CheckpointTree{}
	w.node.mu.Unlock()
	if _, err := w.svc.GetCheckpoint(t.Context(), alice, half.ID); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("half a checkpoint is shown: %v", err)
	}
	_, err := w.svc.CreateCheckpoint(t.Context(), alice, string(sb.ID), core.CheckpointSpec{})
	wantCode(t, err, core.CodeConflict)
	w.node.setCheckpoint(nil, nil)
	w.restart()
	known := w.node.swept[len(w.node.swept)-1].Checkpoints
	if len(known) != 3 || !known[half.ID] || !known[kept.ID] || !known[gone.ID] {
		t.Errorf("the node was told of %v", known)
	}
	w.wantSettled(1)
	if got := w.savedOf(""); got != "kept" {
		t.Errorf("listed are %q", got)
	}
	if got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID)); err != nil || got.Operation != core.OpNone || got.Head != kept.ID {
		t.Errorf("the sandbox is %+v, %v", got, err)
	}
	spec := core.CheckpointSpec{Once: keyed("k")}
	if w.save(sb, spec); spec.Once.Repeated {
		t.Error("what was cut off is the answer to its key")
	}
}

// TestCheckpointDeletedWhileMade: the operation of its sandbox ends also if nothing is left to undo.
func TestCheckpointDeletedWhileMade(t *testing.T) {
	t.Parallel()
	for name, forgotten := range map[string]bool{"being deleted": false, "forgotten": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).start().ready()
			sb := w.create(core.SandboxSpec{})
			w.node.setCheckpoint(func(_ context.Context, id core.CheckpointID, _ core.SandboxID) error {
				w.change(func(tx store.Tx) error {
					rec, err := tx.CheckpointByID(id)
					if err != nil {
						return err
					}
					rec.State = core.CheckpointDeleting
					if err := tx.PutCheckpoint(rec); err != nil || !forgotten {
						return err
					}
					return tx.ForgetCheckpoint(id)
				})
				return nil
			}, nil)
			_, err := w.svc.CreateCheckpoint(t.Context(), alice, string(sb.ID), core.CheckpointSpec{})
			if err == nil {
				t.Error("it was made")
			}
			w.wantState(sb.ID, core.StateRunning)
			w.node.setCheckpoint(nil, nil)
			w.save(sb, core.CheckpointSpec{})
			w.wantSettled(1)
		})
	}
}

// TestStaleOperation: an operation of which no checkpoint is being made ends at the next start.
func TestStaleOperation(t *testing.T) {
	t.Parallel()
	for _, op := range []core.OperationKind{core.OpCheckpoint, core.OpFork} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).start().ready()
			sb := w.create(core.SandboxSpec{})
			w.change(func(tx store.Tx) error {
				now, err := tx.SandboxByID(sb.ID)
				if err != nil {
					return err
				}
				now.Begin(op, w.clock.Now())
				now.OperationArg = "gone"
				return tx.PutSandbox(now)
			})
			w.restart()
			w.wantState(sb.ID, core.StateRunning)
			w.save(sb, core.CheckpointSpec{})
		})
	}
}

// TestCheckpointsAndTheirSandbox: those that calls have made outlive it, unless they are to go with it.
func TestCheckpointsAndTheirSandbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	a, b := w.create(core.SandboxSpec{Name: "a"}), w.create(core.SandboxSpec{Name: "b"})
	stays := w.save(a, core.CheckpointSpec{Comment: "stays"})
	w.save(b, core.CheckpointSpec{Comment: "goes"})
	automatic := w.save(a, core.CheckpointSpec{Comment: "automatic"})
	w.change(func(tx store.Tx) error {
		c, err := tx.CheckpointByID(automatic.ID)
		c.Cause = core.CauseExec
		if err != nil {
			return err
		}
		return tx.PutCheckpoint(c)
	})
	if err := w.svc.DeleteSandbox(t.Context(), alice, "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.svc.DeleteSandboxWithCheckpoints(t.Context(), alice, "b"); err != nil {
		t.Fatal(err)
	}
	w.wantSettled(1)
	if got := w.savedOf(""); got != "stays" {
		t.Errorf("listed are %q", got)
	}
	if got := w.savedOf(string(a.ID)); got != "stays" {
		t.Errorf("of the sandbox that is gone %q are listed", got)
	}
	_, _, err := w.svc.ListCheckpoints(t.Context(), alice, control.CheckpointQuery{Sandbox: string(b.ID)}, store.Page{Limit: 10})
	wantCode(t, err, core.CodeNotFound)
	if got, err := w.svc.GetCheckpoint(t.Context(), alice, stays.ID); err != nil || got.Sandbox != a.ID {
		t.Errorf("%+v, %v", got, err)
	}
	if got := w.told(b); got != "created, deleted the sandbox was deleted" {
		t.Errorf("events say %q", got)
	}
}

// TestCheckpointAndDelete: a delete cancels a checkpoint under way.
func TestCheckpointAndDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	begun := make(chan struct{})
	w.node.setCheckpoint(func(ctx context.Context, _ core.CheckpointID, _ core.SandboxID) error {
		close(begun)
		<-ctx.Done()
		return core.Wrap(core.CodeCanceled, ctx.Err(), "the checkpoint was canceled")
	}, nil)
	done := make(chan error)
	go func() {
		_, err := w.svc.CreateCheckpoint(context.Background(), alice, string(sb.ID), core.CheckpointSpec{})
		done <- err
	}()
	<-begun
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-done, core.CodeCanceled)
	w.wantSettled(0)
	eventually(t, "the sandbox is removed", func() bool { return w.node.count() == 0 })
}

func TestCheckpointTTLAndKeepLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{TTL: 24 * time.Hour})
	w.save(sb, core.CheckpointSpec{Comment: "short", TTL: time.Minute})
	long := w.save(sb, core.CheckpointSpec{Comment: "long", TTL: time.Hour})
	w.clock.advance(time.Minute)
	eventually(t, "the first has expired", func() bool { return w.savedOf("") == "long" })
	more := 2 * time.Hour
	if _, err := w.svc.UpdateCheckpoint(t.Context(), alice, long.ID, control.CheckpointPatch{TTL: &more}); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	for i := range 4 {
		w.save(sb, core.CheckpointSpec{Comment: fmt.Sprint(i)})
	}
	if got := w.savedOf(""); got != "long 0 1 2 3" {
		t.Errorf("before: %q", got)
	}
	w.save(sb, core.CheckpointSpec{Comment: "4", KeepLast: 3})
	if got := w.savedOf(""); got != "2 3 4" {
		t.Errorf("the last three are %q", got)
	}
	w.restart()
	w.wantSettled(3)
}

func TestCheckpointQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	admin, _ := adminOf(w)
	two, most := int64(2), int64(10*mib)
	rec, err := w.svc.CreateTenant(t.Context(), admin, control.TenantSpec{Name: "small", Quota: core.Quota{Checkpoints: &two, CheckpointBytes: &most}})
	if err != nil {
		t.Fatal(err)
	}
	p := alice
	p.Tenant = rec.ID
	sb, err := w.svc.CreateSandbox(t.Context(), p, core.SandboxSpec{})
	if err != nil {
		t.Fatal(err)
	}
	save := func() (core.Checkpoint, error) {
		return w.svc.CreateCheckpoint(t.Context(), p, string(sb.ID), core.CheckpointSpec{})
	}
	w.node.write(8 * mib)
	c, err := save()
	if err != nil {
		t.Fatal(err)
	}
	w.node.write(4 * mib) // 12 in all: what both have counts once
	_, err = save()
	wantCode(t, err, core.CodeQuota)
	w.wantSettled(1)
	w.node.write(-3 * mib)
	if _, err = save(); err != nil {
		t.Fatal(err)
	}
	_, err = save()
	wantCode(t, err, core.CodeQuota)
	if err := w.svc.DeleteCheckpoint(t.Context(), p, c.ID); err != nil {
		t.Fatal(err)
	}
	if _, err = save(); err != nil {
		t.Fatal(err)
	}
	w.wantSettled(2)
	if err := w.svc.DeleteTenant(t.Context(), admin, string(rec.ID), true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing of the tenant is left", func() bool { w.clock.advance(time.Second); return w.node.count() == 0 })
	w.wantSettled(0)
}

// TestCheckpointsOfOthers: a key for some sandboxes sees their checkpoints, and a token of a sandbox none.
func TestCheckpointsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	a := w.create(core.SandboxSpec{Labels: map[string]string{"team": "a"}})
	b := w.create(core.SandboxSpec{Labels: map[string]string{"team": "b"}})
	mine, theirs := w.save(a, core.CheckpointSpec{Comment: "mine"}), w.save(b, core.CheckpointSpec{Comment: "theirs"})
	some := alice
	some.Labels = map[string]string{"team": "a"}
	list, _, err := w.svc.ListCheckpoints(t.Context(), some, control.CheckpointQuery{}, store.Page{Limit: 10})
	if err != nil || len(list) != 1 || list[0].ID != mine.ID {
		t.Errorf("listed are %v, %v", list, err)
	}
	bob := alice
	bob.Tenant = "bob"
	for _, p := range []control.Principal{some, bob} {
		_, err = w.svc.GetCheckpoint(t.Context(), p, theirs.ID)
		wantCode(t, err, core.CodeNotFound)
		wantCode(t, w.svc.DeleteCheckpoint(t.Context(), p, theirs.ID), core.CodeNotFound)
		_, err = w.svc.UpdateCheckpoint(t.Context(), p, theirs.ID, control.CheckpointPatch{})
		wantCode(t, err, core.CodeNotFound)
		_, err = w.svc.CreateCheckpoint(t.Context(), p, string(b.ID), core.CheckpointSpec{})
		wantCode(t, err, core.CodeNotFound)
		_, _, err = w.svc.ListCheckpoints(t.Context(), p, control.CheckpointQuery{Sandbox: string(b.ID)}, store.Page{Limit: 10})
		wantCode(t, err, core.CodeNotFound)
	}
	token := w.open(a)
	_, err = w.svc.CreateCheckpoint(t.Context(), token, string(a.ID), core.CheckpointSpec{})
	wantCode(t, err, core.CodeDenied)
	_, err = w.svc.GetCheckpoint(t.Context(), token, mine.ID)
	wantCode(t, err, core.CodeDenied)
	_, _, err = w.svc.ListCheckpoints(t.Context(), token, control.CheckpointQuery{}, store.Page{Limit: 10})
	wantCode(t, err, core.CodeDenied)
}

// TestKeepLastOfOthers: what a key can't see it doesn't delete by keep_last either.
func TestKeepLastOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.save(sb, core.CheckpointSpec{Comment: "hidden"})
	labels := map[string]string{"team": "a"}
	if _, err := w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), control.SandboxPatch{Labels: &labels}); err != nil {
		t.Fatal(err)
	}
	some := alice
	some.Labels = labels
	for _, comment := range []string{"old", "new"} {
		w.clock.advance(time.Second)
		if _, err := w.svc.CreateCheckpoint(t.Context(), some, string(sb.ID), core.CheckpointSpec{Comment: comment, KeepLast: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.savedOf(""); got != "hidden new" {
		t.Errorf("left are %q", got)
	}
}

// TestExpiryWaitsForRestore: one that is due and being restored is looked at now and then, not all the time.
func TestExpiryWaitsForRestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Persistent: true})
	c := w.save(sb, core.CheckpointSpec{Comment: "due", TTL: time.Minute})
	w.change(func(tx store.Tx) error {
		now, err := tx.SandboxByID(sb.ID)
		if err != nil {
			return err
		}
		now.Begin(core.OpRestore, w.clock.Now())
		now.OperationArg = string(c.ID)
		return tx.PutSandbox(now)
	})
	w.clock.advance(time.Minute)
	for range 2 {
		wait, err := control.ExpireCheckpoints(t.Context(), w.svc)
		if err != nil || wait != time.Second {
			t.Errorf("it waits %v, %v", wait, err)
		}
	}
	w.change(func(tx store.Tx) error {
		now, err := tx.SandboxByID(sb.ID)
		if err != nil {
			return err
		}
		now.End()
		return tx.PutSandbox(now)
	})
	eventually(t, "it has expired", func() bool { w.clock.advance(time.Second); return w.savedOf("") == "" })
}

// TestCheckpointUsage: what checkpoints keep of a sandbox that is gone counts for the tenant, once for all that have it.
func TestCheckpointUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sizes.left = map[string]int64{}
	w.start().ready()
	sb := w.create(core.SandboxSpec{TTL: 24 * time.Hour})
	w.sizes.set(sb.ID, 3<<30)
	for range 2 {
		w.save(sb, core.CheckpointSpec{})
	}
	kept := func() float64 {
		t.Helper()
		p := control.Principal{Tenant: sb.Tenant, Scopes: core.OrdinaryScopes()}
		page, err := w.svc.Usage(t.Context(), p, control.UsageQuery{}, store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		var sum float64
		for _, row := range page.Rows {
			sum += row.Checkpoints.GiBSeconds()
		}
		return sum
	}
	measured := func(want int64) {
		t.Helper()
		eventually(t, "it is measured", func() bool {
			w.clock.advance(time.Second)
			var bytes map[core.TenantID]int64
			w.change(func(tx store.Tx) (err error) { bytes, err = tx.CheckpointBytes(); return err })
			return bytes[sb.Tenant] == want
		})
	}
	w.clock.advance(time.Hour)
	if got := kept(); got != 0 {
		t.Errorf("beside its sandbox they keep %v GiB·s", got)
	}
	w.sizes.mu.Lock()
	delete(w.sizes.by, sb.ID)
	w.sizes.left["pool/"+string(sb.ID)] = 2 << 30
	w.sizes.mu.Unlock()
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	measured(2 << 30)
	before := kept()
	w.clock.advance(time.Hour)
	if got := kept() - before; got != 2*3600 {
		t.Errorf("in an hour they keep %v GiB·s, want 7200", got)
	}
	list, _, err := w.svc.ListCheckpoints(t.Context(), alice, control.CheckpointQuery{}, store.Page{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if err := w.svc.DeleteCheckpoint(t.Context(), alice, c.ID); err != nil {
			t.Fatal(err)
		}
	}
	measured(0)
	before = kept()
	w.clock.advance(time.Hour)
	if got := kept() - before; got != 0 {
		t.Errorf("when they are gone %v GiB·s are counted", got)
	}
}
