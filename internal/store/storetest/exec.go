package storetest

import (
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func testExec(t *testing.T, open Open) {
	t.Helper()
	t.Run("every field comes back", func(t *testing.T) { testExecFields(t, open) })
	t.Run("an exec needs its sandbox", func(t *testing.T) {
		s := start(t, open)
		wantCode(t, s.try(func(tx store.Tx) error { return tx.PutExec(newExec("nobody")) }), core.CodeNotFound)
	})
	t.Run("pages, newest first", func(t *testing.T) {
		s := start(t, open)
		b, other := newSandbox(alice), newSandbox(alice)
		s.put(b, other)
		var want, got []core.ExecID
		for i := range 7 {
			e, noise := newExec(b.ID), newExec(other.ID)
			e.StartedAt = epoch().Add(time.Duration(i))
			s.update(func(tx store.Tx) error {
				if err := tx.PutExec(noise); err != nil {
					return err
				}
				return tx.PutExec(e)
			})
			want = append([]core.ExecID{e.ID}, want...)
		}
		page := store.Page{Limit: 3}
		for more := true; more; more = page.Cursor != "" {
			s.view(func(r store.Reader) (err error) {
				var list []core.Exec
				list, page.Cursor, err = r.ListExecs(b.ID, store.ExecFilter{}, page)
				for _, e := range list {
					got = append(got, e.ID)
				}
				return err
			})
		}
		wantSame(t, got, want)
	})
	t.Run("found by pid and tag", func(t *testing.T) { testFindExec(t, open) })
	t.Run("filters", func(t *testing.T) { testExecFilters(t, open) })
	t.Run("deleted", func(t *testing.T) { testDeleteExec(t, open) })
	t.Run("lost", func(t *testing.T) { testLoseExecs(t, open) })
	t.Run("a bounded number is kept", func(t *testing.T) { testKeepExecs(t, open) })
}

func testExecFields(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	b := newSandbox(alice)
	s.put(b)
	zero, code := 0, 137
	want := core.Exec{
		ID: core.ExecID(core.NewID()), Sandbox: b.ID,
		Spec: core.ExecSpec{
			Cmd: []string{"sh", "", "-c", "echo 'x'; \x00\n"}, Shell: "true", Cwd: "/tmp", Env: map[string]string{"A": "b"},
			User: "user:group", Stdin: true, Timeout: 90 * time.Second, Detach: true, TTY: true, Rows: 24, Cols: 65535, Tag: "büro 1",
		},
		PID: 4194304, Outcome: core.OutcomeExited, ExitCode: &zero, Signal: "SIGKILL",
		OutOfMemory: true, StartedAt: epoch(), EndedAt: epoch().Add(1), OutputBytes: 1 << 50, OutputFrom: 1 << 49, Processes: 3,
	}
	put := func(e core.Exec) error { return s.try(func(tx store.Tx) error { return tx.PutExec(e) }) }
	check := func(want core.Exec) {
		t.Helper()
		s.view(func(r store.Reader) error {
			got, err := r.Exec(b.ID, want.ID)
			wantSame(t, got, want)
			return err
		})
	}
	if err := put(want); err != nil {
		t.Fatal(err)
	}
	check(want)
	want.ExitCode, want.Outcome, want.Processes = &code, core.OutcomeSignaled, 0
	if err := put(want); err != nil {
		t.Fatal(err)
	}
	check(want)
	plain := newExec(b.ID)
	if err := put(plain); err != nil {
		t.Fatal(err)
	}
	check(plain) // an exit code that is not there is not zero
	bad := newExec(b.ID)
	bad.Spec.Cmd = []string{"\xff"}
	wantCode(t, put(bad), core.CodeInvalid)
	bad = newExec(b.ID)
	bad.Spec.Tag = "\xff"
	wantField(t, put(bad), "tag")
	s.view(func(r store.Reader) error {
		_, err := r.Exec("another", want.ID)
		wantCode(t, err, core.CodeNotFound)
		return nil
	})
}

func testDeleteExec(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	b, other := newSandbox(alice), newSandbox(alice)
	s.put(b, other)
	gone, kept, theirs := newExec(b.ID), newExec(b.ID), newExec(other.ID)
	s.update(func(tx store.Tx) error {
		for _, e := range []core.Exec{gone, kept, theirs} {
			if err := tx.PutExec(e); err != nil {
				return err
			}
		}
		return nil
	})
	del := func(id core.ExecID) error {
		return s.try(func(tx store.Tx) error { return tx.DeleteExec(b.ID, id) })
	}
	if err := del(gone.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, del(gone.ID), core.CodeNotFound)
	wantCode(t, del(theirs.ID), core.CodeNotFound) // of another sandbox
	s.view(func(r store.Reader) error {
		_, err := r.Exec(b.ID, gone.ID)
		wantCode(t, err, core.CodeNotFound)
		for _, e := range []core.Exec{kept, theirs} {
			got, err := r.Exec(e.Sandbox, e.ID)
			if err != nil {
				return err
			}
			wantSame(t, got, e)
		}
		return nil
	})
}

func testLoseExecs(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	b, other := newSandbox(alice), newSandbox(alice)
	s.put(b, other)
	zero := 0
	running, late, ended, theirs := newExec(b.ID), newExec(b.ID), newExec(b.ID), newExec(other.ID)
	running.Processes, late.StartedAt = 2, epoch().Add(1)
	// What is run is not part of either list, and ending an exec that was read from one leaves it as it is.
	spec := core.ExecSpec{Cmd: []string{"sleep"}, Cwd: "/", Env: map[string]string{"A": "b"}, Timeout: 1, Stdin: true}
	withSpec := func(e core.Exec) core.Exec { e.Spec = spec; return e }
	ended.Outcome, ended.ExitCode, ended.EndedAt = core.OutcomeExited, &zero, epoch()
	s.update(func(tx store.Tx) error {
		for _, e := range []core.Exec{running, late, ended, theirs} {
			if err := tx.PutExec(withSpec(e)); err != nil {
				return err
			}
		}
		return tx.PutExec(late) // again, without
	})
	s.view(func(r store.Reader) error {
		got, err := r.OpenExecs(b.ID)
		wantSame(t, got, []core.Exec{running, late})
		return err
	})
	at := epoch().Add(time.Minute)
	for i := range 2 {
		s.update(func(tx store.Tx) error {
			lost, err := tx.LoseExecs(b.ID, at)
			if err != nil {
				return err
			}
			if i == 1 {
				if len(lost) != 0 {
					t.Fatalf("lost again: %v", lost)
				}
				return nil
			}
			want := []core.Exec{running, late}
			for i := range want {
				want[i].Outcome, want[i].EndedAt, want[i].Processes = core.OutcomeLost, at, 0
			}
			wantSame(t, lost, want)
			for _, e := range want {
				got, err := tx.Exec(b.ID, e.ID)
				if err != nil {
					return err
				}
				wantSame(t, got, withSpec(e))
			}
			return nil
		})
	}
	s.view(func(r store.Reader) error {
		for _, e := range []core.Exec{ended, theirs} {
			got, err := r.Exec(e.Sandbox, e.ID)
			if err != nil {
				return err
			}
			wantSame(t, got, withSpec(e))
		}
		return nil
	})
}

// testKeepExecs runs more than store.KeepExecs execs, of which the very first never ends.
func testKeepExecs(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	b, other := newSandbox(alice), newSandbox(alice)
	s.put(b, other)
	endless, theirs := newExec(b.ID), newExec(other.ID)
	const extra = 5
	var ids []core.ExecID
	s.update(func(tx store.Tx) error {
		ids = nil
		if err := tx.PutExec(endless); err != nil {
			return err
		}
		theirs.Outcome = core.OutcomeLost
		if err := tx.PutExec(theirs); err != nil {
			return err
		}
		for i := range store.KeepExecs + extra {
			e := newExec(b.ID)
			e.StartedAt = epoch().Add(time.Duration(i + 1))
			ids = append(ids, e.ID)
			for _, outcome := range []core.Outcome{core.OutcomeRunning, core.OutcomeLost} {
				e.Outcome = outcome
				if err := tx.PutExec(e); err != nil {
					return err
				}
			}
		}
		return nil
	})
	s.view(func(r store.Reader) error {
		for i, id := range ids {
			_, err := r.Exec(b.ID, id)
			if i < extra {
				wantCode(t, err, core.CodeNotFound)
			} else if err != nil {
				t.Fatalf("exec %d of %d: %v", i, len(ids), err)
			}
		}
		for _, e := range []core.Exec{endless, theirs} {
			if _, err := r.Exec(e.Sandbox, e.ID); err != nil {
				return err
			}
		}
		return nil
	})
}
