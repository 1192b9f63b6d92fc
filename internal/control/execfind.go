package control

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"shoal/internal/core"
	"shoal/internal/store"
)

// ExecSelector names an exec by its process id inside the sandbox, by its tag, or by both.
type ExecSelector struct {
	PID int
	Tag string
}

// String says what is looked for.
func (by ExecSelector) String() string {
	var parts []string
	if by.PID != 0 {
		parts = append(parts, "process id "+strconv.Itoa(by.PID))
	}
	if by.Tag != "" {
		parts = append(parts, "tag "+strconv.Quote(clip(by.Tag)))
	}
	return strings.Join(parts, " and ")
}

func (by ExecSelector) check() error {
	switch {
	case by.PID < 0:
		return core.Invalid("pid", "a process id is above 0")
	case by.PID == 0 && by.Tag == "":
		return core.Invalid("pid", "say which exec: by its pid or its tag")
	}
	return checkTag(by.Tag)
}

// FindExec finds an exec of a sandbox by process id or tag, also one that has ended and is still on record. If several have it,
// a running one wins, then the newest. It returns the record; GetExec has the live figures too.
func (s *Service) FindExec(ctx context.Context, p Principal, ref string, by ExecSelector) (core.Exec, error) {
	if err := p.may("FindExec"); err != nil {
		return core.Exec{}, err
	}
	if err := by.check(); err != nil {
		return core.Exec{}, err
	}
	sb, err := s.used(ctx, p, ref)
	if err != nil {
		return core.Exec{}, err
	}
	e, err := s.records.find(ctx, sb, by)
	if err == nil && e.PID == 0 && e.Outcome == core.OutcomeRunning {
		e = s.records.grown(ctx, e)
	}
	if core.IsCode(err, core.CodeNotFound) {
		err = core.Errorf(core.CodeNotFound, "no exec of this sandbox has %s", by)
	}
	return e, err
}

// find looks for an exec where its process id may be known: among those that have just started, in the records, and, for what
// a server started that was then killed, at the guest agent.
func (x *execRecords) find(ctx context.Context, sb core.Sandbox, by ExecSelector) (core.Exec, error) {
	// This comes before the records are looked at: an exec leaves it when its record has the process id.
	young, isYoung := x.young.find(sb.ID, by.PID)
	var e core.Exec
	var nameless bool
	err := x.store.View(ctx, func(r store.Reader) (err error) {
		if isYoung {
			if e, err = r.Exec(sb.ID, young); err == nil && (by.Tag == "" || by.Tag == e.Spec.Tag) {
				e.PID = by.PID
				return nil
			}
		}
		e, err = r.FindExec(sb.ID, store.ExecKey(by))
		if by.PID == 0 || (err == nil && e.Outcome == core.OutcomeRunning) {
			return err
		}
		open, openErr := r.OpenExecs(sb.ID)
		for _, o := range open {
			nameless = nameless || o.PID == 0
		}
		if openErr != nil {
			return openErr
		}
		return err
	})
	if nameless && (err == nil || core.IsCode(err, core.CodeNotFound)) {
		if found, ok := x.ask(ctx, sb, by); ok {
			return found, nil
		}
	}
	return e, err
}

// grown gives an exec the process id that its record did not have yet.
func (x *execRecords) grown(ctx context.Context, e core.Exec) core.Exec {
	if pid, ok := x.young.pid(e.ID); ok {
		e.PID = pid
		return e
	}
	// It may have been written since.
	err := x.store.View(ctx, func(r store.Reader) error {
		again, err := r.Exec(e.Sandbox, e.ID)
		if err == nil {
			e = again
		}
		return err
	})
	if err != nil {
		x.log.DebugContext(ctx, "read the record of an exec again", slog.String("exec_id", string(e.ID)), slog.Any("err", err))
	}
	return e
}

// ask looks for a running exec at the guest agent, among those whose records have no process id yet.
func (x *execRecords) ask(ctx context.Context, sb core.Sandbox, by ExecSelector) (found core.Exec, ok bool) {
	g, err := x.node.Guest(sb.ID)
	if err != nil {
		return found, false
	}
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	lives, err := g.ListExecs(ctx)
	if err != nil {
		return found, false
	}
	for _, live := range lives {
		if live.PID != by.PID || live.Outcome != core.OutcomeRunning {
			continue
		}
		err := x.store.View(ctx, func(r store.Reader) error {
			found, err = r.Exec(sb.ID, live.ID)
			return err
		})
		if err == nil && found.Outcome == core.OutcomeRunning && (by.Tag == "" || by.Tag == found.Spec.Tag) {
			found.PID = live.PID
			return found, true
		}
	}
	return core.Exec{}, false
}

// young holds the process ids of execs that have started and whose records don't say so yet. That lasts for moments, and a
// caller who was told a process id may ask for it at once.
type young struct {
	mu sync.Mutex
	by map[process]core.ExecID
	// pids is by turned round.
	pids map[core.ExecID]int
}

// process is a process inside a sandbox.
type process struct {
	sandbox core.SandboxID
	pid     int
}

func newYoung() *young { return &young{by: map[process]core.ExecID{}, pids: map[core.ExecID]int{}} }

func (y *young) add(e core.Exec) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.by[process{e.Sandbox, e.PID}] = e.ID
	y.pids[e.ID] = e.PID
}

func (y *young) remove(e core.Exec) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if p := (process{e.Sandbox, e.PID}); y.by[p] == e.ID {
		delete(y.by, p)
	}
	delete(y.pids, e.ID)
}

func (y *young) pid(id core.ExecID) (int, bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	pid, ok := y.pids[id]
	return pid, ok
}

func (y *young) find(sandbox core.SandboxID, pid int) (core.ExecID, bool) {
	if pid == 0 {
		return "", false
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	id, ok := y.by[process{sandbox, pid}]
	return id, ok
}
