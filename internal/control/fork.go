package control

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// forking forks sandboxes: it makes a checkpoint of one, and others from it. Its exported method is Service's; forkrecord.go has what is
// written.
//
// One transaction records the checkpoint and all of the new sandboxes before anything is done, and one makes them all usable: until then, and
// after a crash, whatever there is of them is undone. The source is held back by it only while the checkpoint is made.
type forking struct {
	*finder
	once        *once
	checkpoints *checkpoints
	creation    *creation
	lifecycle   *lifecycle
	nodeID      core.NodeID
}

// fork is one that is under way.
type fork struct {
	p      Principal
	source core.SandboxID
	saved  core.Checkpoint
	// all are the new sandboxes, which have the same limits; env is what each gets beside its source's.
	all  []core.Sandbox
	each core.Resources
	env  map[string]string
	turn *turn
}

// ForkSandbox makes new sandboxes of the files that a sandbox has at one moment, in any state in which it has files, and returns them when
// they all run. If it fails, or the caller goes away first, there is none of them. With spec.Once a repeat returns what the first call made.
func (x *forking) ForkSandbox(ctx context.Context, p Principal, ref string, spec core.ForkSpec) ([]core.Sandbox, error) {
	if err := p.may("ForkSandbox"); err != nil {
		return nil, err
	}
	if err := p.needKey(); err != nil {
		return nil, err
	}
	if err := checkFork(spec); err != nil {
		return nil, err
	}
	turn, err := x.once.begin(ctx, p, "forks of "+ref, spec.Once)
	if err != nil {
		return nil, err
	}
	defer turn.over()
	if list, done, err := x.before(ctx, p, turn); done || err != nil {
		return list, err
	}
	sb, err := x.settled(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	release, err := x.activity.hold(ctx, sb.ID, core.UseOperation)
	if err != nil {
		return nil, err
	}
	defer release()
	f, err := x.plan(ctx, p, sb, spec)
	if err != nil {
		return nil, err
	}
	f.turn = turn
	list, err := x.make(ctx, f)
	if err != nil {
		return nil, err
	}
	return list, failpoint.Hit(failpoint.ControlForkCommitted)
}

// checkFork refuses what can't be forked.
func checkFork(spec core.ForkSpec) error {
	switch {
	case spec.Kind == core.CheckpointFull:
		return &core.Error{Code: core.CodeUnsupported, Field: "kind", Message: "forks with memory are not there yet: kind disk has the files"}
	case spec.Kind != "" && spec.Kind != core.CheckpointDisk:
		return core.Invalid("kind", "a fork's kind is disk")
	case spec.Count < 1 || spec.Count > core.MaxForks:
		return core.Invalid("count", "a call forks 1 to %d sandboxes", core.MaxForks)
	case len(spec.Names) > 0 && len(spec.Names) != spec.Count:
		return core.Invalid("names", "there are %d names for %d sandboxes: give each one its own, or a name_prefix", len(spec.Names), spec.Count)
	}
	for i, name := range spec.Names {
		if err := core.CheckName("names", name); err != nil {
			return err
		}
		if slices.Contains(spec.Names[:i], name) {
			return core.Invalid("names", "two of the sandboxes would have the name %q", name)
		}
	}
	return nil
}

// before returns what an earlier call with the key made, and whether there is anything.
func (x *forking) before(ctx context.Context, p Principal, t *turn) (list []core.Sandbox, done bool, err error) {
	if t == nil || t.found == nil {
		return nil, false, nil
	}
	err = x.store.View(ctx, func(r store.Reader) error {
		list, err = r.Forks(t.found.Checkpoint)
		return err
	})
	switch {
	case err != nil:
		return nil, false, err
	case len(list) == 0 || !p.sees(list[0]):
		return nil, false, errForgotten
	case list[0].StartedAt.IsZero() && list[0].State == core.StateDeleted:
		return nil, false, nil // that call failed, and left nothing
	case list[0].StartedAt.IsZero():
		return nil, false, core.Errorf(core.CodeUnavailable, "an earlier call with this key is being undone")
	}
	for i := range list {
		x.activity.show(&list[i])
	}
	t.repeated()
	return list, true, nil
}

// plan is what a fork is to make of a sandbox.
func (x *forking) plan(ctx context.Context, p Principal, sb core.Sandbox, spec core.ForkSpec) (*fork, error) {
	now := x.clock.Now()
	limits, err := x.limitsOf(ctx, p)
	if err != nil {
		return nil, err
	}
	f := &fork{p: p, source: sb.ID, env: spec.Each.Env, saved: core.Checkpoint{
		ID: core.CheckpointID(core.NewID()), Tenant: sb.Tenant, Sandbox: sb.ID, Kind: core.CheckpointDisk, State: core.CheckpointCreating,
		Cause: core.CauseFork, CreatedAt: now, WrittenBytes: -1,
	}}
	each := spec.Each
	each.Name, each.Template, each.From = "", "", f.saved.ID
	each.Resources = limits.inherit(each.Resources, sb.Resources)
	each.Env = inheritedEnv(sb.Env, f.env)
	each, ttl, err := limits.apply(each, now)
	if err == nil {
		each.Labels, err = p.labeled(each.Labels)
	}
	if err != nil {
		return nil, err
	}
	f.each = each.Resources
	for i := range spec.Count {
		if len(spec.Names) > 0 {
			each.Name = spec.Names[i]
		}
		one := newSandbox(p, each, originOf(f.saved), x.nodeID, now.Add(time.Duration(i))) // so that they are in an order
		one.Parent = sb.ID
		if ttl > 0 {
			one.ExpiresAt = now.Add(ttl)
		}
		f.all = append(f.all, one)
	}
	return f, nil
}

// inheritedEnv is a source's environment with what a caller sets over it.
func inheritedEnv(from, over map[string]string) map[string]string {
	env := maps.Clone(from)
	if env == nil {
		return over
	}
	maps.Copy(env, over)
	return env
}

// make makes what is planned.
func (x *forking) make(ctx context.Context, f *fork) ([]core.Sandbox, error) {
	work, of := errgroup.WithContext(ctx)
	turns, err := x.begin(ctx, of, f)
	if err != nil {
		return nil, err
	}
	defer turns.end()
	x.waiters.wake(f.p.Tenant)
	if err = failpoint.Hit(failpoint.ControlForkRecorded); err == nil {
		err = x.save(turns.source, f) //nolint:contextcheck // a delete of the source ends it too
	}
	if err != nil && turns.source.Err() != nil && ctx.Err() == nil { // nothing else ends it
		err = core.Wrap(core.CodeConflict, err, "the sandbox was deleted while it was being forked")
	}
	turns.endSource()
	if err == nil {
		err = x.start(work, turns, f) //nolint:contextcheck // each start has the context of its own turn
	}
	if err == nil {
		err = failpoint.Hit(failpoint.ControlForkNodeDone)
	}
	if err == nil && ctx.Err() != nil { // nobody would hear of it
		err = core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
	}
	if err == nil {
		err = x.alive(f)
	}
	if err == nil {
		err = x.commit(context.WithoutCancel(ctx), f)
	}
	if err == nil {
		err = x.alive(f) // A machine that ended before the commit told so when there was nothing to mark as failed.
	}
	if err != nil {
		return nil, x.abandon(context.WithoutCancel(ctx), f, err)
	}
	x.settledAll(ctx, f)
	return f.all, nil
}

// forkTurns are the turns of all sandboxes that a fork has to do with.
type forkTurns struct {
	// source is ended by a delete of the source; of has one for each new sandbox, ended by a delete of that.
	source    context.Context
	endSource func()
	of        []context.Context
	done      []func()
}

func (t *forkTurns) end() {
	t.endSource()
	for _, done := range t.done {
		done()
	}
}

// begin takes the source's turn, has the node promise what the new sandboxes need, and makes the intent durable. Their turns are taken before
// anyone can know them, so that a delete comes after.
func (x *forking) begin(ctx, each context.Context, f *fork) (*forkTurns, error) {
	source, done, err := x.commands.begin(ctx, f.source)
	if err != nil {
		return nil, err
	}
	turns := &forkTurns{source: source, endSource: sync.OnceFunc(done)}
	if err := x.reserve(ctx, f); err != nil {
		turns.end()
		return nil, err
	}
	for _, sb := range f.all {
		of, done, err := x.commands.begin(each, sb.ID)
		if err != nil {
			x.release(f)
			turns.end()
			return nil, err
		}
		turns.of, turns.done = append(turns.of, of), append(turns.done, done)
	}
	if err := x.record(ctx, f); err != nil {
		x.release(f)
		turns.end()
		return nil, err
	}
	return turns, nil
}

// reserve has the node promise what all of them need. Whoever is over the quota is refused before; record decides.
func (x *forking) reserve(ctx context.Context, f *fork) error {
	err := x.store.View(ctx, func(r store.Reader) error {
		return x.quotas.takeAll(r, f.p.Tenant, f.saved.CreatedAt, f.each, len(f.all))
	})
	if err != nil {
		return err
	}
	ids := make([]core.SandboxID, len(f.all))
	for i, sb := range f.all {
		ids[i] = sb.ID
	}
	return x.node.ReserveAll(ctx, ids, f.each)
}

func (x *forking) release(f *fork) {
	for _, sb := range f.all {
		x.node.Release(sb.ID)
	}
}

// save has the node make the checkpoint, and lets the source go on.
func (x *forking) save(ctx context.Context, f *fork) error {
	tree, err := x.node.Checkpoint(ctx, f.saved.ID, f.source)
	if err != nil {
		return err
	}
	x.log.InfoContext(ctx, "fork", slog.String("sandbox_id", string(f.source)), slog.String("checkpoint_id", string(f.saved.ID)),
		slog.Int("count", len(f.all)), slog.Duration("held", tree.Held))
	f.saved.Origin, f.saved.WrittenBytes = tree.Origin, tree.WrittenBytes
	if err := x.recordSaved(context.WithoutCancel(ctx), f); err != nil {
		return err
	}
	return failpoint.Hit(failpoint.ControlForkSaved)
}

// start has the node make every sandbox. The first that fails ends the others.
func (x *forking) start(work *errgroup.Group, turns *forkTurns, f *fork) error {
	for i, sb := range f.all {
		work.Go(func() error { return x.makeInTurn(turns.of[i], nodeSpec(sb, *sb.Config)) })
	}
	return work.Wait()
}

// alive looks whether they all run.
func (x *forking) alive(f *fork) error {
	for _, sb := range f.all {
		if _, err := x.node.Guest(sb.ID); err != nil {
			return err
		}
	}
	return nil
}

// settledAll tells whom it concerns that they run.
func (x *forking) settledAll(ctx context.Context, f *fork) {
	x.waiters.wake(f.p.Tenant)
	x.lifecycle.lookAgain()
	for _, sb := range f.all {
		if sb.CountsUse() {
			x.activity.reload(ctx, sb.ID)
		}
	}
}

// abandon records that a fork came to nothing, and has what is left of it removed. It returns the error for the caller. What can't be
// written now is written later.
func (x *forking) abandon(ctx context.Context, f *fork, cause error) error {
	var gone bool
	undo := func(ctx context.Context) (err error) {
		gone, err = x.undo(ctx, f, cause)
		return err
	}
	err := undo(ctx)
	switch {
	case err == nil && gone:
		return core.Wrap(core.CodeConflict, cause, "one of the new sandboxes was deleted while they were made: none of them is there")
	case err != nil:
		failed := func(err error) {
			x.log.Error("record a fork that failed: will be tried again", slog.String("sandbox_id", string(f.source)), slog.Any("err", err))
		}
		failed(err)
		x.persist(undo, failed)
	}
	return cause
}
