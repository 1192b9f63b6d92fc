package storetest

import (
	"fmt"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func newCheckpoint(tenant core.TenantID, sandbox core.SandboxID, minute int) core.Checkpoint {
	return core.Checkpoint{
		ID: core.CheckpointID(core.NewID()), Tenant: tenant, Sandbox: sandbox, Kind: core.CheckpointDisk, State: core.CheckpointReady,
		Cause: core.CauseCall, CreatedAt: epoch().Add(time.Duration(minute) * time.Minute),
	}
}

func (s *suite) putCheckpoint(c core.Checkpoint) core.Checkpoint {
	s.Helper()
	s.update(func(tx store.Tx) error { return tx.PutCheckpoint(c) })
	return c
}

func (s *suite) checkpoint(tenant core.TenantID, id core.CheckpointID) (c core.Checkpoint, err error) {
	err = s.View(s.Context(), func(r store.Reader) (err error) {
		c, err = r.Checkpoint(tenant, id)
		return err
	})
	return c, err
}

func testCheckpoint(t *testing.T, open Open) {
	t.Helper()
	t.Run("every field comes back", func(t *testing.T) {
		s := start(t, open)
		want := core.Checkpoint{
			ID: core.CheckpointID(core.NewID()), Tenant: alice, Sandbox: "s1", Parent: "p1", Kind: core.CheckpointDisk, State: core.CheckpointReady,
			Cause: core.CauseRestore, Comment: "before the upgrade", Template: "t1", TemplateName: "base",
			Config:    core.TemplateConfig{User: "user", Workdir: "/home/user", Env: map[string]string{"A": "b"}, Cmd: []string{"-v"}},
			Resources: core.Resources{VCPUs: 1.5, MemoryBytes: 1 << 30, DiskBytes: 1 << 40, Pids: 7, OpenFiles: 8, CPUWeight: 9, IOWeight: 10},
			Labels:    map[string]string{"l": "x"}, CreatedAt: epoch(), ExpiresAt: epoch().Add(1), Origin: "u/1", WrittenBytes: 1 << 41,
		}
		s.putCheckpoint(want)
		got, err := s.checkpoint(alice, want.ID)
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, got, want)
		want.Comment, want.ExpiresAt, want.WrittenBytes, want.Labels = "", time.Time{}, -1, nil
		s.putCheckpoint(want)
		if got, err = s.checkpoint(alice, want.ID); err != nil {
			t.Fatal(err)
		}
		wantSame(t, got, want)
	})
	t.Run("refusals", func(t *testing.T) { testCheckpointRefusals(t, open) })
	t.Run("who finds them", func(t *testing.T) { testCheckpointFound(t, open) })
	t.Run("pages and filters", func(t *testing.T) { testCheckpointList(t, open) })
	t.Run("deleting", func(t *testing.T) { testCheckpointDeleting(t, open) })
	t.Run("expiry", func(t *testing.T) { testCheckpointExpiry(t, open) })
	t.Run("use", func(t *testing.T) { testCheckpointUse(t, open) })
	t.Run("users", func(t *testing.T) { testCheckpointUsers(t, open) })
}

func testCheckpointRefusals(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	c := s.putCheckpoint(newCheckpoint(alice, "s1", 0))
	for name, change := range map[string]func(c *core.Checkpoint){
		"another tenant": func(c *core.Checkpoint) { c.Tenant = bob }, "another sandbox": func(c *core.Checkpoint) { c.Sandbox = "s2" },
		"another time": func(c *core.Checkpoint) { c.CreatedAt = epoch().Add(1) }, "another kind": func(c *core.Checkpoint) { c.Kind = core.CheckpointFull },
	} {
		other := c
		change(&other)
		if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.PutCheckpoint(other) }); !core.IsCode(err, core.CodeConflict) {
			t.Errorf("%s: %v, want conflict", name, err)
		}
	}
	for name, change := range map[string]func(c *core.Checkpoint){
		"no id": func(c *core.Checkpoint) { c.ID = "" }, "no tenant": func(c *core.Checkpoint) { c.Tenant = "" },
		"no sandbox": func(c *core.Checkpoint) { c.Sandbox = "" }, "no text": func(c *core.Checkpoint) { c.Comment = "\xff" },
	} {
		other := newCheckpoint(alice, "s1", 0)
		change(&other)
		if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.PutCheckpoint(other) }); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
	wantSame(t, must(t)(s.checkpoint(alice, c.ID)), c)
}

// must returns a function that takes a result and fails the test on its error.
func must(t *testing.T) func(c core.Checkpoint, err error) core.Checkpoint {
	t.Helper()
	return func(c core.Checkpoint, err error) core.Checkpoint {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

func testCheckpointFound(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	ready, creating := newCheckpoint(alice, "s1", 0), newCheckpoint(alice, "s1", 1)
	creating.State = core.CheckpointCreating
	deleting := newCheckpoint(alice, "s1", 2)
	deleting.State = core.CheckpointDeleting
	for _, c := range []core.Checkpoint{ready, creating, deleting} {
		s.putCheckpoint(c)
		_, err := s.checkpoint(alice, c.ID)
		if want := c.State == core.CheckpointReady; want != (err == nil) || !want && !core.IsCode(err, core.CodeNotFound) {
			t.Errorf("%s is found: %v", c.State, err)
		}
		if _, err := s.checkpoint(bob, c.ID); !core.IsCode(err, core.CodeNotFound) {
			t.Errorf("another tenant finds it: %v", err)
		}
	}
	s.view(func(r store.Reader) error {
		list, _, err := r.ListCheckpoints(alice, store.CheckpointFilter{}, store.Page{Limit: 10})
		if err != nil || len(list) != 1 || list[0].ID != ready.ID {
			t.Errorf("listed are %v, %v", list, err)
		}
		all, err := r.AllCheckpoints()
		wantSame(t, all, []core.Checkpoint{ready, creating, deleting})
		if err != nil {
			return err
		}
		of, err := r.CheckpointsOf("s1")
		wantSame(t, of, []core.Checkpoint{creating, ready})
		if err != nil {
			return err
		}
		ids, err := r.TenantCheckpoints(alice)
		if len(ids) != 3 {
			t.Errorf("the tenant has %v", ids)
		}
		if err != nil {
			return err
		}
		got, err := r.CheckpointByID(deleting.ID)
		wantSame(t, got, deleting)
		return err
	})
}

func testCheckpointList(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	var want []core.CheckpointID
	for i := range 7 {
		c := newCheckpoint(alice, core.SandboxID(fmt.Sprintf("s%d", i%2)), i/2) // two in each minute
		if c.Labels = map[string]string{"n": fmt.Sprint(i)}; i == 6 {
			c.Cause = core.CauseExec
		}
		s.putCheckpoint(c)
		want = append(want, c.ID)
	}
	s.putCheckpoint(newCheckpoint(bob, "s9", 0))
	list := func(f store.CheckpointFilter, limit int) (ids []core.CheckpointID) {
		t.Helper()
		page := store.Page{Limit: limit}
		var last core.Checkpoint
		for more := true; more; more = page.Cursor != "" {
			s.view(func(r store.Reader) (err error) {
				var some []core.Checkpoint
				some, page.Cursor, err = r.ListCheckpoints(alice, f, page)
				for _, c := range some {
					if last.ID != "" && (c.CreatedAt.After(last.CreatedAt) || c.CreatedAt.Equal(last.CreatedAt) && c.ID > last.ID) {
						t.Errorf("%s comes after %s", c.ID, last.ID)
					}
					last = c
					ids = append(ids, c.ID)
				}
				return err
			})
		}
		return ids
	}
	for _, limit := range []int{1, 2, 3, 100} {
		if got := list(store.CheckpointFilter{}, limit); len(got) != len(want) {
			t.Errorf("in pages of %d there are %d of %d", limit, len(got), len(want))
		}
	}
	for name, c := range map[string]struct {
		f    store.CheckpointFilter
		want []core.CheckpointID
	}{
		"sandbox": {store.CheckpointFilter{Sandbox: "s0", Causes: []core.CheckpointCause{core.CauseExec}}, want[6:]},
		"label":   {store.CheckpointFilter{Labels: map[string]string{"n": "3"}}, want[3:4]},
		"labels":  {store.CheckpointFilter{Labels: map[string]string{"n": "3", "m": "1"}}, nil},
		"another": {store.CheckpointFilter{Sandbox: "s9"}, nil},
	} {
		wantSame(t, list(c.f, 2), c.want)
		_ = name
	}
	for _, bad := range []store.Page{{Limit: 0}, {Limit: 1, Cursor: "x"}} {
		err := s.View(t.Context(), func(r store.Reader) error {
			_, _, err := r.ListCheckpoints(alice, store.CheckpointFilter{}, bad)
			return err
		})
		if !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%+v: %v, want invalid", bad, err)
		}
	}
}

// testCheckpointDeleting takes one out of the middle: its children and the sandboxes on it get its parent.
func testCheckpointDeleting(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	first := s.putCheckpoint(newCheckpoint(alice, "s1", 0))
	middle := newCheckpoint(alice, "s1", 1)
	middle.Parent = first.ID
	s.putCheckpoint(middle)
	last := newCheckpoint(alice, "s1", 2)
	last.Parent = middle.ID
	s.putCheckpoint(last)
	sb := newSandbox(alice)
	sb.Head = middle.ID
	s.update(func(tx store.Tx) error { return tx.PutSandbox(sb) })
	call := core.KeyedCall{Tenant: alice, Route: "r", Key: "k", Digest: "d", At: epoch(), Checkpoint: middle.ID}
	s.update(func(tx store.Tx) error { return tx.PutKeyedCall(call) })
	middle.State = core.CheckpointDeleting
	s.putCheckpoint(middle)
	if got := must(t)(s.checkpoint(alice, last.ID)); got.Parent != first.ID {
		t.Errorf("its child has the parent %q", got.Parent)
	}
	s.view(func(r store.Reader) error {
		got, err := r.SandboxByID(sb.ID)
		if got.Head != first.ID {
			t.Errorf("the sandbox has the head %q", got.Head)
		}
		if err != nil {
			return err
		}
		found, err := r.KeyedCall(alice, "r", "k")
		wantSame(t, found, call) // It was ready: the call took effect.
		return err
	})
	middle.State = core.CheckpointReady
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.PutCheckpoint(middle) }); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("it comes back: %v", err)
	}
	s.update(func(tx store.Tx) error {
		if err := tx.ForgetCheckpoint(last.ID); err != nil { // not deleting: left alone
			return err
		}
		return tx.ForgetCheckpoint(middle.ID)
	})
	must(t)(s.checkpoint(alice, last.ID))
	s.view(func(r store.Reader) error {
		if _, err := r.CheckpointByID(middle.ID); !core.IsCode(err, core.CodeNotFound) {
			t.Errorf("a forgotten one: %v", err)
		}
		return nil
	})
	failed := newCheckpoint(alice, "s1", 3)
	failed.State, call.Checkpoint = core.CheckpointCreating, failed.ID
	s.putCheckpoint(failed)
	s.update(func(tx store.Tx) error { return tx.PutKeyedCall(call) })
	failed.State = core.CheckpointDeleting
	s.putCheckpoint(failed)
	s.view(func(r store.Reader) error {
		if _, err := r.KeyedCall(alice, "r", "k"); !core.IsCode(err, core.CodeNotFound) {
			t.Errorf("the key of one that failed is not free: %v", err)
		}
		return nil
	})
}

func testCheckpointExpiry(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	next := func() (at time.Time, ok bool, due int) {
		t.Helper()
		s.view(func(r store.Reader) (err error) {
			if at, ok, err = r.NextCheckpointExpiry(); err != nil {
				return err
			}
			list, err := r.ExpiredCheckpoints(epoch().Add(2 * time.Hour))
			due = len(list)
			return err
		})
		return at, ok, due
	}
	s.putCheckpoint(newCheckpoint(alice, "s1", 0))
	if _, ok, due := next(); ok || due != 0 {
		t.Error("one without a ttl expires")
	}
	half := newCheckpoint(alice, "s1", 0)
	half.State, half.ExpiresAt = core.CheckpointCreating, epoch().Add(time.Minute)
	s.putCheckpoint(half)
	if _, ok, due := next(); ok || due != 0 {
		t.Error("one that is being made expires")
	}
	var list []core.Checkpoint
	for i := range 3 {
		c := newCheckpoint(alice, "s1", i)
		c.ExpiresAt = epoch().Add(time.Duration(i+1) * time.Hour)
		list = append(list, s.putCheckpoint(c))
	}
	if at, ok, due := next(); !ok || !at.Equal(list[0].ExpiresAt) || due != 2 {
		t.Errorf("the next is at %v, %v, and %d are due", at, ok, due)
	}
	list[0].State = core.CheckpointDeleting
	s.putCheckpoint(list[0])
	if at, ok, due := next(); !ok || !at.Equal(list[1].ExpiresAt) || due != 1 {
		t.Errorf("then the next is at %v, %v, and %d are due", at, ok, due)
	}
}

func testCheckpointUse(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	use := func() (n, bytes int64) {
		t.Helper()
		s.view(func(r store.Reader) error {
			u, err := r.TenantUse(alice, epoch())
			n, bytes = u.Checkpoints, u.CheckpointBytes
			return err
		})
		return n, bytes
	}
	var list []core.Checkpoint
	for i, c := range []struct {
		origin string
		bytes  int64
	}{{"u/1", 10}, {"u/1", 30}, {"u/1", 20}, {"u/2", 5}, {"u/3", -1}} {
		rec := newCheckpoint(alice, "s1", i)
		rec.Origin, rec.WrittenBytes = c.origin, c.bytes
		list = append(list, s.putCheckpoint(rec))
	}
	other := newCheckpoint(bob, "s2", 0)
	other.WrittenBytes = 1000
	s.putCheckpoint(other)
	if n, bytes := use(); n != 5 || bytes != 35 {
		t.Errorf("%d with %d bytes, want 5 with 35", n, bytes)
	}
	list[1].State = core.CheckpointDeleting
	s.putCheckpoint(list[1])
	if n, bytes := use(); n != 4 || bytes != 25 {
		t.Errorf("%d with %d bytes, want 4 with 25", n, bytes)
	}
	s.update(func(tx store.Tx) error {
		_, err := tx.PurgeTenant(alice)
		return err
	})
	if n, _ := use(); n != 0 {
		t.Errorf("after a purge there are %d", n)
	}
}

// testCheckpointUsers: those that started from it or descend from it, once each, until they are deleted.
func testCheckpointUsers(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	c := s.putCheckpoint(newCheckpoint(alice, "s1", 0))
	users := func() (n int, forks string) {
		t.Helper()
		s.view(func(r store.Reader) (err error) {
			if n, err = r.CheckpointUsers(c.ID); err != nil {
				return err
			}
			list, err := r.Forks(c.ID)
			for _, sb := range list {
				forks += sb.Name
			}
			return err
		})
		return n, forks
	}
	both, source, head, other := newSandbox(alice), newSandbox(alice), newSandbox(alice), newSandbox(alice)
	both.Source, both.Head, both.Parent, both.Name = c.ID, c.ID, "s1", "b"
	source.Source, source.Parent, source.Name, source.CreatedAt = c.ID, "s1", "a", both.CreatedAt.Add(-1)
	head.Head = c.ID
	s.put(both, source, head, other)
	if n, forks := users(); n != 3 || forks != "ab" {
		t.Errorf("%d users, forks %q, want 3 and ab", n, forks)
	}
	source.State, source.DeletedAt = core.StateDeleted, epoch()
	s.put(source)
	if n, forks := users(); n != 2 || forks != "ab" {
		t.Errorf("without one: %d users, forks %q", n, forks)
	}
	for op, want := range map[core.OperationKind]int{core.OpRestore: 3, core.OpCheckpoint: 2} {
		other.Operation, other.OperationArg = op, string(c.ID)
		s.put(other)
		if n, _ := users(); n != want {
			t.Errorf("with a %s under way: %d users", op, n)
		}
		s.view(func(r store.Reader) error {
			if busy, err := r.IsRestored(c.ID); busy != (op == core.OpRestore) || err != nil {
				t.Errorf("with a %s under way it is being restored: %v, %v", op, busy, err)
			}
			return nil
		})
	}
	s.view(func(r store.Reader) error {
		if busy, err := r.IsRestored(""); busy || err != nil {
			t.Errorf("no checkpoint is being restored: %v, %v", busy, err)
		}
		if n, err := r.CheckpointUsers(""); n != 0 || err != nil {
			t.Errorf("no checkpoint has %d users, %v", n, err)
		}
		list, err := r.Forks("")
		if len(list) != 0 {
			t.Errorf("no checkpoint has %d forks", len(list))
		}
		return err
	})
}
