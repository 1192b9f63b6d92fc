package control

import (
	"context"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// ofSandbox is the making of a template of a sandbox's files. It is not gone on with after a restart: the files would be others by then.
func (m *making) ofSandbox(p Principal, spec core.TemplateSpec) intended {
	var sb core.Sandbox
	var config core.TemplateConfig
	var name string
	rec := m.draft(p, spec)
	in := makeIntent{Tags: spec.Tags, Config: spec.Config}
	return intended{
		kind: core.WorkTemplateCreate,
		record: func(tx store.Tx, op *core.Operation) (err error) {
			if sb, err = p.find(tx, spec.Sandbox); err != nil {
				return err
			}
			if err := hasFiles(sb); err != nil {
				return err
			}
			if config, name, err = namedConfigOf(tx, sb); err != nil {
				return err
			}
			return m.record(tx, p, rec, op, map[string]string{"from_sandbox": string(sb.ID)})
		},
		do: func(ctx context.Context, op core.Operation, report func(core.OperationProgress)) (workResult, error) {
			return m.captured(ctx, op, in, sourceOf{sb.ID, name, config}, report)
		},
	}
}

// ofCheckpoint is the making of a template of a checkpoint's files. Nor is it gone on with after a restart.
func (m *making) ofCheckpoint(p Principal, spec core.TemplateSpec) intended {
	var from core.Checkpoint
	rec := m.draft(p, spec)
	in := makeIntent{Tags: spec.Tags, Config: spec.Config}
	return intended{
		kind: core.WorkTemplateCreate,
		record: func(tx store.Tx, op *core.Operation) (err error) {
			if from, err = p.findCheckpoint(tx, core.CheckpointID(spec.Checkpoint)); err != nil {
				return err
			}
			return m.record(tx, p, rec, op, map[string]string{"from_checkpoint": string(from.ID)})
		},
		do: func(ctx context.Context, op core.Operation, report func(core.OperationProgress)) (workResult, error) {
			ctx, cancel := context.WithTimeout(ctx, makeTime)
			defer cancel()
			report(core.OperationProgress{Step: "copying the checkpoint's files", Percent: -1})
			tree, err := m.node.CaptureTemplate(ctx, core.TemplateID(op.Target[targetTemplate]), core.TreeSource{Checkpoint: from.ID})
			if err == nil {
				err = failpoint.Hit(failpoint.ControlTemplateMade)
			}
			if core.IsCode(err, core.CodeNotFound) {
				err = core.Wrap(core.CodeConflict, err, "the checkpoint was deleted meanwhile")
			}
			if err != nil {
				return workResult{}, inTime(ctx, err)
			}
			return m.made(op, in, BuiltTemplate{
				Source:   "checkpoint " + string(from.ID) + " of sandbox " + string(from.Sandbox),
				Packages: tree.Packages,
				Config:   in.Config.Apply(from.Config),
			}, tree.TreeInfo), nil
		},
	}
}

// sourceOf is the sandbox that a template is made of, and what that started from.
type sourceOf struct {
	sandbox  core.SandboxID
	template string
	config   core.TemplateConfig
}

// hasFiles refuses a sandbox whose files are not all there.
func hasFiles(sb core.Sandbox) error {
	switch {
	case sb.Operation != core.OpNone:
		return core.Errorf(core.CodeConflict, "the sandbox is %s and a %s is under way: try again when it has ended", sb.State, sb.Operation)
	case sb.State == core.StateRunning, sb.State == core.StateFailed, sb.State == core.StateStopped:
		return nil
	}
	return core.Errorf(core.CodeConflict, "a template is made of a sandbox that runs, is stopped or has failed, and this one is %s", sb.State)
}

// captured makes a template of a sandbox's files. A delete of the sandbox ends it.
func (m *making) captured(
	ctx context.Context, op core.Operation, in makeIntent, from sourceOf, report func(core.OperationProgress),
) (workResult, error) {
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	report(core.OperationProgress{Step: "copying the sandbox's files", Percent: -1})
	cmd, done, err := m.commands.begin(ctx, from.sandbox)
	if err != nil {
		return workResult{}, err
	}
	defer done()
	if err := checkUser(cmd, m.node, from.sandbox, in.Config.User); err != nil {
		return workResult{}, err
	}
	tree, err := m.node.CaptureTemplate(cmd, core.TemplateID(op.Target[targetTemplate]), core.TreeSource{Sandbox: from.sandbox})
	if err == nil {
		err = failpoint.Hit(failpoint.ControlTemplateMade)
	}
	switch {
	case err != nil && cmd.Err() != nil && ctx.Err() == nil:
		return workResult{}, core.Wrap(core.CodeConflict, err, "the sandbox was deleted meanwhile")
	case err != nil:
		return workResult{}, inTime(ctx, err)
	}
	return m.made(op, in, BuiltTemplate{
		Source:   "sandbox " + string(from.sandbox) + " of " + from.template,
		Packages: tree.Packages,
		Config:   in.Config.Apply(from.config),
	}, tree.TreeInfo), nil
}
