package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
)

func (a sandboxAPI) forkSandbox(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	var body api.ForkSandboxRequest
	data, err := readBody(w, r, &body)
	if err != nil {
		return err
	}
	spec, err := forkSpec(body)
	if err != nil {
		return err
	}
	if spec.Once, err = r.once(data); err != nil {
		return err
	}
	return a.tellMany(w, r, spec.Once, func(ctx context.Context, tell func(control.BatchResult) error) error {
		list, err := a.control.ForkSandbox(ctx, r.principal, ref, spec)
		for i, sb := range list {
			if err == nil {
				err = tell(control.BatchResult{Index: i, Sandbox: sb})
			}
		}
		return err
	})
}

// forkSpec turns a request into what control takes.
func forkSpec(body api.ForkSandboxRequest) (core.ForkSpec, error) {
	each, err := sandboxSpec(api.CreateSandboxRequest{
		Persistent: body.Persistent, TTLSeconds: body.TTLSeconds, IdleSeconds: body.IdleSeconds, OnIdle: body.OnIdle, Rules: body.Rules,
		VCPUs: body.VCPUs, MemoryBytes: body.MemoryBytes, DiskBytes: body.DiskBytes, Pids: body.Pids, OpenFiles: body.OpenFiles,
		CPUWeight: body.CPUWeight, IOWeight: body.IOWeight, Env: body.Env, Labels: body.Labels,
	})
	spec := core.ForkSpec{Kind: core.CheckpointKind(body.Kind), Count: max(1, len(body.Names)), Names: body.Names, Each: each}
	if err != nil {
		return spec, err
	}
	if body.Count != nil {
		spec.Count = *body.Count
	}
	switch {
	case spec.Count < 1 || spec.Count > core.MaxForks:
		return spec, core.Invalid("count", "a call forks 1 to %d sandboxes", core.MaxForks)
	case body.NamePrefix == "":
		return spec, nil
	case len(body.Names) > 0:
		return spec, core.Invalid("names", "give either names or name_prefix")
	}
	for i := range spec.Count {
		name := body.NamePrefix + strconv.Itoa(i)
		if err := core.CheckName("name_prefix", name); err != nil {
			return spec, err
		}
		spec.Names = append(spec.Names, name)
	}
	return spec, nil
}
