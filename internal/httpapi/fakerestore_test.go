package httpapi_test

import (
	"context"

	"shoal/internal/control"
	"shoal/internal/core"
)

// RestoreSandbox starts a sandbox anew, with the checkpoint as its head.
func (f *fakeControl) RestoreSandbox(_ context.Context, p control.Principal, ref string, spec control.RestoreSpec) (control.Restored, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["RestoreSandbox"]; err != nil {
		return control.Restored{}, err
	}
	i, err := f.find(p, ref)
	if err != nil {
		return control.Restored{}, err
	}
	found, err := f.again(p, "restore", spec.Once)
	if err != nil {
		return control.Restored{}, err
	}
	saved := core.CheckpointID(found.op.ID)
	if saved == "" && !spec.Discard {
		saved = core.CheckpointID(f.id("c"))
		f.made(p, "restore", spec.Once, fakeCall{op: core.Operation{ID: core.OperationID(saved)}})
	}
	f.sandboxes[i].Become(core.StateRunning, f.now)
	f.sandboxes[i].Head = spec.Checkpoint
	f.sandboxes[i].Incarnation++
	return control.Restored{Sandbox: f.sandboxes[i], Saved: saved}, nil
}

// ResetSandbox is RestoreSandbox to no checkpoint.
func (f *fakeControl) ResetSandbox(ctx context.Context, p control.Principal, ref string, spec control.RestoreSpec) (control.Restored, error) {
	return f.RestoreSandbox(ctx, p, ref, spec)
}
