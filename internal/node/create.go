package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/failpoint"
	"shoal/internal/guest/wire"
	"shoal/internal/runtime"
)

// undoTimeout bounds the removal of what a failed create has begun; what it can't remove in time, Sweep removes.
const undoTimeout = 30 * time.Second

// Create clones its source's tree and starts a sandbox whose guest agent has answered.
func (n *Node) Create(ctx context.Context, spec core.NodeSpec) error {
	done, err := n.turns.take(ctx, spec.Sandbox)
	if err != nil {
		return err
	}
	defer done()
	if !n.admission.has(spec.Sandbox) {
		return core.Errorf(core.CodeInternal, "the sandbox has no reservation")
	}
	e, known, err := n.journal.get(spec.Sandbox)
	if err != nil || known {
		return n.createAgain(e, spec, err)
	}
	defer n.machines.beginStart(spec.Sandbox, spec.Incarnation)()
	err = n.launch(ctx, spec, launch{
		phase: phaseCreating, tree: n.newTree, journaled: failpoint.NodeCreateJournaled, hasTree: failpoint.NodeCreateCloned,
		attached: failpoint.NodeCreateAttached, runDir: failpoint.NodeCreateRunDir, isolated: failpoint.NodeCreateIsolated,
		started: failpoint.NodeCreateStarted, configured: failpoint.NodeCreateConfigured, ready: failpoint.NodeCreateReady,
	})
	if err != nil {
		return n.undoCreate(ctx, spec.Sandbox, err)
	}
	return nil
}

// launch is how a sandbox comes to run: what the journal says meanwhile, and where its tree comes from. The other fields name the failpoint after
// each step.
type launch struct {
	phase                                                                      phase
	tree                                                                       func(ctx context.Context, d disk.Driver, spec core.NodeSpec) (root string, err error)
	journaled, hasTree, attached, runDir, isolated, started, configured, ready string
}

// launch writes the intent, makes every part, and writes that it is done. Its caller undoes it.
func (n *Node) launch(ctx context.Context, spec core.NodeSpec, l launch) error {
	e := entryOf(spec)
	e.Phase, e.At = l.phase, n.cfg.Clock.Now()
	if err := n.journal.put(e); err != nil {
		return journalError(err)
	}
	if err := failpoint.Hit(l.journaled); err != nil {
		return err
	}
	m, err := n.build(ctx, spec, l)
	if err != nil {
		return err
	}
	e.Phase = phaseRunning
	if err = n.journal.put(e); err != nil {
		err = journalError(err)
	} else {
		err = failpoint.Hit(l.ready)
	}
	if err == nil && !n.machines.put(m) {
		err = core.Errorf(core.CodeUnavailable, "the sandbox ended right after it was started")
	}
	if err != nil {
		m.guest.Close()
	}
	return err
}

// entryOf is what the journal says of a sandbox, but for its phase.
func entryOf(spec core.NodeSpec) entry {
	return entry{
		Sandbox: spec.Sandbox, Tenant: spec.Tenant, Incarnation: spec.Incarnation, Epoch: spec.Epoch,
		Template: spec.Template, Resources: spec.Resources,
	}
}

// createAgain answers a create of a sandbox that the journal knows. damaged is why its entry can't be read, if so.
func (n *Node) createAgain(e entry, spec core.NodeSpec, damaged error) error {
	if damaged == nil && e.Phase == phaseRunning && e.Incarnation == spec.Incarnation {
		if _, err := n.machines.get(spec.Sandbox); err == nil {
			return nil
		}
	}
	return core.Wrap(core.CodeConflict, damaged, "the node has remains of this sandbox: delete it first")
}

// undoCreate removes what a create has begun and returns why it failed, as the caller's cancel if it was that.
func (n *Node) undoCreate(ctx context.Context, id core.SandboxID, cause error) error {
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if err := n.teardown(undo, id); err != nil {
		n.log.Warn("undo of a create left something for the next sweep", slog.String("sandbox_id", string(id)), slog.Any("err", err))
	}
	if ctx.Err() != nil {
		return interrupted(ctx, cause, "the create")
	}
	return cause
}

// build makes every part of a sandbox and returns its machine, whose agent has answered.
func (n *Node) build(ctx context.Context, spec core.NodeSpec, l launch) (*machine, error) {
	runDir, err := n.runDirs.make(spec.Sandbox)
	if err == nil {
		err = failpoint.Hit(l.runDir)
	}
	if err != nil {
		return nil, err
	}
	p := n.beginParts(ctx, spec, l)
	defer p.end()
	err = n.cfg.Runtime.Create(ctx, runtime.Spec{
		ID: spec.Sandbox, Incarnation: spec.Incarnation, Parts: p.get, RunDir: runDir,
		Hostname: spec.Hostname, Resources: spec.Resources,
	})
	if err == nil {
		err = failpoint.Hit(l.isolated)
	}
	if err != nil {
		return nil, fmt.Errorf("create sandbox: %w", err)
	}
	if err = n.cfg.Runtime.Start(ctx, spec.Sandbox); err == nil {
		err = failpoint.Hit(l.started)
	}
	if err != nil {
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	m := n.newMachine(spec.Sandbox, spec.Incarnation)
	if err = n.configureWhenReady(ctx, m, identityOf(spec)); err == nil {
		err = failpoint.Hit(l.configured)
	}
	if err != nil {
		m.guest.Close()
		return nil, fmt.Errorf("configure guest agent: %w", err)
	}
	return m, nil
}

func identityOf(spec core.NodeSpec) wire.Identity {
	return wire.Identity{
		Sandbox: string(spec.Sandbox), Incarnation: spec.Incarnation, Hostname: spec.Hostname, Env: spec.Env,
		User: spec.Config.User, Workdir: spec.Config.Workdir, TemplateEnv: spec.Config.Env,
		Limits: guestLimits(spec.Resources),
	}
}
