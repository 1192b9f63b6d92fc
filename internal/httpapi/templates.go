package httpapi

import (
	"net/http"

	"shoal/api"
	"shoal/internal/core"
)

func (a serverAPI) listTemplates(w http.ResponseWriter, r *request) error {
	list, next, err := a.control.ListTemplates(r.Context(), r.principal, r.page())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.TemplateList{Templates: convert(list, encodeTemplate), NextCursor: next})
}

func (a serverAPI) getTemplate(w http.ResponseWriter, r *request) error {
	ref, err := r.ref("id", "template")
	if err != nil {
		return err
	}
	t, err := a.control.GetTemplate(r.Context(), r.principal, ref)
	if err != nil {
		return err
	}
	out := encodeTemplate(t)
	out.Packages = convert(t.Packages, func(p core.Package) api.Package {
		return api.Package{Name: p.Name, Version: p.Version}
	})
	return writeJSON(w, http.StatusOK, out)
}

// encodeTemplate encodes a template without its packages.
func encodeTemplate(t core.Template) api.Template {
	owner := "tenant"
	if t.Tenant == core.SystemTenant {
		owner = "system"
	}
	return api.Template{
		ID: string(t.ID), Name: t.Name, Version: t.Version, Owner: owner, Visibility: string(t.Visibility),
		State: api.TemplateState(t.State), Source: t.Source, Digest: t.Digest, SizeBytes: t.SizeBytes,
		User: t.Config.User, Workdir: t.Config.Workdir, Env: t.Config.Env,
		Progress: t.Progress, Percent: t.Percent, Failure: t.Failure, CreatedAt: t.CreatedAt, ReadyAt: t.ReadyAt,
	}
}
