package httpapi

import (
	"net/http"
	"time"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
)

// operations are those on checkpoints.
func (a checkpointAPI) operations() map[string]operation {
	return map[string]operation{
		"createCheckpoint":       a.createCheckpoint,
		"listSandboxCheckpoints": a.listSandboxCheckpoints,
		"listCheckpoints":        a.listCheckpoints,
		"getCheckpoint":          a.getCheckpoint,
		"updateCheckpoint":       a.updateCheckpoint,
		"deleteCheckpoint":       a.deleteCheckpoint,
		"restoreSandbox":         a.restoreSandbox,
		"resetSandbox":           a.resetSandbox,
	}
}

func (a checkpointAPI) createCheckpoint(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	var body api.CreateCheckpointRequest
	data, err := readBody(w, r, &body)
	if err != nil {
		return err
	}
	spec, err := checkpointSpec(body)
	if err != nil {
		return err
	}
	if spec.Once, err = r.once(data); err != nil {
		return err
	}
	c, err := a.control.CreateCheckpoint(r.Context(), r.principal, ref, spec)
	if err != nil {
		return err
	}
	tellRepeated(w, spec.Once)
	w.Header().Set("Location", "/v1/checkpoints/"+string(c.ID))
	return writeJSON(w, http.StatusCreated, encodeCheckpoint(c))
}

// checkpointSpec turns a request into what control takes. A zero there means that nothing was asked for, so a zero that was must be
// refused here.
func checkpointSpec(body api.CreateCheckpointRequest) (core.CheckpointSpec, error) {
	spec := core.CheckpointSpec{Kind: core.CheckpointKind(body.Kind), Comment: body.Comment}
	if body.TTLSeconds != nil {
		if *body.TTLSeconds < 1 {
			return spec, core.Invalid("ttl_seconds", "ttl_seconds is at least 1; without a ttl, leave it out")
		}
		var err error
		if spec.TTL, err = seconds("ttl_seconds", float64(*body.TTLSeconds)); err != nil {
			return spec, err
		}
	}
	if body.KeepLast != nil {
		if spec.KeepLast = *body.KeepLast; spec.KeepLast < 1 {
			return spec, core.Invalid("keep_last", "keep_last is at least 1: the one that is made is kept")
		}
	}
	return spec, nil
}

func (a checkpointAPI) listSandboxCheckpoints(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	return a.list(w, r, ref)
}

func (a checkpointAPI) listCheckpoints(w http.ResponseWriter, r *request) error {
	return a.list(w, r, r.query.Get("sandbox"))
}

func (a checkpointAPI) list(w http.ResponseWriter, r *request, sandbox string) error {
	q := control.CheckpointQuery{Sandbox: sandbox}
	for _, c := range r.query["cause"] {
		q.Causes = append(q.Causes, core.CheckpointCause(c))
	}
	list, next, err := a.control.ListCheckpoints(r.Context(), r.principal, q, r.page())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.CheckpointList{Checkpoints: convert(list, encodeCheckpoint), NextCursor: next})
}

func (a checkpointAPI) getCheckpoint(w http.ResponseWriter, r *request) error {
	id, err := r.ref("id", "checkpoint")
	if err != nil {
		return err
	}
	c, err := a.control.GetCheckpoint(r.Context(), r.principal, core.CheckpointID(id))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeCheckpoint(c))
}

func (a checkpointAPI) updateCheckpoint(w http.ResponseWriter, r *request) error {
	id, err := r.ref("id", "checkpoint")
	if err != nil {
		return err
	}
	var body api.UpdateCheckpointRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	patch := control.CheckpointPatch{Comment: body.Comment}
	if body.TTLSeconds != nil {
		var ttl time.Duration
		if ttl, err = seconds("ttl_seconds", float64(*body.TTLSeconds)); err != nil {
			return err
		}
		patch.TTL = &ttl
	}
	c, err := a.control.UpdateCheckpoint(r.Context(), r.principal, core.CheckpointID(id), patch)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeCheckpoint(c))
}

func (a checkpointAPI) deleteCheckpoint(w http.ResponseWriter, r *request) error {
	id, err := r.ref("id", "checkpoint")
	if err != nil {
		return err
	}
	return noContent(w, a.control.DeleteCheckpoint(r.Context(), r.principal, core.CheckpointID(id)))
}

func encodeCheckpoint(c core.Checkpoint) api.Checkpoint {
	out := api.Checkpoint{
		ID: string(c.ID), SandboxID: string(c.Sandbox), Parent: string(c.Parent), Kind: string(c.Kind), Cause: string(c.Cause),
		Comment: c.Comment, Template: c.TemplateName, TemplateID: string(c.Template), VCPUs: c.Resources.VCPUs,
		MemoryBytes: c.Resources.MemoryBytes, DiskBytes: c.Resources.DiskBytes, Labels: c.Labels, CreatedAt: c.CreatedAt, ExpiresAt: c.ExpiresAt,
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if c.WrittenBytes >= 0 {
		out.WrittenBytes = &c.WrittenBytes
	}
	return out
}
