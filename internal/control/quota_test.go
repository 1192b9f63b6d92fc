package control_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func ptr[T any](v T) *T { return &v }

// limit gives alice a quota of her own.
func (w *world) limit(q core.Quota) {
	w.t.Helper()
	w.change(func(tx store.Tx) error {
		t, err := tx.Tenant("alice")
		t.Quota = q
		return errors.Join(err, tx.PutTenant(t))
	})
}

// TestQuotaUnderRace: of 100 creates at once, as many as the quota allows succeed.
func TestQuotaUnderRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	const most = 7
	w.limit(core.Quota{Sandboxes: ptr(int64(most))})
	errs := make([]error, 100)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{}) })
	}
	all.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
			continue
		}
		if e := wantCode(t, err, core.CodeQuota); e.Field != "quota.sandboxes" || e.RetryAfter != 0 ||
			e.Message != "the tenant's quota: it has 7 of 7 sandboxes, and this takes 1 more" {
			t.Fatalf("refused by %+v", e)
		}
	}
	if made != most {
		t.Errorf("%d were made, want %d", made, most)
	}
	if _, err := w.svc.CreateSandbox(t.Context(), bob, core.SandboxSpec{}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

// TestOverQuotaReservesNothing: whoever may have no more takes none of the node's room by asking for it, not for a moment.
func TestOverQuotaReservesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.limit(core.Quota{Sandboxes: ptr(int64(1)), MemoryBytes: ptr(sb.Resources.MemoryBytes)})
	var asked atomic.Int64
	w.node.onReserve = func() { asked.Add(1) }
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{})
	wantCode(t, err, core.CodeQuota)
	_, err = w.resize(sb, core.Resources{MemoryBytes: 2 * sb.Resources.MemoryBytes})
	wantCode(t, err, core.CodeQuota)
	if n := asked.Load(); n != 0 {
		t.Errorf("the node was asked for room %d times", n)
	}
}

// TestDeleteFreesAPlaceAtOnce: a tenant at its quota makes another sandbox as soon as the delete of one is acknowledged, though
// the machine isn't removed yet.
func TestDeleteFreesAPlaceAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	w.limit(core.Quota{Sandboxes: ptr(int64(1)), MemoryBytes: ptr(int64(512 << 20)), VCPUs: ptr(1.0)})
	sb := w.create(core.SandboxSpec{})
	for range 10 {
		_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{})
		wantCode(t, err, core.CodeQuota)
		w.node.mu.Lock()
		w.node.deleteErr = append(w.node.deleteErr, core.Errorf(core.CodeUnavailable, "not yet"))
		w.node.mu.Unlock()
		if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
			t.Fatal(err)
		}
		sb = w.create(core.SandboxSpec{})
	}
}

// TestQuotas: each bound holds, says what is used and how much there is, and leaves nothing behind.
func TestQuotas(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		quota   core.Quota
		field   string
		message string
	}{
		"vcpus": {
			core.Quota{VCPUs: ptr(1.5)},
			"quota.vcpus",
			"the tenant's quota: it has 1 of 1.5 vcpus in sandboxes that run, and this takes 1 more",
		},
		"memory": {
			core.Quota{MemoryBytes: ptr(int64(1000 << 20))},
			"quota.memory_bytes",
			"the tenant's quota: it has 512M of 1000M of memory in sandboxes that run, and this takes 512M more",
		},
		"rate": {
			core.Quota{CreatesPerMinute: ptr(int64(1))},
			"quota.creates_per_minute",
			"the tenant's quota: it may begin 1 sandboxes a minute, and has begun 1 in the last one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).start().ready()
			w.create(core.SandboxSpec{})
			w.limit(tc.quota)
			_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{})
			if e := wantCode(t, err, core.CodeQuota); e.Field != tc.field || e.Message != tc.message {
				t.Errorf("refused by %+v", e)
			}
			w.node.mu.Lock()
			defer w.node.mu.Unlock()
			if len(w.node.reserved) != 1 {
				t.Errorf("%d are reserved", len(w.node.reserved))
			}
		})
	}
	t.Run("disk without a limit", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t).start().ready()
		w.limit(core.Quota{DiskBytes: ptr(int64(1 << 30))})
		_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{})
		if e := wantCode(t, err, core.CodeInvalid); e.Field != "disk_bytes" {
			t.Errorf("refused by %+v", e)
		}
	})
}

// TestCreateRate: how long to wait is told, and it helps.
func TestCreateRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	w.limit(core.Quota{CreatesPerMinute: ptr(int64(2))})
	w.create(core.SandboxSpec{})
	w.clock.advance(20 * time.Second)
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(w.create(core.SandboxSpec{}).ID)); err != nil {
		t.Fatal(err)
	}
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{})
	e := wantCode(t, err, core.CodeQuota)
	if e.RetryAfter != 40*time.Second {
		t.Errorf("wait %s", e.RetryAfter)
	}
	w.clock.advance(e.RetryAfter - time.Millisecond)
	_, err = w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{})
	wantCode(t, err, core.CodeQuota)
	w.clock.advance(time.Millisecond)
	w.create(core.SandboxSpec{})
}

// TestTenantCeilings: what one sandbox may have is the least of the server's and the tenant's, and defaults stay below.
func TestTenantCeilings(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	w.limit(core.Quota{MaxVCPUs: ptr(0.5), MaxMemoryBytes: ptr(int64(256 << 20)), MaxTTL: ptr(time.Minute)})
	sb := w.create(core.SandboxSpec{})
	if sb.Resources.VCPUs != 0.5 || sb.Resources.MemoryBytes != 256<<20 || sb.ExpiresAt.Sub(sb.CreatedAt) != time.Minute {
		t.Errorf("the defaults give %+v until %v", sb.Resources, sb.ExpiresAt)
	}
	for field, spec := range map[string]core.SandboxSpec{
		"vcpus":        {Resources: core.Resources{VCPUs: 1}},
		"memory_bytes": {Resources: core.Resources{MemoryBytes: 512 << 20}},
		"ttl_seconds":  {TTL: time.Hour},
	} {
		_, err := w.svc.CreateSandbox(t.Context(), alice, spec)
		if e := wantCode(t, err, core.CodeInvalid); e.Field != field {
			t.Errorf("%s: refused by %+v", field, e)
		}
	}
}

// TestServersQuota: what a tenant's quota says nothing of is as the server has it.
func TestServersQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.quota = core.Quota{Sandboxes: ptr(int64(1))}
	w.start().ready()
	w.create(core.SandboxSpec{})
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{})
	wantCode(t, err, core.CodeQuota)
	w.limit(core.Quota{Sandboxes: ptr(int64(0)), VCPUs: ptr(100.0)})
	w.create(core.SandboxSpec{})
}

// TestExpiredKeysTakeNoPlace: a key that has expired is listed still, and counts no more.
func TestExpiredKeysTakeNoPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	admin.Tenant = "alice"
	w.limit(core.Quota{Keys: ptr(int64(2))})
	w.keyOf(admin, core.KeySpec{})
	w.keyOf(admin, core.KeySpec{ExpiresIn: time.Minute})
	_, _, err := w.svc.NewKey(t.Context(), admin, core.KeySpec{})
	if e := wantCode(t, err, core.CodeQuota); e.Field != "quota.keys" {
		t.Errorf("refused by %+v", e)
	}
	w.clock.advance(time.Minute)
	w.keyOf(admin, core.KeySpec{})
	list, _, err := w.svc.ListKeys(t.Context(), admin, store.Page{Limit: 10})
	if err != nil || len(list) != 3 {
		t.Errorf("%d keys are listed, %v", len(list), err)
	}
	if state, err := w.svc.Quota(t.Context(), admin); err != nil || state.Use.Keys != 2 {
		t.Errorf("it uses %+v, %v", state.Use, err)
	}
}

// TestExecQuota: of many execs at once, in several sandboxes, as many as the quota allows run; the end of one makes room for another.
func TestExecQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	boxes := []core.Sandbox{w.create(core.SandboxSpec{}), w.create(core.SandboxSpec{})}
	w.limit(core.Quota{Execs: ptr(int64(5))})
	begin := func(i int) (core.Exec, error) {
		e, _, err := w.svc.Exec(t.Context(), alice, string(boxes[i%2].ID), core.ExecSpec{Shell: "serve", Detach: true})
		return e, err
	}
	var all sync.WaitGroup
	var execs [40]core.Exec
	var errs [40]error
	for i := range execs {
		all.Go(func() { execs[i], errs[i] = begin(i) })
	}
	all.Wait()
	ran := -1
	count := 0
	for i, err := range errs {
		if err == nil {
			ran = i
			count++
			continue
		}
		if e := wantCode(t, err, core.CodeQuota); e.Field != "quota.execs" || e.Message != "the tenant's quota: it has 5 of 5 execs that run, and this takes 1 more" {
			t.Fatalf("refused by %+v", e)
		}
	}
	if count != 5 {
		t.Fatalf("%d run, want 5", count)
	}
	if err := w.node.guest(execs[ran].Sandbox).finish(execs[ran].ID, core.Exec{Outcome: core.OutcomeExited, ExitCode: new(int)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is room for one", func() bool { w.clock.advance(time.Second); _, err := begin(0); return err == nil })
	_, err := begin(1)
	wantCode(t, err, core.CodeQuota)
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(boxes[0].ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := begin(1); err != nil {
		t.Errorf("those of a deleted sandbox count: %v", err)
	}
}
