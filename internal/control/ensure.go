package control

import (
	"context"
	"errors"
	"maps"

	"shoal/internal/core"
)

// ensures makes sure that there is a sandbox with a name. Its method is Service's.
type ensures struct {
	*finder
	create func(ctx context.Context, p Principal, spec core.SandboxSpec) (core.Sandbox, error)
}

// GetOrCreateSandbox returns the caller's sandbox with a name, or creates it; created says which. One that is being created is waited
// for. One that differs from what is asked for, or that has failed, is conflict.
func (x *ensures) GetOrCreateSandbox(
	ctx context.Context, p Principal, name string, spec core.SandboxSpec,
) (sb core.Sandbox, created bool, err error) {
	if err := p.may("GetOrCreateSandbox"); err != nil {
		return sb, false, err
	}
	if err := p.needKey(); err != nil {
		return sb, false, err
	}
	if err := core.CheckName("name", name); err != nil {
		return sb, false, err
	}
	if err := checkOrigin(spec); err != nil {
		return sb, false, err
	}
	spec.Name = name
	// A name may be taken by a sandbox that the caller doesn't see: then it is never found, and never free.
	for unseen := 0; ; {
		var waited bool
		sb, waited, err = x.awaited(ctx, p, name)
		if waited {
			unseen = 0
		}
		if err == nil {
			if err = x.activity.touch(ctx, sb.ID); err == nil {
				return sb, false, suits(sb, spec)
			}
		}
		if !core.IsCode(err, core.CodeNotFound) {
			return sb, false, err
		}
		sb, err = x.create(ctx, p, spec)
		if err == nil {
			return sb, true, nil
		}
		if unseen++; !nameTaken(err) || unseen == 3 {
			return sb, false, err
		}
	}
}

// awaited finds a sandbox by name. One that is being created is waited for, for as long as its caller waits.
func (x *ensures) awaited(ctx context.Context, p Principal, name string) (sb core.Sandbox, waited bool, err error) {
	for {
		news := x.waiters.wait(p.Tenant)
		sb, err = x.sandbox(ctx, p, name)
		if err != nil || sb.State != core.StateCreating {
			return sb, waited, err
		}
		waited = true
		select {
		case <-news:
		case <-x.tasks.stop.Done():
			return sb, waited, core.Errorf(core.CodeUnavailable, "the server is shutting down")
		case <-ctx.Done():
			return sb, waited, core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
		}
	}
}

// nameTaken reports whether a create failed because another sandbox has the name.
func nameTaken(err error) bool {
	e, ok := errors.AsType[*core.Error](err)
	return ok && e.Code == core.CodeConflict && e.Field == "name"
}

// suits refuses a sandbox that is not what is asked for, or that can't be used. What is not
// asked for, and the ttl, the idle rule and the labels, which their owner changes as he goes, are as they are.
func suits(sb core.Sandbox, spec core.SandboxSpec) error {
	if sb.State == core.StateFailed {
		return core.Errorf(core.CodeConflict, "the sandbox with this name has failed (%s): delete it and ask again, or stop and wake it, which keeps its files", sb.Failure)
	}
	want, have := spec.Resources, sb.Resources
	for _, f := range []struct {
		name    string
		differs bool
	}{
		{"template", spec.Template != "" && spec.Template != sb.TemplateName && spec.Template != string(sb.Template)},
		{"from_checkpoint", spec.From != "" && spec.From != sb.Source},
		{"persistent", spec.Persistent && !sb.Persistent},
		{"vcpus", want.VCPUs != 0 && want.VCPUs != have.VCPUs},
		{"memory_bytes", want.MemoryBytes != 0 && want.MemoryBytes != have.MemoryBytes},
		{"disk_bytes", want.DiskBytes != 0 && want.DiskBytes != have.DiskBytes},
		{"pids", want.Pids != 0 && want.Pids != have.Pids},
		{"open_files", want.OpenFiles != 0 && want.OpenFiles != have.OpenFiles},
		{"cpu_weight", want.CPUWeight != 0 && want.CPUWeight != have.CPUWeight},
		{"io_weight", want.IOWeight != 0 && want.IOWeight != have.IOWeight},
		{"env", len(spec.Env) > 0 && !maps.Equal(spec.Env, sb.Env)},
	} {
		if f.differs {
			return &core.Error{
				Code: core.CodeConflict, Field: f.name, Message: "there is a sandbox with this name, and its " + f.name + " is another than asked for",
			}
		}
	}
	return nil
}
