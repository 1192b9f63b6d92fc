package httpapi

import (
	"context"
	"net/http"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
)

func (a checkpointAPI) restoreSandbox(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	var body api.RestoreSandboxRequest
	data, err := readBody(w, r, &body)
	if err != nil {
		return err
	}
	spec := control.RestoreSpec{Checkpoint: core.CheckpointID(body.CheckpointID), Discard: body.Save != nil && !*body.Save}
	return a.restore(w, r, ref, data, spec, a.control.RestoreSandbox)
}

func (a checkpointAPI) resetSandbox(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	var body api.ResetSandboxRequest
	var data []byte
	if r.hasBody() {
		if data, err = readBody(w, r, &body); err != nil {
			return err
		}
	}
	return a.restore(w, r, ref, append([]byte("reset "), data...), control.RestoreSpec{Discard: body.Save != nil && !*body.Save}, a.control.ResetSandbox)
}

// restore has the use case done, and answers with what came of it.
func (a checkpointAPI) restore(
	w http.ResponseWriter, r *request, ref string, said []byte, spec control.RestoreSpec,
	do func(ctx context.Context, p control.Principal, ref string, spec control.RestoreSpec) (control.Restored, error),
) (err error) {
	if spec.Once, err = r.once(said); err != nil {
		return err
	}
	res, err := do(r.Context(), r.principal, ref, spec)
	if err != nil {
		return err
	}
	tellRepeated(w, spec.Once)
	return writeJSON(w, http.StatusOK, api.RestoredSandbox{Sandbox: encodeSandbox(res.Sandbox), SavedCheckpointID: string(res.Saved)})
}
