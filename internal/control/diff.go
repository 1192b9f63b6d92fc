package control

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/diff/credential"
	"shoal/internal/store"
)

const (
	// diffTime bounds one comparison, the wait for its turn included.
	diffTime = 5 * time.Minute
	// diffPlaces is how many run at once: each reads the disk as fast as it can.
	diffPlaces = 2
	// tenantDiffPlaces is how many of them are one tenant's: another's are not to wait for all of them.
	tenantDiffPlaces = 1
	// diffMargin is how much earlier than two sandboxes' records their trees may have parted: clocks of files go in steps.
	diffMargin = time.Second
)

// AgainstTemplate asks for the template that the sandbox started from.
const AgainstTemplate = "template"

// differing tells what is different in sandboxes.
type differing struct {
	*finder
	room *gate
}

// DiffQuery asks what is different in a sandbox.
type DiffQuery struct {
	// Against is what was before: AgainstTemplate, which is the default, a checkpoint's id, or another sandbox's id or name.
	Against string
	// The rest is as in core.TreeDiffQuery.
	Path, After   string
	Limit         int
	Expand, Hunks bool
}

// Diff is what is different in a sandbox.
type Diff struct {
	core.TreeDiff
	Sandbox core.SandboxID
	// Against is what was before.
	Against core.TreeRef
	// At is when it was looked at.
	At time.Time
	// Running is what runs in the sandbox and listens; nil where NotRunning says why that is not told. It is told with the first page only.
	Running    *core.ProcessList
	NotRunning string
}

// DiffSandbox tells what is different in a sandbox's files from those of its template, a checkpoint or another sandbox, and what runs in it.
func (d *differing) DiffSandbox(ctx context.Context, p Principal, ref string, q DiffQuery) (Diff, error) {
	if err := p.may("DiffSandbox"); err != nil {
		return Diff{}, err
	}
	sb, err := d.settled(ctx, p, ref)
	if err != nil {
		return Diff{}, err
	}
	if err := hasTree(sb); err != nil {
		return Diff{}, err
	}
	against, shared, err := d.against(ctx, p, sb, q.Against)
	if err != nil {
		return Diff{}, err
	}
	release, err := d.activity.hold(ctx, sb.ID, core.UseFileRead)
	if err != nil {
		return Diff{}, err
	}
	defer release()
	return d.compare(ctx, sb, core.TreeDiffQuery{
		Sandbox: sb.ID, Against: against, SharedBefore: shared, Path: q.Path, After: q.After, Limit: q.Limit, Expand: q.Expand, Hunks: q.Hunks,
	})
}

// compare waits for its turn and looks.
func (d *differing) compare(ctx context.Context, sb core.Sandbox, q core.TreeDiffQuery) (Diff, error) {
	ctx, cancel := context.WithTimeout(ctx, diffTime)
	defer cancel()
	leave, err := d.room.enter(ctx, sb.Tenant, d.tasks.stop.Done())
	if err != nil {
		return Diff{}, err
	}
	defer leave()
	out := Diff{Sandbox: sb.ID, Against: q.Against, At: d.clock.Now()}
	if out.TreeDiff, err = d.node.Diff(ctx, q); err != nil {
		return Diff{}, err
	}
	if q.After == "" {
		d.lookInside(ctx, sb, &out)
	}
	return out, nil
}

// lookInside adds what runs, without what looks like credentials in command lines.
func (d *differing) lookInside(ctx context.Context, sb core.Sandbox, out *Diff) {
	if sb.State != core.StateRunning {
		out.NotRunning = "the sandbox is " + string(sb.State)
		return
	}
	g, err := d.node.Guest(sb.ID)
	var list core.ProcessList
	if err == nil {
		list, err = g.Processes(ctx)
	}
	switch {
	case core.IsCode(err, core.CodeUnsupported):
		out.NotRunning = "the sandbox's guest agent is of an older release, which can't tell: a stop and a wake give it this one's"
		return
	case err != nil:
		d.log.Info("processes of a sandbox are not told", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
		out.NotRunning = publicMessage(err)
		return
	}
	for i, p := range list.Processes {
		masked, kinds := credential.Mask(p.Command)
		list.Processes[i].Command = masked
		for _, kind := range kinds {
			if len(out.Credentials) >= core.MaxDiffCredentials {
				out.MoreCredentials++
				continue
			}
			out.Credentials = append(out.Credentials, core.CredentialFinding{Kind: kind, PID: p.PID})
		}
	}
	out.Running = &list
}

// hasTree refuses a sandbox that has no files on the node.
func hasTree(sb core.Sandbox) error {
	switch sb.State {
	case core.StateRunning, core.StateFrozen, core.StateStandby, core.StateStopped, core.StateFailed:
		return nil
	case core.StateCreating, core.StateHibernated, core.StateDeleted:
	}
	return core.Errorf(core.CodeConflict, "the sandbox is %s: its files are not here to be compared", sb.State)
}

// against finds what a sandbox is held against, and until when both had one history.
func (d *differing) against(ctx context.Context, p Principal, sb core.Sandbox, ref string) (tree core.TreeRef, shared time.Time, err error) {
	now := d.clock.Now()
	if ref == "" || ref == AgainstTemplate {
		return core.TreeRef{Kind: core.TreeTemplate, ID: string(sb.Template)}, now, nil
	}
	err = d.store.View(ctx, func(r store.Reader) error {
		if core.IsID(ref) {
			c, err := p.findCheckpoint(r, core.CheckpointID(ref))
			if err == nil {
				tree, shared, err = againstCheckpoint(r, sb, c, now)
				return err
			}
			if !core.IsCode(err, core.CodeNotFound) && p.Sandbox == "" {
				return err
			}
		}
		other, err := p.find(r, ref)
		if core.IsCode(err, core.CodeNotFound) {
			return &core.Error{Code: core.CodeNotFound, Field: "against", Message: "no such checkpoint or sandbox"}
		}
		if err != nil {
			return err
		}
		if other.ID == sb.ID {
			return core.Invalid("against", "a sandbox is not held against itself")
		}
		tree = core.TreeRef{Kind: core.TreeSandbox, ID: string(other.ID)}
		if other.Template == sb.Template {
			shared = parted(sb.CreatedAt, other.CreatedAt)
		}
		return hasTree(other)
	})
	return tree, shared, err
}

// againstCheckpoint says until when a sandbox and a checkpoint had one history. If it is the sandbox's own, or one that its files
// descend from, nobody has written to both at one time, and files with the same times are the same.
func againstCheckpoint(r store.Reader, sb core.Sandbox, c core.Checkpoint, now time.Time) (core.TreeRef, time.Time, error) {
	tree := core.TreeRef{Kind: core.TreeCheckpoint, ID: string(c.ID)}
	switch {
	case c.State != core.CheckpointReady:
		return tree, now, core.Errorf(core.CodeConflict, "the checkpoint is %s", c.State)
	case c.Sandbox == sb.ID, c.ID == sb.Head, c.ID == sb.Source:
		return tree, now, nil
	case c.Template != sb.Template:
		return tree, time.Time{}, nil
	}
	origin, err := r.SandboxByID(c.Sandbox)
	if core.IsCode(err, core.CodeNotFound) {
		return tree, time.Time{}, nil // nobody knows when it was made
	}
	return tree, parted(sb.CreatedAt, origin.CreatedAt), err
}

// parted is until when two trees that were cloned from one can't have been written.
func parted(a, b time.Time) time.Time {
	if b.Before(a) {
		a = b
	}
	return a.Add(-diffMargin)
}
