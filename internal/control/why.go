package control

import (
	"cmp"
	"context"
	"slices"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// Why says why a sandbox is as it is, what comes next, what it takes and what would be lost.
type Why struct {
	At      time.Time
	Sandbox core.Sandbox
	// Uses are those of its uses that go on, by their kind.
	Uses []UseNow
	// Execs are those that run, the oldest first. Only their ids, process ids, tags and starts are to be shown: what they run may hold secrets.
	Execs []core.Exec
	// Rules are all of its rules, in the order in which they act.
	Rules []core.ScheduledRule
	// Metrics is nil if it doesn't run, or nobody can tell.
	Metrics *core.SandboxMetrics
	// Kept is the newest checkpoint that is left when it is deleted; nil if there is none.
	Kept *core.Checkpoint
	// KeptBytes is what it keeps of its own writes; -1 if nobody can tell.
	KeptBytes int64
}

// UseNow is how many use a sandbox in one way, and since when the first of them does.
type UseNow struct {
	Kind  core.UseKind
	Count int
	Since time.Time
}

// whys tells why. Its method is Service's.
type whys struct {
	*finder
	// sizes tells what sandboxes keep; nil if nobody can.
	sizes core.TreeSizes
}

// Why tells why a sandbox is as it is. Asking is no use of it.
func (x *whys) Why(ctx context.Context, p Principal, ref string) (w Why, err error) {
	if err := p.may("Why"); err != nil {
		return w, err
	}
	err = x.store.View(ctx, func(r store.Reader) error {
		if w.Sandbox, err = p.find(r, ref); err != nil {
			return err
		}
		if w.Execs, err = r.OpenExecs(w.Sandbox.ID); err != nil {
			return err
		}
		list, err := r.CheckpointsOf(w.Sandbox.ID)
		if i := slices.IndexFunc(list, outlives); i >= 0 {
			w.Kept = &list[i]
		}
		return err
	})
	if err != nil {
		return Why{}, err
	}
	w.At = x.clock.Now()
	x.activity.show(&w.Sandbox)
	w.Uses = x.activity.uses(w.Sandbox.ID)
	w.Rules = core.Schedule(w.Sandbox)
	w.KeptBytes = x.kept(ctx, w.Sandbox.ID)
	if w.Sandbox.State == core.StateRunning {
		w.Metrics = x.metrics(ctx, w.Sandbox.ID)
	}
	return w, nil
}

// outlives reports whether a checkpoint is left when its sandbox is deleted.
func outlives(c core.Checkpoint) bool {
	return c.State == core.CheckpointReady && c.Cause == core.CauseCall
}

// kept is what a sandbox keeps of its own writes; -1 if nobody can tell.
func (x *whys) kept(ctx context.Context, id core.SandboxID) int64 {
	if x.sizes == nil {
		return -1
	}
	bytes, err := x.sizes.KeptBytes(ctx, id)
	if err != nil {
		return -1
	}
	return bytes
}

// metrics are what a sandbox uses; nil if nothing of it answers.
func (x *whys) metrics(ctx context.Context, id core.SandboxID) *core.SandboxMetrics {
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	m, err := x.node.Metrics(ctx, id)
	if err != nil {
		return nil
	}
	return &m
}

// uses returns who uses a sandbox now.
func (a *activity) uses(id core.SandboxID) []UseNow {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.by[id]
	if u == nil {
		return nil
	}
	by := map[core.UseKind]UseNow{}
	for h := range u.open {
		n, ok := by[h.what]
		if !ok || h.since.Before(n.Since) {
			n.Since = h.since
		}
		n.Kind, n.Count = h.what, n.Count+1
		by[h.what] = n
	}
	list := make([]UseNow, 0, len(by))
	for _, n := range by {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b UseNow) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Kind, b.Kind)) })
	return list
}

// InUse reports whether somebody is there whose use holds off rules on idle.
func (w Why) InUse() bool { return len(w.Uses) > 0 }
