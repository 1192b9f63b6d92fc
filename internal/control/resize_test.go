package control_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

const mib = 1 << 20

// resize changes limits.
func (w *world) resize(sb core.Sandbox, r core.Resources) (core.Sandbox, error) {
	w.t.Helper()
	return w.svc.UpdateSandbox(w.t.Context(), alice, string(sb.ID), control.SandboxPatch{Resources: control.ResourcesPatch(r)})
}

// holds asserts that record, machine and reservation have the same limits, and that nothing is under way.
func (w *world) holds(sb core.Sandbox, want core.Resources) {
	w.t.Helper()
	got, err := w.svc.GetSandbox(w.t.Context(), alice, string(sb.ID))
	if err != nil || got.Resources != want || got.Operation != core.OpNone || got.State != core.StateRunning {
		w.t.Errorf("on record: %+v %s %q %v, want %+v", got.Resources, got.State, got.Operation, err, want)
	}
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	if got := w.node.running[sb.ID].Resources; got != want {
		w.t.Errorf("the machine has %+v, want %+v", got, want)
	}
	if got := w.node.reserved[sb.ID]; got != want {
		w.t.Errorf("reserved are %+v, want %+v", got, want)
	}
}

// resized returns what the events of a sandbox's changes say of memory, with the codes of those that were taken back.
func (w *world) resized(sb core.Sandbox) string {
	w.t.Helper()
	list, _, err := w.svc.Events(w.t.Context(), alice, string(sb.ID), 0, 1000, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		if e.Type == core.EventSandboxResized {
			out = append(out, strings.TrimSpace(e.Data["vcpus"]+"x"+e.Data["memory_bytes"]+" "+e.Data["code"]))
		}
	}
	return strings.Join(out, ", ")
}

func TestResize(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	want := core.Resources{VCPUs: 1, MemoryBytes: 512 * mib, Pids: 341, OpenFiles: 65536, CPUWeight: 100, IOWeight: 100}
	w.holds(sb, want)
	for _, r := range []core.Resources{
		{MemoryBytes: 1024 * mib, VCPUs: 2}, {MemoryBytes: 256 * mib}, {VCPUs: 0.5, Pids: 100, OpenFiles: 2048, CPUWeight: 10, IOWeight: 20},
	} {
		got, err := w.resize(sb, r)
		if err != nil {
			t.Fatal(err)
		}
		if want = control.ResourcesPatch(r).Over(want); got.Resources != want || got.Operation != core.OpNone {
			t.Errorf("the reply has %+v %q, want %+v", got.Resources, got.Operation, want)
		}
		w.holds(sb, want)
	}
	if got := w.resized(sb); got != "2x1073741824, 2x268435456, 0.5x268435456" {
		t.Errorf("events say %q", got)
	}
	// With limits come other fields, and what is wrong with one of them leaves all as it was.
	labels := map[string]string{"a": "b"}
	patch := control.SandboxPatch{Labels: &labels, Resources: control.ResourcesPatch{VCPUs: 3}}
	got, err := w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), patch)
	if want.VCPUs = 3; err != nil || got.Labels["a"] != "b" {
		t.Errorf("labels are %v: %v", got.Labels, err)
	}
	w.holds(sb, want)
	persistent := true
	patch = control.SandboxPatch{Persistent: &persistent, Resources: control.ResourcesPatch{VCPUs: 400}}
	_, err = w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), patch)
	if e := wantCode(t, err, core.CodeInvalid); e.Field != "vcpus" {
		t.Errorf("it blames %q", e.Field)
	}
	w.holds(sb, want)
}

func TestResizeRefused(t *testing.T) {
	t.Parallel()
	memory := int64(2048 * mib)
	w := newWorld(t)
	w.quota.MemoryBytes = &memory
	w.start().ready()
	sb, other := w.create(core.SandboxSpec{}), w.create(core.SandboxSpec{})
	want := sb.Resources
	for name, tc := range map[string]struct {
		r     core.Resources
		code  core.Code
		field string
	}{
		"above the ceiling": {core.Resources{MemoryBytes: 100 << 30}, core.CodeInvalid, "memory_bytes"},
		"too little":        {core.Resources{MemoryBytes: mib}, core.CodeInvalid, "memory_bytes"},
		"too many pids":     {core.Resources{Pids: 5000}, core.CodeInvalid, "pids"},
		"too few files":     {core.Resources{OpenFiles: 3}, core.CodeInvalid, "open_files"},
		"too heavy":         {core.Resources{CPUWeight: 101}, core.CodeInvalid, "cpu_weight"},
		"too much disk":     {core.Resources{IOWeight: 101}, core.CodeInvalid, "io_weight"},
		"a disk":            {core.Resources{DiskBytes: 1 << 30}, core.CodeUnsupported, "disk_bytes"},
		"above the quota":   {core.Resources{MemoryBytes: 1537 * mib}, core.CodeQuota, "quota.memory_bytes"},
	} {
		_, err := w.resize(sb, tc.r)
		if e := wantCode(t, err, tc.code); e.Field != tc.field {
			t.Errorf("%s: it blames %q", name, e.Field)
		}
	}
	w.holds(sb, want)
	// What the quota has left is there to be taken, once.
	if _, err := w.resize(sb, core.Resources{MemoryBytes: 1536 * mib}); err != nil {
		t.Error(err)
	}
	_, err := w.resize(other, core.Resources{MemoryBytes: 513 * mib})
	wantCode(t, err, core.CodeQuota)
	_, err = w.svc.UpdateSandbox(t.Context(), bob, string(sb.ID), control.SandboxPatch{Resources: control.ResourcesPatch{VCPUs: 2}})
	wantCode(t, err, core.CodeNotFound)
	w.node.crash(sb.ID)
	eventually(t, "it has failed", func() bool {
		got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
		return err == nil && got.State == core.StateFailed
	})
	_, err = w.resize(sb, core.Resources{VCPUs: 2})
	wantCode(t, err, core.CodeConflict)
}

// TestResizeFails: what the node can't do is taken back, with an event that says so.
func TestResizeFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.node.onResize = func(_ context.Context, r core.Resources, _ bool) error {
		if r.MemoryBytes == 128*mib {
			return core.Errorf(core.CodeConflict, "the sandbox uses 300 MiB")
		}
		return nil
	}
	_, err := w.resize(sb, core.Resources{MemoryBytes: 128 * mib})
	if e := wantCode(t, err, core.CodeConflict); !strings.Contains(e.Message, "300 MiB") {
		t.Errorf("it says %q", e.Message)
	}
	w.holds(sb, sb.Resources)
	if got := w.resized(sb); got != "1x134217728, 1x536870912 conflict" {
		t.Errorf("events say %q", got)
	}
}

// TestResizeIsTakenBack: when the node has changed the limits and that can't be recorded, the record says so until the node has changed
// them back, however often that fails at first.
func TestResizeIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	admin, _ := adminOf(w)
	admin.Tenant = alice.Tenant
	labels := map[string]string{"team": "a"}
	_, p := w.keyOf(admin, core.KeySpec{Labels: labels})
	sb, err := w.svc.CreateSandbox(t.Context(), p, core.SandboxSpec{})
	if err != nil {
		t.Fatal(err)
	}
	var free atomic.Bool
	w.node.onResize = func(_ context.Context, _ core.Resources, force bool) error {
		if force && !free.Load() {
			return errors.New("busy")
		}
		if force {
			return nil
		}
		// Meanwhile the sandbox becomes one that the key is not for.
		_, err := w.svc.UpdateSandbox(context.Background(), alice, string(sb.ID), control.SandboxPatch{Labels: &map[string]string{}})
		return err
	}
	_, err = w.svc.UpdateSandbox(t.Context(), p, string(sb.ID), control.SandboxPatch{Resources: control.ResourcesPatch{MemoryBytes: 1024 * mib}})
	wantCode(t, err, core.CodeNotFound)
	got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
	if err != nil || got.Operation != core.OpResize || got.Resources.MemoryBytes != 1024*mib {
		t.Errorf("the machine has 1 GiB, on record are %d MiB and %q, %v", got.Resources.MemoryBytes/mib, got.Operation, err)
	}
	free.Store(true)
	eventually(t, "it is taken back", func() bool {
		w.clock.advance(time.Minute)
		got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
		return err == nil && got.Operation == core.OpNone
	})
	w.holds(sb, sb.Resources)
}

// TestResizeAndDelete: a delete that comes in the middle is answered at once and wins.
func TestResizeAndDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	begun, end := make(chan struct{}), make(chan struct{})
	w.node.onResize = func(context.Context, core.Resources, bool) error {
		close(begun)
		<-end
		return nil
	}
	result := make(chan error)
	go func() {
		_, err := w.svc.UpdateSandbox(context.Background(), alice, string(sb.ID), control.SandboxPatch{Resources: control.ResourcesPatch{VCPUs: 2}})
		result <- err
	}()
	<-begun
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Error(err)
	}
	_, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
	wantCode(t, err, core.CodeNotFound)
	close(end)
	wantCode(t, <-result, core.CodeNotFound)
	eventually(t, "it is gone", func() bool { return w.node.count() == 0 })
}

// TestResizeOfStoppedCutOff: so it is of one that doesn't run.
func TestResizeOfStoppedCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.stop(sb)
	_ = w.svc.Close()
	w.change(func(tx store.Tx) error {
		sb, err := tx.SandboxByID(sb.ID)
		if err != nil {
			return err
		}
		sb.Resources.MemoryBytes = 256 * mib
		sb.Begin(core.OpResize, w.clock.Now())
		return tx.PutSandbox(sb)
	})
	w.node.onResize = func(context.Context, core.Resources, bool) error {
		t.Error("the node was asked")
		return nil
	}
	w.start()
	eventually(t, "the change is settled", func() bool { return w.lookUp(sb.ID).Operation == core.OpNone })
	if got := w.lookUp(sb.ID); got.State != core.StateStopped || got.Resources.MemoryBytes != 256*mib {
		t.Errorf("it is %+v", got)
	}
	w.wake(sb)
}

// TestResizeCutOff: after a crash in the middle the limits are those of the record, and another change is possible.
func TestResizeCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	_ = w.svc.Close()
	want := sb.Resources
	want.MemoryBytes = 256 * mib
	w.change(func(tx store.Tx) error {
		sb, err := tx.SandboxByID(sb.ID)
		if err != nil {
			return err
		}
		sb.Resources, sb.Operation, sb.OperationSince = want, core.OpResize, w.clock.Now()
		return tx.PutSandbox(sb)
	})
	var free atomic.Bool
	w.node.onResize = func(_ context.Context, _ core.Resources, force bool) error {
		if !force {
			t.Error("what has been decided is not forced")
		}
		if !free.Load() {
			return errors.New("busy")
		}
		return nil
	}
	w.start()
	_, err := w.resize(sb, core.Resources{VCPUs: 2})
	wantCode(t, err, core.CodeConflict)
	free.Store(true)
	eventually(t, "the change is settled", func() bool {
		w.clock.advance(time.Minute)
		got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
		return err == nil && got.Operation == core.OpNone
	})
	w.holds(sb, want)
	w.node.onResize = nil
	if _, err := w.resize(sb, core.Resources{VCPUs: 2}); err != nil {
		t.Error(err)
	}
}
