package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
	"shoal/internal/store"
)

// operations are those on templates, and on what is needed to make them.
func (a templateAPI) operations() map[string]operation {
	return map[string]operation{
		"createTemplate": a.createTemplate,
		"listTemplates":  a.listTemplates,
		"getTemplate":    a.getTemplate,
		"deleteTemplate": a.deleteTemplate,
		"tagTemplate":    a.tagTemplate,
		"untagTemplate":  a.untagTemplate,
		"createUpload":   a.createUpload,
		"deleteUpload":   a.deleteUpload,
		"listRegistries": a.listRegistries,
		"getRegistry":    a.getRegistry,
		"putRegistry":    a.putRegistry,
		"deleteRegistry": a.deleteRegistry,
	}
}

func (a templateAPI) createTemplate(w http.ResponseWriter, r *request) error {
	var body api.CreateTemplateRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	spec := templateSpec(body)
	// What is remembered of a call is no way to guess its password: a repeat may have another.
	body.Password = ""
	said, err := json.Marshal(body) //nolint:gosec // It has none any more.
	if err != nil {
		return err
	}
	if spec.Once, err = r.once(said); err != nil {
		return err
	}
	op, err := a.control.CreateTemplate(r.Context(), r.principal, spec)
	if err != nil {
		return err
	}
	tellRepeated(w, spec.Once)
	w.Header().Set("Location", "/v1/operations/"+string(op.ID))
	return writeJSON(w, http.StatusAccepted, encodeOperation(op))
}

func templateSpec(b api.CreateTemplateRequest) core.TemplateSpec {
	return core.TemplateSpec{
		Name: b.Name, Tags: b.Tags,
		Image:  core.ImageSource{Ref: b.FromImage, Username: b.Username, Password: core.Secret(b.Password), Platform: b.Platform},
		Upload: core.UploadID(b.FromUpload), Sandbox: b.FromSandbox, Checkpoint: b.FromCheckpoint,
		Config: core.TemplateOverrides{User: b.User, Workdir: b.Workdir, Env: b.Env, Entrypoint: b.Entrypoint, Cmd: b.Cmd},
	}
}

func (a templateAPI) listTemplates(w http.ResponseWriter, r *request) error {
	filter := store.TemplateFilter{Name: r.query.Get("name"), Own: r.flag("own")}
	list, next, err := a.control.ListTemplates(r.Context(), r.principal, filter, r.page())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.TemplateList{Templates: convert(list, encodeTemplate), NextCursor: next})
}

func (a templateAPI) getTemplate(w http.ResponseWriter, r *request) error {
	t, err := a.control.GetTemplate(r.Context(), r.principal, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeWholeTemplate(t))
}

func (a templateAPI) deleteTemplate(w http.ResponseWriter, r *request) error {
	return noContent(w, a.control.DeleteTemplate(r.Context(), r.principal, r.PathValue("id")))
}

func (a templateAPI) tagTemplate(w http.ResponseWriter, r *request) error {
	t, err := a.control.TagTemplate(r.Context(), r.principal, r.PathValue("id"), r.PathValue("tag"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeWholeTemplate(t))
}

func (a templateAPI) untagTemplate(w http.ResponseWriter, r *request) error {
	return noContent(w, a.control.UntagTemplate(r.Context(), r.principal, r.PathValue("id"), r.PathValue("tag")))
}

func (a templateAPI) createUpload(w http.ResponseWriter, r *request) error {
	if !isBinary(r.Request) {
		return httpserve.WithStatus(http.StatusUnsupportedMediaType, core.Invalid("Content-Type", "send the archive as application/octet-stream"))
	}
	body := httpserve.NewUpload(w, r.Request, a.options.Stall)
	up, err := a.control.PutUpload(r.Context(), r.principal, body)
	if body.Err != nil {
		return core.Wrap(core.CodeInvalid, errors.Join(body.Err, err), "the body was cut off: nothing is kept of it")
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, api.Upload{
		ID: string(up.ID), SizeBytes: up.SizeBytes, Digest: up.Digest, ExpiresAt: up.ExpiresAt,
	})
}

func (a templateAPI) deleteUpload(w http.ResponseWriter, r *request) error {
	id, err := r.ref("id", "upload")
	if err != nil {
		return err
	}
	return noContent(w, a.control.DeleteUpload(r.Context(), r.principal, core.UploadID(id)))
}

// encodeTemplate encodes a template without its packages.
func encodeTemplate(t core.Template) api.Template {
	owner := "tenant"
	if t.Tenant == core.SystemTenant {
		owner = "system"
	}
	return api.Template{
		ID: string(t.ID), Name: t.Name, Version: t.Version, Tags: t.Tags, Owner: owner, Visibility: string(t.Visibility),
		State: api.TemplateState(t.State), Source: t.Source, Digest: t.Digest, SizeBytes: t.SizeBytes, Files: t.Files,
		PackageCount: len(t.Packages), User: t.Config.User, Workdir: t.Config.Workdir, Env: t.Config.Env,
		Entrypoint: t.Config.Entrypoint, Cmd: t.Config.Cmd, Labels: t.Config.Labels, ExposedPorts: t.Config.Ports,
		Progress: t.Progress, Percent: t.Percent, Failure: t.Failure, CreatedAt: t.CreatedAt, ReadyAt: t.ReadyAt,
	}
}

func encodeWholeTemplate(t core.Template) api.Template {
	out := encodeTemplate(t)
	out.Packages = convert(t.Packages, func(p core.Package) api.Package {
		return api.Package{Name: p.Name, Version: p.Version}
	})
	return out
}
