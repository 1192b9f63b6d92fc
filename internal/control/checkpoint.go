package control

import (
	"context"
	"time"
	"unicode/utf8"

	"shoal/internal/core"
	"shoal/internal/store"
)

// checkpoints makes, shows and changes checkpoints. Its exported methods are Service's; checkpointmake.go has the making, and
// checkpointkeep.go what becomes of them afterwards.
type checkpoints struct {
	*finder
	once    *once
	keeping *checkpointKeeping
}

// errNoCheckpoint is the answer about what is no checkpoint, or not the caller's.
var errNoCheckpoint = core.Errorf(core.CodeNotFound, "no such checkpoint")

// findCheckpoint returns a checkpoint of the caller's. Every use case that takes one finds it here: who has a key for some sandboxes sees
// those of sandboxes that had its labels then.
func (p Principal) findCheckpoint(r store.Reader, id core.CheckpointID) (core.Checkpoint, error) {
	if err := p.needKey(); err != nil {
		return core.Checkpoint{}, err
	}
	c, err := r.Checkpoint(p.Tenant, id)
	if err == nil && !hasLabels(c.Labels, p.Labels) {
		return core.Checkpoint{}, errNoCheckpoint
	}
	return c, err
}

// GetCheckpoint finds a checkpoint.
func (c *checkpoints) GetCheckpoint(ctx context.Context, p Principal, id core.CheckpointID) (rec core.Checkpoint, err error) {
	if err := p.may("GetCheckpoint"); err != nil {
		return rec, err
	}
	err = c.store.View(ctx, func(r store.Reader) error {
		rec, err = p.findCheckpoint(r, id)
		return err
	})
	return rec, err
}

// CheckpointQuery asks for checkpoints.
type CheckpointQuery struct {
	// Sandbox, if it is not empty, is the one that they were made of: by id or name, or by id one that is gone.
	Sandbox string
	Causes  []core.CheckpointCause
}

// ListCheckpoints returns a page of the tenant's checkpoints, newest first.
func (c *checkpoints) ListCheckpoints(
	ctx context.Context, p Principal, q CheckpointQuery, page store.Page,
) (list []core.Checkpoint, next string, err error) {
	if err := p.may("ListCheckpoints"); err != nil {
		return nil, "", err
	}
	if err := p.needKey(); err != nil {
		return nil, "", err
	}
	f := store.CheckpointFilter{Causes: q.Causes, Labels: p.Labels}
	err = c.store.View(ctx, func(r store.Reader) error {
		var gone error
		if q.Sandbox != "" {
			sb, err := p.find(r, q.Sandbox)
			f.Sandbox, gone = sb.ID, err
			if core.IsCode(err, core.CodeNotFound) && core.IsID(q.Sandbox) {
				f.Sandbox, err = core.SandboxID(q.Sandbox), nil
			}
			if err != nil {
				return err
			}
		}
		list, next, err = r.ListCheckpoints(p.Tenant, f, page)
		if err == nil && len(list) == 0 {
			return gone // Of a sandbox that is gone there is something to show, or it is as if it had never been.
		}
		return err
	})
	return list, next, err
}

// CheckpointPatch changes what is said of a checkpoint. A nil field is left as it is.
type CheckpointPatch struct {
	Comment *string
	// TTL counts from now; zero takes the end away.
	TTL *time.Duration
}

// UpdateCheckpoint changes what is said of a checkpoint.
func (c *checkpoints) UpdateCheckpoint(
	ctx context.Context, p Principal, id core.CheckpointID, patch CheckpointPatch,
) (rec core.Checkpoint, err error) {
	if err := p.may("UpdateCheckpoint"); err != nil {
		return rec, err
	}
	if patch.Comment != nil {
		if err := checkComment(*patch.Comment); err != nil {
			return rec, err
		}
	}
	if patch.TTL != nil && *patch.TTL < 0 {
		return rec, core.Invalid("ttl_seconds", "a ttl can't be negative")
	}
	now := c.clock.Now()
	err = c.store.Update(ctx, func(tx store.Tx) error {
		if rec, err = p.findCheckpoint(tx, id); err != nil {
			return err
		}
		if patch.Comment != nil {
			rec.Comment = *patch.Comment
		}
		if patch.TTL != nil {
			rec.ExpiresAt = endAfter(now, *patch.TTL)
		}
		return tx.PutCheckpoint(rec)
	})
	c.keeping.lookAgain()
	return rec, err
}

// DeleteCheckpoint makes a checkpoint gone for every caller, durably, and returns; its files are removed in the background, as far as no
// other checkpoint and no sandbox has them.
func (c *checkpoints) DeleteCheckpoint(ctx context.Context, p Principal, id core.CheckpointID) error {
	if err := p.may("DeleteCheckpoint"); err != nil {
		return err
	}
	return c.keeping.remove(ctx, p.Actor, "", func(r store.Reader) ([]core.Checkpoint, error) {
		rec, err := p.findCheckpoint(r, id)
		if err != nil {
			return nil, err
		}
		free, err := notRestored(r, []core.Checkpoint{rec})
		if err == nil && len(free) == 0 {
			err = &core.Error{Code: core.CodeConflict, Message: "its sandbox is being restored to it: try again when that has ended", RetryAfter: time.Second}
		}
		return free, err
	})
}

// endAfter is when a ttl ends that begins now; the zero time if there is none.
func endAfter(now time.Time, ttl time.Duration) time.Time {
	if ttl == 0 {
		return time.Time{}
	}
	return now.Add(ttl)
}

// checkComment refuses a comment that can't be kept.
func checkComment(s string) error {
	if !utf8.ValidString(s) || len(s) > core.MaxCheckpointComment {
		return core.Invalid("comment", "a comment is text of at most %d bytes", core.MaxCheckpointComment)
	}
	return nil
}

// checkCheckpoint refuses what can't be made, and fills in what was left out.
func checkCheckpoint(spec core.CheckpointSpec) (core.CheckpointSpec, error) {
	switch spec.Kind {
	case "":
		spec.Kind = core.CheckpointDisk
	case core.CheckpointDisk:
	case core.CheckpointFull:
		return spec, &core.Error{Code: core.CodeUnsupported, Field: "kind", Message: "checkpoints with memory are not there yet: kind disk holds the files"}
	default:
		return spec, core.Invalid("kind", "a checkpoint's kind is disk")
	}
	switch {
	case spec.TTL < 0:
		return spec, core.Invalid("ttl_seconds", "a ttl can't be negative")
	case spec.KeepLast < 0 || spec.KeepLast > core.MaxKeepLast:
		return spec, core.Invalid("keep_last", "from 1 to %d checkpoints can be kept", core.MaxKeepLast)
	}
	return spec, checkComment(spec.Comment)
}
