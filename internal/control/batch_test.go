package control_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
)

// batch creates a batch and returns the results in the order of its items.
func (w *world) batch(ctx context.Context, b control.Batch) ([]control.BatchResult, error) {
	var list []control.BatchResult
	err := w.svc.CreateSandboxes(ctx, alice, b, func(r control.BatchResult) error {
		list = append(list, r)
		return nil
	})
	slices.SortFunc(list, func(a, b control.BatchResult) int { return a.Index - b.Index })
	return list, err
}

func specs(n int, change func(i int, s *core.SandboxSpec)) []core.SandboxSpec {
	list := make([]core.SandboxSpec, n)
	for i := range list {
		if change != nil {
			change(i, &list[i])
		}
	}
	return list
}

func TestBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	var mu sync.Mutex
	now, most := 0, 0
	w.node.onCreate = func(_ context.Context, spec core.NodeSpec) error {
		mu.Lock()
		defer mu.Unlock()
		now++
		most = max(most, now)
		if spec.Env["FAIL"] != "" {
			return core.Errorf(core.CodeInternal, "it broke")
		}
		return nil
	}
	w.node.afterCreate = func(core.SandboxID) {
		mu.Lock()
		defer mu.Unlock()
		now--
	}
	list, err := w.batch(t.Context(), control.Batch{Specs: specs(60, func(i int, s *core.SandboxSpec) {
		if i == 7 {
			s.Env = map[string]string{"FAIL": "yes"}
		}
		if i == 9 {
			s.Template = "none"
		}
	})})
	if err != nil || len(list) != 60 {
		t.Fatalf("%d results, %v", len(list), err)
	}
	for i, r := range list {
		switch {
		case i == 7:
			wantCode(t, r.Err, core.CodeInternal)
		case i == 9:
			wantCode(t, r.Err, core.CodeNotFound)
		case r.Err != nil || r.Sandbox.State != core.StateRunning:
			t.Errorf("number %d: %s, %v", i, r.Sandbox.State, r.Err)
		}
	}
	if w.node.count() != 58 || most > 50 {
		t.Errorf("%d run, and %d were made at once", w.node.count(), most)
	}
	for _, n := range []int{0, control.MaxBatch + 1} {
		_, err := w.batch(t.Context(), control.Batch{Specs: specs(n, nil)})
		wantCode(t, err, core.CodeInvalid)
	}
}

// TestBatchFull: what has no room fails for itself, and leaves nothing.
func TestBatchFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	w.node.max = 5
	list, err := w.batch(t.Context(), control.Batch{Specs: specs(20, nil)})
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, r := range list {
		if r.Err != nil {
			wantCode(t, r.Err, core.CodeExhausted)
			failed++
		}
	}
	if failed != 15 || w.node.count() != 5 {
		t.Errorf("%d failed, %d run", failed, w.node.count())
	}
}

func TestBatchStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	list, err := w.batch(t.Context(), control.Batch{Stop: true, Specs: specs(500, func(i int, s *core.SandboxSpec) {
		if i == 3 {
			s.Template = "none"
		}
	})})
	if err != nil || len(list) != 500 {
		t.Fatalf("%d results, %v", len(list), err)
	}
	wantCode(t, list[3].Err, core.CodeNotFound)
	wantCode(t, list[499].Err, core.CodeCanceled)
	made := 0
	for _, r := range list {
		if r.Err == nil {
			made++
		}
	}
	if made != w.node.count() || made > 100 {
		t.Errorf("%d were made, %d run", made, w.node.count())
	}
}

// TestBatchIsLeft: when its caller goes away, what is under way is undone, the rest is not begun, and what was told stays.
func TestBatchIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.node.onCreate = func(ctx context.Context, spec core.NodeSpec) error {
		if spec.Env["WAIT"] != "" {
			<-ctx.Done()
		}
		return nil
	}
	told := 0
	err := w.svc.CreateSandboxes(ctx, alice, control.Batch{Specs: specs(100, func(i int, s *core.SandboxSpec) {
		if i >= 2 {
			s.Env = map[string]string{"WAIT": "yes"}
		}
	})}, func(r control.BatchResult) error {
		if told++; told == 2 {
			cancel()
		}
		return r.Err
	})
	wantCode(t, err, core.CodeCanceled)
	if told != 2 {
		t.Errorf("%d were told", told)
	}
	eventually(t, "what was under way is gone", func() bool { return w.node.count() == 2 })

	enough := errors.New("enough")
	err = w.svc.CreateSandboxes(t.Context(), alice, control.Batch{Specs: specs(100, nil)}, func(control.BatchResult) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}

// TestBatchOnce: a repeat tells what the first call made, and makes only the rest.
func TestBatchOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	w.node.max = 6
	b := control.Batch{Specs: specs(10, nil), Once: keyed("k")}
	first, err := w.batch(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.ready()
	w.node.max = 100
	second, err := w.batch(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range first {
		if second[i].Err != nil || first[i].Err == nil && first[i].Sandbox.ID != second[i].Sandbox.ID {
			t.Errorf("number %d was %s, %v, and is %s, %v", i, first[i].Sandbox.ID, first[i].Err, second[i].Sandbox.ID, second[i].Err)
		}
	}
	if w.node.count() != 10 {
		t.Errorf("%d run", w.node.count())
	}
	_, err = w.batch(t.Context(), control.Batch{Specs: specs(10, nil), Once: &core.Once{Key: "k", Digest: "other"}})
	wantCode(t, err, core.CodeConflict)
}

func TestGetOrCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	get := func(name string, spec core.SandboxSpec) (core.Sandbox, bool, error) {
		return w.svc.GetOrCreateSandbox(t.Context(), alice, name, spec)
	}
	spec := core.SandboxSpec{Template: "minimal", Env: map[string]string{"A": "1"}, Resources: core.Resources{VCPUs: 2}}
	first, created, err := get("a", spec)
	if err != nil || !created || first.Name != "a" {
		t.Fatalf("%+v, %v, %v", first, created, err)
	}
	for _, same := range []core.SandboxSpec{spec, {}, {Template: string(first.Template)}, {TTL: time.Minute, Labels: map[string]string{"x": "y"}}} {
		sb, created, err := get("a", same)
		if err != nil || created || sb.ID != first.ID || len(sb.Labels) != 0 {
			t.Errorf("%+v: %s, %v, %v", same, sb.ID, created, err)
		}
	}
	for field, other := range map[string]core.SandboxSpec{
		"template": {Template: "base"}, "vcpus": {Resources: core.Resources{VCPUs: 1}}, "memory_bytes": {Resources: core.Resources{MemoryBytes: 1 << 30}},
		"disk_bytes": {Resources: core.Resources{DiskBytes: 1 << 30}}, "pids": {Resources: core.Resources{Pids: 77}},
		"open_files": {Resources: core.Resources{OpenFiles: 77}}, "cpu_weight": {Resources: core.Resources{CPUWeight: 77}}, "io_weight": {Resources: core.Resources{IOWeight: 77}}, "env": {Env: map[string]string{"A": "2"}}, "persistent": {Persistent: true},
	} {
		_, _, err := get("a", other)
		if e := wantCode(t, err, core.CodeConflict); e.Field != field {
			t.Errorf("%s: it blames %q", field, e.Field)
		}
	}
	for _, name := range []string{"", "A", core.NewID()} {
		_, _, err := get(name, core.SandboxSpec{})
		wantCode(t, err, core.CodeInvalid)
	}
	// A name that a sandbox has which the caller doesn't see is not free, and not told.
	some := alice
	some.Labels = map[string]string{"team": "a"}
	_, _, err = w.svc.GetOrCreateSandbox(t.Context(), some, "a", core.SandboxSpec{})
	wantCode(t, err, core.CodeConflict)
	// One that has failed is of no use.
	w.node.crash(first.ID)
	eventually(t, "it has failed", func() bool {
		_, _, err := get("a", core.SandboxSpec{})
		return core.IsCode(err, core.CodeConflict)
	})
	if err := w.svc.DeleteSandbox(t.Context(), alice, "a"); err != nil {
		t.Fatal(err)
	}
	if sb, created, err := get("a", core.SandboxSpec{}); err != nil || !created || sb.ID == first.ID {
		t.Errorf("after the delete: %v, %v", created, err)
	}
}

// TestGetOrCreateRace: of many at once one creates, and the others get the same; while creates fail, one after the other tries.
func TestGetOrCreateRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	var mu sync.Mutex
	fails := 5
	w.node.onCreate = func(context.Context, core.NodeSpec) error {
		mu.Lock()
		defer mu.Unlock()
		if fails--; fails >= 0 {
			return core.Errorf(core.CodeInternal, "it broke")
		}
		return nil
	}
	const n = 40
	type answer struct {
		id      core.SandboxID
		created bool
		err     error
	}
	answers := make(chan answer, n)
	for range n {
		go func() {
			sb, created, err := w.svc.GetOrCreateSandbox(context.Background(), alice, "a", core.SandboxSpec{})
			answers <- answer{sb.ID, created, err}
		}()
	}
	seen, created, failed := map[core.SandboxID]bool{}, 0, 0
	for range n {
		a := <-answers
		switch {
		case core.IsCode(a.err, core.CodeInternal):
			failed++
		case a.err != nil:
			t.Error(a.err)
		default:
			seen[a.id] = true
		}
		if a.created {
			created++
		}
	}
	if len(seen) != 1 || created != 1 || failed != 5 || w.node.count() != 1 {
		t.Errorf("%d sandboxes, %d created, %d failed, %d run", len(seen), created, failed, w.node.count())
	}
}
