package control_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
)

func (w *world) diff(sb core.Sandbox, q control.DiffQuery) (control.Diff, error) {
	w.t.Helper()
	if q.Path == "" {
		q.Path, q.Limit = "/", 10
	}
	return w.svc.DiffSandbox(w.t.Context(), alice, string(sb.ID), q)
}

// TestDiffAgainst: what a sandbox is held against is the caller's own, and what is taken for one file is what can be.
func TestDiffAgainst(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	old := w.create(core.SandboxSpec{Name: "old"})
	w.clock.advance(time.Minute)
	sb := w.create(core.SandboxSpec{Name: "lab"})
	mine, theirs := w.save(sb, core.CheckpointSpec{}), w.save(old, core.CheckpointSpec{})
	now := w.clock.Now()
	before := old.CreatedAt.Add(-time.Second)
	for name, tc := range map[string]struct {
		against string
		want    core.TreeRef
		shared  time.Time
	}{
		"nothing":              {"", core.TreeRef{Kind: core.TreeTemplate, ID: string(sb.Template)}, now},
		"template":             {"template", core.TreeRef{Kind: core.TreeTemplate, ID: string(sb.Template)}, now},
		"its own checkpoint":   {string(mine.ID), core.TreeRef{Kind: core.TreeCheckpoint, ID: string(mine.ID)}, now},
		"another's checkpoint": {string(theirs.ID), core.TreeRef{Kind: core.TreeCheckpoint, ID: string(theirs.ID)}, before},
		"another sandbox":      {string(old.ID), core.TreeRef{Kind: core.TreeSandbox, ID: string(old.ID)}, before},
		"another, by its name": {"old", core.TreeRef{Kind: core.TreeSandbox, ID: string(old.ID)}, before},
	} {
		d, err := w.diff(sb, control.DiffQuery{Against: tc.against})
		q := w.node.last()
		if err != nil || d.Against != tc.want || q.Against != tc.want || !q.SharedBefore.Equal(tc.shared) || q.Sandbox != sb.ID {
			t.Errorf("%s: %+v, asked %+v, %v", name, d, q, err)
		}
	}
	bob := alice
	bob.Tenant = "bob"
	for _, against := range []string{"nobody", core.NewID(), string(w.createAs(bob).ID)} {
		_, err := w.diff(sb, control.DiffQuery{Against: against})
		if e := wantCode(t, err, core.CodeNotFound); e.Field != "against" {
			t.Errorf("%s: %v", against, err)
		}
	}
	_, err := w.diff(sb, control.DiffQuery{Against: "lab"})
	wantCode(t, err, core.CodeInvalid)
	if _, err := w.svc.DiffSandbox(t.Context(), bob, string(sb.ID), control.DiffQuery{}); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("of another tenant: %v", err)
	}
	// The holder of a sandbox's token sees it and its template, and nothing else.
	token := w.open(sb)
	if _, err := w.svc.DiffSandbox(t.Context(), token, string(sb.ID), control.DiffQuery{}); err != nil {
		t.Errorf("by its token: %v", err)
	}
	for _, against := range []string{"old", string(old.ID), string(mine.ID)} {
		_, err := w.svc.DiffSandbox(t.Context(), token, string(sb.ID), control.DiffQuery{Against: against})
		wantCode(t, err, core.CodeNotFound)
	}
}

// TestDiffTellsWhatRuns: processes and listeners of one that runs, without what looks like a credential, on the first page only.
func TestDiffTellsWhatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Persistent: true})
	const token = "ghp_q7Zk2VxN9bRt4WmPc8LdYs6HjFg3TnAe5UyKw"
	g := w.node.guest(sb.ID)
	g.processes = core.ProcessList{
		Processes: []core.Process{{PID: 9, Command: "curl -H " + token}, {PID: 8, Command: "sleep 1"}},
		Listeners: []core.Listener{{Proto: "tcp", Port: 80}},
	}
	d, err := w.diff(sb, control.DiffQuery{})
	if err != nil || d.Running == nil || len(d.Running.Processes) != 2 || len(d.Running.Listeners) != 1 || d.Running.Processes[0].Command != "curl -H [github_token]" {
		t.Fatalf("%+v, %v", d, err)
	}
	if len(d.Credentials) != 1 || d.Credentials[0].PID != 9 || strings.Contains(fmt.Sprintf("%+v", d), token) {
		t.Errorf("%+v", d.Credentials)
	}
	if d, err := w.diff(sb, control.DiffQuery{Path: "/", After: "/a", Limit: 1}); err != nil || d.Running != nil || d.NotRunning != "" {
		t.Errorf("a later page: %+v, %v", d, err)
	}
	g.processesErr = core.Errorf(core.CodeUnsupported, "what is this")
	if d, err = w.diff(sb, control.DiffQuery{}); err != nil || d.Running != nil || !strings.Contains(d.NotRunning, "older release") {
		t.Errorf("of an old guest agent: %+v, %v", d, err)
	}
	w.stop(sb)
	if d, err = w.diff(sb, control.DiffQuery{}); err != nil || d.Running != nil || d.NotRunning != "the sandbox is stopped" {
		t.Errorf("of one that is stopped: %+v, %v", d, err)
	}
}

// TestDiffTakesTurns: few comparisons run at once, and one of a tenant's, so that another's need not wait for it. Who goes away while waiting is not waited for, and it counts as use.
func TestDiffTakesTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	let, now := make(chan struct{}), make(chan core.SandboxID, 10)
	w.node.onDiff = func(ctx context.Context, q core.TreeDiffQuery) (core.TreeDiff, error) {
		now <- q.Sandbox
		<-let
		return core.TreeDiff{}, ctx.Err()
	}
	errs := make(chan error, 5)
	for range 4 {
		go func() {
			_, err := w.diff(sb, control.DiffQuery{})
			errs <- err
		}()
	}
	<-now
	theirs, err := w.svc.CreateSandbox(t.Context(), bob, core.SandboxSpec{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := w.svc.DiffSandbox(t.Context(), bob, string(theirs.ID), control.DiffQuery{})
		errs <- err
	}()
	if got := <-now; got != theirs.ID {
		t.Error("two of one tenant's run at once")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.svc.DiffSandbox(ctx, alice, string(sb.ID), control.DiffQuery{})
	wantCode(t, err, core.CodeCanceled)
	if len(now) > 0 {
		t.Error("more than two at once")
	}
	close(let)
	for range 5 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
