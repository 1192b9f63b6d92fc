package control

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// createSandbox creates a sandbox for a call that may have a key.
func (s *Service) createSandbox(ctx context.Context, p Principal, spec core.SandboxSpec, turn *turn) (core.Sandbox, error) {
	now := s.clock.Now()
	limits, err := s.limitsOf(ctx, p)
	if err != nil {
		return core.Sandbox{}, err
	}
	saved, err := s.origins.checkpoint(ctx, p, spec)
	if err != nil {
		return core.Sandbox{}, err
	}
	spec.Resources = limits.inherit(spec.Resources, saved.Resources)
	spec, ttl, err := limits.apply(spec, now)
	if err == nil {
		spec.Labels, err = p.labeled(spec.Labels)
	}
	if err != nil {
		return core.Sandbox{}, err
	}
	from, err := s.origins.of(ctx, p, spec, saved)
	if err != nil {
		return core.Sandbox{}, err
	}
	sb := newSandbox(p, spec, from, s.nodeID, now)
	if ttl > 0 {
		sb.ExpiresAt = now.Add(ttl)
	}
	if err := s.creation.reserve(ctx, sb); err != nil {
		return core.Sandbox{}, err
	}
	// The turn is taken before anyone can know the sandbox: a delete then always comes after the create.
	cmd, done, err := s.commands.begin(ctx, sb.ID)
	if err == nil {
		defer done()
		err = s.creation.record(ctx, p, sb, turn)
	}
	if err != nil {
		s.node.Release(sb.ID)
		return core.Sandbox{}, err
	}
	s.waiters.wake(p.Tenant)
	if err = failpoint.Hit(failpoint.ControlCreateRecorded); err == nil {
		err = s.makeInTurn(cmd, nodeSpec(sb, from.config))
	}
	if err == nil {
		err = failpoint.Hit(failpoint.ControlCreateNodeDone)
	}
	if err == nil && ctx.Err() != nil { // nobody would hear of it
		err = core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
	}
	if err == nil {
		sb, err = s.creation.commit(context.WithoutCancel(ctx), p, sb)
	}
	if err == nil {
		// A machine that ended before the commit told so when there was nothing to mark as failed. After the commit it
		// would be marked.
		_, err = s.node.Guest(sb.ID)
	}
	if err != nil {
		return core.Sandbox{}, s.creation.abandon(context.WithoutCancel(ctx), p, sb, err)
	}
	s.waiters.wake(p.Tenant)
	s.lifecycle.lookAgain()
	if sb.CountsUse() {
		s.activity.reload(ctx, sb.ID)
	}
	return sb, failpoint.Hit(failpoint.ControlCreateCommitted)
}

// makeInTurn has the node make a sandbox when there is a place for it.
func (d *deps) makeInTurn(ctx context.Context, spec core.NodeSpec) error {
	leave, err := d.gate.enter(ctx, spec.Tenant, nil)
	if err != nil {
		return err
	}
	defer leave()
	return d.node.Create(ctx, spec)
}

func newSandbox(p Principal, spec core.SandboxSpec, from origin, node core.NodeID, now time.Time) core.Sandbox {
	sb := core.Sandbox{
		ID: core.SandboxID(core.NewID()), Tenant: p.Tenant, Name: spec.Name,
		State: core.StateCreating, StateSince: now, Operation: core.OpCreate, OperationSince: now, Incarnation: 1, Node: node, Epoch: 1,
		Persistent: spec.Persistent, Resources: spec.Resources, Env: spec.Env, Labels: spec.Labels, CreatedAt: now,
		Idle: spec.Idle, OnIdle: spec.OnIdle, Rules: spec.Rules,
	}
	from.mark(&sb)
	return sb
}

// nodeSpec is what the node is told: always made anew from the records.
func nodeSpec(sb core.Sandbox, config core.TemplateConfig) core.NodeSpec {
	hostname := sb.Name
	if hostname == "" {
		hostname = string(sb.ID)
	}
	return core.NodeSpec{
		Sandbox: sb.ID, Tenant: sb.Tenant, Incarnation: sb.Incarnation, Epoch: sb.Epoch, Template: sb.Template,
		Source: treeOf(sb), Config: config, Hostname: hostname, Resources: sb.Resources, Env: sb.Env,
	}
}

// creation writes what becomes of a create.
type creation struct {
	*deps
	removal *removal
	usage   *usage
}

// reserve has the node promise what a sandbox needs. Whoever is over the quota is refused before that, so that a tenant who may have no
// more takes nothing away from the others by asking; record decides.
func (c *creation) reserve(ctx context.Context, sb core.Sandbox) error {
	err := c.store.View(ctx, func(r store.Reader) error { return c.quotas.take(r, sb.Tenant, sb.CreatedAt, sb.Resources) })
	if err != nil {
		return err
	}
	return c.node.Reserve(ctx, sb.ID, sb.Resources)
}

// record makes the intent durable before anything is done. The caller's going away can't cut it in two.
func (c *creation) record(ctx context.Context, p Principal, sb core.Sandbox, turn *turn) error {
	return c.store.Update(context.WithoutCancel(ctx), func(tx store.Tx) error {
		if err := c.quotas.take(tx, sb.Tenant, sb.CreatedAt, sb.Resources); err != nil {
			return err
		}
		if err := stillThere(tx, sb); err != nil {
			return err
		}
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		if err := turn.record(tx, sb.ID, ""); err != nil {
			return err
		}
		return tellEvent(tx, sb, core.EventSandboxCreating, p.Actor, sb.CreatedAt, startFacts(sb))
	})
}

// startFacts are what the event of a create says of where the sandbox comes from.
func startFacts(sb core.Sandbox) map[string]string {
	facts := map[string]string{"template": sb.TemplateName}
	if sb.Source != "" {
		facts["from_checkpoint"] = string(sb.Source)
	}
	if sb.Parent != "" {
		facts["parent"] = string(sb.Parent)
	}
	return facts
}

// commit makes the sandbox running, unless a delete has come first.
func (c *creation) commit(ctx context.Context, p Principal, sb core.Sandbox) (core.Sandbox, error) {
	now := c.clock.Now()
	err := c.store.Update(ctx, func(tx store.Tx) error {
		current, err := c.run(tx, sb.ID, p.Actor, now)
		if err == nil {
			sb = current
		}
		return err
	})
	return sb, err
}

// run writes that a sandbox runs, unless a delete has come first.
func (c *creation) run(tx store.Tx, id core.SandboxID, actor core.Actor, now time.Time) (core.Sandbox, error) {
	sb, err := tx.SandboxByID(id)
	if err != nil {
		return sb, err
	}
	if sb.State == core.StateDeleted {
		return sb, core.Errorf(core.CodeCanceled, "the sandbox was deleted while it was being created")
	}
	next, _ := core.Next(sb.State, core.OpCreate)
	sb.Become(next.Success, now)
	sb.End()
	sb.StartedAt = now
	if sb.CountsUse() {
		sb.ActiveAt = now
	}
	if err := tx.PutSandbox(sb); err != nil {
		return sb, err
	}
	return sb, c.usage.begin(tx, sb, actor, now)
}

// abandon records that a create came to nothing, and has the node remove what it may still hold. It returns the error for
// the caller. A record that can't be written now is written later.
func (c *creation) abandon(ctx context.Context, p Principal, sb core.Sandbox, cause error) error {
	deleted, err := c.undo(ctx, p, sb, cause)
	if err != nil {
		c.log.Error("record a failed create", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
		c.persist(
			func(ctx context.Context) error { _, err := c.undo(ctx, p, sb, cause); return err },
			func(err error) {
				c.log.Warn("record a failed create: will be tried again", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
			})
		return cause
	}
	if deleted {
		return core.Wrap(core.CodeCanceled, cause, "the sandbox was deleted while it was being created")
	}
	return cause
}

// undo records the end of a failed create and starts the removal, unless a delete has done so: then deleted is true.
func (c *creation) undo(ctx context.Context, p Principal, sb core.Sandbox, cause error) (deleted bool, err error) {
	now := c.clock.Now()
	var unused []core.Checkpoint
	err = c.store.Update(ctx, func(tx store.Tx) error {
		current, err := tx.SandboxByID(sb.ID)
		if err != nil {
			deleted = core.IsCode(err, core.CodeNotFound)
			return goneIsDone(err)
		}
		if deleted = current.State == core.StateDeleted; deleted {
			return nil
		}
		if err := recordUndone(tx, current, p.Actor, now, cause); err != nil {
			return err
		}
		unused, err = recordUnused(tx, current, p.Actor, now)
		return err
	})
	if err == nil && !deleted {
		c.waiters.wake(p.Tenant)
		c.removal.finishSoon(sb.ID)
		c.removal.checkpoints.finishSoon(checkpointIDs(unused)...)
	}
	return deleted, err
}

// recordUndone makes a sandbox whose create has failed deleted, with the removal still to be done.
func recordUndone(tx store.Tx, sb core.Sandbox, actor core.Actor, now time.Time, cause error) error {
	sb.Become(core.StateDeleted, now)
	sb.Begin(core.OpDelete, now)
	sb.DeletedAt = now
	if err := tx.PutSandbox(sb); err != nil {
		return err
	}
	return appendEvent(tx, sb, core.EventSandboxDeleted, actor, now, map[string]string{
		"reason": "create failed", "code": string(core.CodeOf(cause)),
	})
}
