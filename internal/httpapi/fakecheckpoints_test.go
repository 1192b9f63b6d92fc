package httpapi_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// fakeCheckpoint is the one that every sandbox has.
func fakeCheckpoint() core.Checkpoint {
	return core.Checkpoint{
		ID: "c000000000000000000001", Tenant: "t1", Sandbox: "s000000000000000000001", Parent: "c000000000000000000002", Kind: core.CheckpointDisk,
		State: core.CheckpointReady, Cause: core.CauseCall, Comment: "good", Template: "t000000000000000000001", TemplateName: "base",
		Resources: core.Resources{VCPUs: 1, MemoryBytes: 512 << 20, DiskBytes: 1 << 30}, Labels: map[string]string{"a": "b"},
		CreatedAt: epoch, ExpiresAt: epoch.Add(time.Hour), WrittenBytes: 3 << 20,
	}
}

func (f *fakeControl) CreateCheckpoint(_ context.Context, p control.Principal, ref string, spec core.CheckpointSpec) (core.Checkpoint, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["CreateCheckpoint"]; err != nil {
		return core.Checkpoint{}, err
	}
	if spec.Kind == core.CheckpointFull {
		return core.Checkpoint{}, &core.Error{Code: core.CodeUnsupported, Field: "kind", Message: "not yet"}
	}
	if found, err := f.again(p, "checkpoint", spec.Once); err != nil || found.op.ID != "" {
		c := fakeCheckpoint()
		c.ID = core.CheckpointID(found.op.ID)
		return c, err
	}
	c := core.Checkpoint{
		ID: core.CheckpointID(f.id("c")), Sandbox: core.SandboxID(ref), Kind: core.CheckpointDisk, Cause: core.CauseCall, TemplateName: "base",
		Comment: fmt.Sprintf("%s, ttl %v, keep %d", spec.Comment, spec.TTL, spec.KeepLast), CreatedAt: epoch, WrittenBytes: -1,
	}
	f.made(p, "checkpoint", spec.Once, fakeCall{op: core.Operation{ID: core.OperationID(c.ID)}})
	return c, nil
}

func (f *fakeControl) GetCheckpoint(_ context.Context, _ control.Principal, id core.CheckpointID) (core.Checkpoint, error) {
	if c := fakeCheckpoint(); id == c.ID {
		return c, nil
	}
	return core.Checkpoint{}, core.Errorf(core.CodeNotFound, "no such checkpoint")
}

func (f *fakeControl) ListCheckpoints(
	_ context.Context, _ control.Principal, q control.CheckpointQuery, page store.Page,
) ([]core.Checkpoint, string, error) {
	if q.Sandbox == "nobody" {
		return nil, "", core.Errorf(core.CodeNotFound, "no such sandbox")
	}
	if len(q.Causes) > 0 && !slices.Contains(q.Causes, core.CauseCall) {
		return nil, "", nil
	}
	return paged([]core.Checkpoint{fakeCheckpoint(), {ID: "c000000000000000000002", Kind: core.CheckpointDisk, CreatedAt: epoch, WrittenBytes: -1}}, page)
}

func (f *fakeControl) UpdateCheckpoint(
	ctx context.Context, p control.Principal, id core.CheckpointID, patch control.CheckpointPatch,
) (core.Checkpoint, error) {
	c, err := f.GetCheckpoint(ctx, p, id)
	if patch.Comment != nil {
		c.Comment = *patch.Comment
	}
	if patch.TTL != nil {
		c.ExpiresAt = time.Time{}
		if *patch.TTL > 0 {
			c.ExpiresAt = epoch.Add(*patch.TTL)
		}
	}
	return c, err
}

func (f *fakeControl) DeleteCheckpoint(ctx context.Context, p control.Principal, id core.CheckpointID) error {
	_, err := f.GetCheckpoint(ctx, p, id)
	return err
}

func (f *fakeControl) DeleteSandboxWithCheckpoints(ctx context.Context, p control.Principal, ref string) error {
	if ref == "with" {
		return core.Errorf(core.CodeConflict, "the checkpoints would go too")
	}
	return f.DeleteSandbox(ctx, p, ref)
}
