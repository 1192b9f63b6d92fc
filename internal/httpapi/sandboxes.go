package httpapi

import (
	"math"
	"net/http"
	"strings"
	"time"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

func (a sandboxAPI) createSandbox(w http.ResponseWriter, r *request) error {
	var body api.CreateSandboxRequest
	data, err := readBody(w, r, &body)
	if err != nil {
		return err
	}
	spec, err := sandboxSpec(body)
	if err != nil {
		return err
	}
	if spec.Once, err = r.once(data); err != nil {
		return err
	}
	sandbox, err := a.control.CreateSandbox(r.Context(), r.principal, spec)
	if err != nil {
		return err
	}
	tellRepeated(w, spec.Once)
	r.target = string(sandbox.ID)
	w.Header().Set("Location", "/v1/sandboxes/"+string(sandbox.ID))
	return writeJSON(w, http.StatusCreated, encodeSandbox(sandbox))
}

// sandboxSpec turns a request into what control takes. A zero there means the default, so a zero that was asked for
// must be refused here.
func sandboxSpec(body api.CreateSandboxRequest) (core.SandboxSpec, error) {
	spec := core.SandboxSpec{
		Name: body.Name, Template: body.Template, From: core.CheckpointID(body.FromCheckpoint), Persistent: body.Persistent, Env: body.Env, Labels: body.Labels,
		OnIdle: core.LifecycleAction(body.OnIdle),
	}
	if body.Name != "" {
		if err := core.CheckName("name", body.Name); err != nil {
			return spec, err
		}
	}
	if body.TTLSeconds != nil {
		if *body.TTLSeconds < 1 {
			return spec, core.Invalid("ttl_seconds", "ttl_seconds is at least 1; without a ttl, leave it out and set persistent")
		}
		var err error
		if spec.TTL, err = seconds("ttl_seconds", float64(*body.TTLSeconds)); err != nil {
			return spec, err
		}
	}
	if body.IdleSeconds != nil {
		if *body.IdleSeconds < 1 {
			return spec, core.Invalid("idle_seconds", "idle_seconds is at least 1")
		}
		var err error
		if spec.Idle, err = seconds("idle_seconds", float64(*body.IdleSeconds)); err != nil {
			return spec, err
		}
	}
	var err error
	if spec.Rules, err = lifecycleRules(body.Rules); err != nil {
		return spec, err
	}
	spec.Resources, err = resources(limitFields{
		body.VCPUs, body.MemoryBytes, body.DiskBytes, body.Pids, body.OpenFiles, body.CPUWeight, body.IOWeight,
	})
	return spec, err
}

// limitFields are what requests say of limits; nil is nothing.
type limitFields struct {
	vcpus                                              *float64
	memory, disk, pids, openFiles, cpuWeight, ioWeight *int64
}

// resources turns limits into what control takes. A zero there means that nothing was asked for, so a zero that was must be
// refused here.
func resources(in limitFields) (r core.Resources, err error) {
	if in.vcpus != nil {
		if *in.vcpus <= 0 {
			return r, core.Invalid("vcpus", "vcpus is above 0")
		}
		r.VCPUs = *in.vcpus
	}
	var pids, openFiles, cpuWeight, ioWeight int64
	for _, f := range []struct {
		name string
		in   *int64
		out  *int64
	}{
		{"memory_bytes", in.memory, &r.MemoryBytes},
		{"disk_bytes", in.disk, &r.DiskBytes},
		{"pids", in.pids, &pids},
		{"open_files", in.openFiles, &openFiles},
		{"cpu_weight", in.cpuWeight, &cpuWeight},
		{"io_weight", in.ioWeight, &ioWeight},
	} {
		if f.in == nil {
			continue
		}
		if *f.in < 1 {
			return r, core.Invalid(f.name, "%s is at least 1", f.name)
		}
		*f.out = *f.in
	}
	// An int has 64 bits wherever sandboxes run.
	r.Pids, r.OpenFiles, r.CPUWeight, r.IOWeight = int(pids), int(openFiles), int(cpuWeight), int(ioWeight)
	return r, nil
}

// seconds turns a number of seconds into a duration, if it fits.
func seconds(field string, n float64) (time.Duration, error) {
	if n > math.MaxInt64/float64(time.Second)/2 {
		return 0, core.Invalid(field, "%s is too large", field)
	}
	return time.Duration(n * float64(time.Second)), nil
}

func (a sandboxAPI) getSandbox(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	sandbox, err := a.control.GetSandbox(r.Context(), r.principal, ref)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeSandbox(sandbox))
}

func (a sandboxAPI) listSandboxes(w http.ResponseWriter, r *request) error {
	filter, err := sandboxFilter(r)
	if err != nil {
		return err
	}
	list, next, err := a.control.ListSandboxes(r.Context(), r.principal, filter, r.page())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.SandboxList{Sandboxes: convert(list, encodeSandbox), NextCursor: next})
}

func sandboxFilter(r *request) (filter store.SandboxFilter, err error) {
	filter.IncludeDeleted, filter.Template = r.flag("deleted"), r.query.Get("template")
	filter.OldestFirst = r.query.Get("order") == "oldest"
	if filter.StartedAfter, err = r.moment("started_after"); err != nil {
		return filter, err
	}
	for _, s := range r.query["state"] {
		filter.States = append(filter.States, core.State(s))
	}
	filter.Labels, err = r.labels()
	return filter, err
}

// labels reads the parameter label, all of which must match.
func (r *request) labels() (labels map[string]string, err error) {
	for _, label := range r.query["label"] {
		key, value, found := strings.Cut(label, "=")
		if !found || key == "" {
			return nil, core.Invalid("label", "label is of the form key=value")
		}
		if old, twice := labels[key]; twice && old != value {
			return nil, core.Invalid("label", "no sandbox has two values of label %q", printable(key))
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels, nil
}

func (a sandboxAPI) updateSandbox(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	var body api.UpdateSandboxRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	patch, err := sandboxPatch(body)
	if err != nil {
		return err
	}
	sandbox, err := a.control.UpdateSandbox(r.Context(), r.principal, ref, patch)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeSandbox(sandbox))
}

func sandboxPatch(body api.UpdateSandboxRequest) (patch control.SandboxPatch, err error) {
	patch.Labels, patch.Persistent, patch.OnIdle = body.Labels, body.Persistent, core.LifecycleAction(body.OnIdle)
	for _, f := range []struct {
		name  string
		in    *int64
		least int64
		out   **time.Duration
	}{
		{"ttl_seconds", body.TTLSeconds, 0, &patch.TTL},
		{"extend_ttl_seconds", body.ExtendTTLSeconds, 1, &patch.ExtendTTL},
		{"idle_seconds", body.IdleSeconds, 0, &patch.Idle},
	} {
		if f.in == nil {
			continue
		}
		if *f.in < f.least {
			return patch, core.Invalid(f.name, "%s is at least %d", f.name, f.least)
		}
		d, err := seconds(f.name, float64(*f.in))
		if err != nil {
			return patch, err
		}
		*f.out = &d
	}
	if body.Rules != nil {
		rules, err := lifecycleRules(*body.Rules)
		if err != nil {
			return patch, err
		}
		patch.Rules = &rules
	}
	limits, err := resources(limitFields{body.VCPUs, body.MemoryBytes, body.DiskBytes, body.Pids, body.OpenFiles, body.CPUWeight, body.IOWeight})
	patch.Resources = control.ResourcesPatch(limits)
	return patch, err
}

func (a sandboxAPI) deleteSandbox(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	remove := a.control.DeleteSandbox
	if r.flag("checkpoints") {
		remove = a.control.DeleteSandboxWithCheckpoints
	}
	return noContent(w, remove(r.Context(), r.principal, ref))
}

func (a sandboxAPI) getSandboxMetrics(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	m, err := a.control.Metrics(r.Context(), r.principal, ref)
	if err != nil {
		return err
	}
	out := api.SandboxMetrics{
		At: m.At, CPUSeconds: m.CPUSeconds, MemoryBytes: m.MemoryBytes, MemoryLimitBytes: m.MemoryLimitBytes,
		Processes: max(m.Processes, 0),
	}
	if m.PSSBytes > 0 { // no process has none
		out.PSSBytes = &m.PSSBytes
	}
	if m.DiskBytes >= 0 {
		out.DiskBytes = &m.DiskBytes
	}
	return writeJSON(w, http.StatusOK, out)
}

func encodeSandbox(s core.Sandbox) api.Sandbox {
	return api.Sandbox{
		ID: string(s.ID), Name: s.Name, Template: s.TemplateName, TemplateID: string(s.Template),
		Source: string(s.Source), Head: string(s.Head), Parent: string(s.Parent),
		State: api.SandboxState(s.State), StateSince: s.StateSince, Operation: string(s.Operation), OperationSince: s.OperationSince,
		Incarnation: s.Incarnation, Persistent: s.Persistent,
		VCPUs: s.Resources.VCPUs, MemoryBytes: s.Resources.MemoryBytes, DiskBytes: s.Resources.DiskBytes,
		Pids: int64(s.Resources.Pids), OpenFiles: int64(s.Resources.OpenFiles), CPUWeight: int64(s.Resources.CPUWeight),
		IOWeight: int64(s.Resources.IOWeight),
		Env:      s.Env, Labels: s.Labels,
		CreatedAt: s.CreatedAt, StartedAt: s.StartedAt, ExpiresAt: s.ExpiresAt, DeletedAt: s.DeletedAt, Failure: s.Failure,
		IdleSeconds: s.Idle.Seconds(), OnIdle: string(s.OnIdle), ActiveAt: s.ActiveAt, Rules: convert(s.Rules, encodeRule),
	}
}

// convert encodes a list. The result is never nil, so that JSON has [] rather than null.
func convert[In, Out any](list []In, encode func(In) Out) []Out {
	out := make([]Out, 0, len(list))
	for _, item := range list {
		out = append(out, encode(item))
	}
	return out
}
