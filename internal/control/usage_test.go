package control_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// sizes are what sandboxes keep, as a disk would tell.
type sizes struct {
	mu sync.Mutex
	by map[core.SandboxID]int64
	// left is what is kept of the writes of origins whose sandbox is not in by.
	left map[string]int64
}

func (s *sizes) LeftBytes(_ context.Context, id core.SandboxID, origin string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.by[id]; ok {
		return 0, nil
	}
	return s.left[origin], nil
}

func (s *sizes) KeptBytes(_ context.Context, id core.SandboxID) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.by[id]; ok {
		return n, nil
	}
	return 0, core.Errorf(core.CodeNotFound, "no such tree")
}

func (s *sizes) set(id core.SandboxID, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[id] = n
}

// used returns what a sandbox has used, as its owner is told.
func (w *world) used(sb core.Sandbox) core.UsageRow {
	w.t.Helper()
	p := control.Principal{Tenant: sb.Tenant, Scopes: core.OrdinaryScopes()}
	page, err := w.svc.Usage(w.t.Context(), p, control.UsageQuery{BySandbox: true, Sandbox: string(sb.ID)}, store.Page{Limit: 10})
	if err != nil || page.Next != "" || len(page.Rows) != 1 {
		w.t.Fatalf("usage is %+v, %v", page, err)
	}
	return page.Rows[0]
}

// near says that some milliseconds are what they should be, but for those that a server takes to start.
func near(ms, want int64) bool { return ms >= want-5 && ms <= want+5 }

// wantUsed compares seconds.
func (w *world) wantUsed(sb core.Sandbox, awake, kept int64) {
	w.t.Helper()
	u := w.used(sb)
	if !near(u.AwakeMillis, awake*1000) || !near(u.KeptMillis, kept*1000) {
		w.t.Errorf("it was awake for %d ms and kept for %d ms, want %d and %d s", u.AwakeMillis, u.KeptMillis, awake, kept)
	}
}

func TestUsageOfALife(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		sb := w.create(core.SandboxSpec{Name: "lab", Labels: map[string]string{"job": "a"}, Resources: core.Resources{VCPUs: 0.5, MemoryBytes: 1 << 30}})
		w.sizes.set(sb.ID, 1<<16)
		w.pass(90 * time.Second)
		w.wantUsed(sb, 90, 90)
		if _, err := w.svc.UpdateSandbox(t.Context(), alice, "lab", control.SandboxPatch{Labels: &map[string]string{"job": "b"}}); err != nil {
			t.Fatal(err)
		}
		e := w.run(sb, 10, "")
		w.pass(30 * time.Second)
		if err := w.node.guest(sb.ID).finish(e.ID, core.Exec{Outcome: core.OutcomeExited, ExitCode: new(int)}); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Second)
		if err := w.svc.DeleteSandbox(t.Context(), alice, "lab"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		u := w.used(sb)
		if u.AwakeMillis != 130_000 || u.VCPUMillis != 500*130_000 || u.Memory.GiBSeconds() != 130 || u.Labels["job"] != "b" || u.Name != "lab" {
			t.Errorf("its usage is %+v", u)
		}
		// It kept nothing until it was measured after a minute.
		if u.MeasuredMillis != 130_000 || !near(u.Disk.Large, 70_000) || u.Disk.Small != 0 {
			t.Errorf("it kept %+v in %d ms", u.Disk, u.MeasuredMillis)
		}
		if u.Execs != 1 || u.ExecMillis < 30_000 || u.ExecMillis > 40_000 {
			t.Errorf("%d processes took %d ms", u.Execs, u.ExecMillis)
		}
	})
}

// TestUsageWhileDown restarts a server beside a machine that goes on and one that doesn't.
func TestUsageWhileDown(t *testing.T) {
	for name, kill := range map[string]bool{"closed": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(w *world) {
				t := w.t
				lives, dies := w.create(core.SandboxSpec{TTL: 20 * time.Hour}), w.create(core.SandboxSpec{TTL: 20 * time.Hour})
				w.pass(90 * time.Second)
				st := w.store.(*watchedStore)
				if kill {
					st.fail(errors.New("killed"))
				} else if err := w.svc.Close(); err != nil {
					t.Fatal(err)
				}
				w.node.mu.Lock()
				delete(w.node.running, dies.ID)
				w.node.mu.Unlock()
				w.pass(time.Hour)
				w.store = &watchedStore{Store: st.Store}
				w.start()
				w.wantUsed(lives, 3690, 3690)
				// It counts for as long as it was known to run: to the minute, and to the moment if the server could say good-bye.
				awake := int64(90)
				if kill {
					awake = 60
				}
				w.wantUsed(dies, awake, 3690)
				list, _, err := w.svc.Events(t.Context(), alice, string(dies.ID), 0, 10, 0)
				if err != nil {
					t.Fatal(err)
				}
				last := list[len(list)-1]
				until, err := time.Parse(time.RFC3339Nano, last.Data["awake_until"])
				if err != nil || last.Type != core.EventSandboxFailed || !near(until.Sub(lives.StartedAt).Milliseconds(), awake*1000) {
					t.Errorf("the last event is %+v", last)
				}
				w.pass(10 * time.Second)
				w.wantUsed(dies, awake, 3700) // its files are kept
				if err := w.svc.DeleteSandbox(t.Context(), alice, string(dies.ID)); err != nil {
					t.Fatal(err)
				}
				w.pass(10 * time.Second)
				w.wantUsed(dies, awake, 3700)
			})
		})
	}
}

func TestUsageEndsWithTheMachine(t *testing.T) {
	inTime(t, func(w *world) {
		sb := w.create(core.SandboxSpec{})
		w.pass(5 * time.Second)
		w.node.crash(sb.ID)
		w.pass(5 * time.Second)
		w.wantUsed(sb, 5, 10)
	})
}

func TestUsageOfAFailedCreate(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		var id core.SandboxID
		w.node.onCreate = func(_ context.Context, spec core.NodeSpec) error {
			id = spec.Sandbox
			return errors.New("no")
		}
		if _, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{}); err == nil {
			t.Fatal("it was made")
		}
		w.pass(time.Minute)
		err := w.store.View(t.Context(), func(r store.Reader) error { _, err := r.Meter(id); return err })
		wantCode(t, err, core.CodeNotFound)
	})
}

func TestUsageIsTheTenants(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		mine := w.create(core.SandboxSpec{Name: "lab"})
		theirs, err := w.svc.CreateSandbox(t.Context(), bob, core.SandboxSpec{Name: "lab"})
		if err != nil {
			t.Fatal(err)
		}
		w.pass(7 * time.Second)
		for _, ref := range []string{string(theirs.ID), core.NewID()} {
			_, err := w.svc.Usage(t.Context(), alice, control.UsageQuery{Sandbox: ref}, store.Page{Limit: 1})
			wantCode(t, err, core.CodeNotFound)
		}
		operator := alice
		operator.Admin = true
		for i, p := range []control.Principal{alice, operator} {
			want := i + 1
			page, err := w.svc.Usage(t.Context(), p, control.UsageQuery{ByTenant: true, BySandbox: true}, store.Page{Limit: 10})
			if err != nil || len(page.Rows) != want || page.Rows[0].Tenant != "alice" || page.Rows[0].Sandbox != mine.ID {
				t.Errorf("%+v is told %+v, %v", p, page, err)
			}
			page, err = w.svc.Usage(t.Context(), p, control.UsageQuery{}, store.Page{Limit: 10})
			if err != nil || len(page.Rows) != 1 || page.Rows[0].AwakeMillis != 7000 || page.To-page.From != 29 {
				t.Errorf("%+v is told of the own %+v, %v", p, page, err)
			}
		}
		for tenant, want := range map[core.TenantID]core.SandboxID{"alice": mine.ID, "bob": theirs.ID} {
			p, err := w.svc.ActFor(t.Context(), operator, string(tenant))
			if err != nil {
				t.Fatal(err)
			}
			page, err := w.svc.Usage(t.Context(), p, control.UsageQuery{ByTenant: true, BySandbox: true}, store.Page{Limit: 10})
			if err != nil || len(page.Rows) != 1 || page.Rows[0].Tenant != tenant || page.Rows[0].Sandbox != want {
				t.Errorf("an operator who names %s is told %+v, %v", tenant, page, err)
			}
		}
		if err := w.svc.DeleteSandbox(t.Context(), bob, "lab"); err != nil {
			t.Fatal(err)
		}
		w.pass(48 * time.Hour) // the record is forgotten, not what it used
		w.wantUsed(theirs, 7, 7)
	})
}
