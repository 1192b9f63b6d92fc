package panda

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// templateInfo is the vendor's form of a template.
type templateInfo struct {
	Name string `json:"name"`
	// RootfsPath is where the vendor's host keeps it, which is nobody's business here.
	RootfsPath string `json:"rootfs_path"`
	SizeBytes  int64  `json:"size_bytes"`
	// CPU and MemoryMB are what a sandbox gets by default, whatever its template.
	CPU      int   `json:"cpu"`
	MemoryMB int64 `json:"memory_mb"`
	// IsGlobal says that it comes with the server.
	IsGlobal    bool   `json:"is_global"`
	Description string `json:"description"`
	// Base is the template that an alias stands for.
	Base string       `json:"base,omitempty"`
	Meta templateMeta `json:"meta"`
}

// templateMeta is what we know of a template beyond that.
type templateMeta struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`
	// State is ready, building or failed; Progress and Percent tell of a build, Failure why it failed.
	State    string `json:"state"`
	Digest   string `json:"digest,omitempty"`
	Progress string `json:"progress,omitempty"`
	Percent  int    `json:"percent"`
	Failure  string `json:"failure,omitempty"`
}

func encodeTemplate(t core.Template, name string, limits control.Limits) templateInfo {
	out := templateInfo{
		Name: name, SizeBytes: t.SizeBytes, CPU: int(math.Ceil(limits.Default.VCPUs)), MemoryMB: limits.Default.MemoryBytes >> 20,
		IsGlobal: t.Tenant == core.SystemTenant, Description: t.Source,
		Meta: templateMeta{
			ID: string(t.ID), Version: t.Version, State: string(t.State), Digest: t.Digest, Progress: t.Progress, Percent: t.Percent, Failure: t.Failure,
		},
	}
	if name != t.Name {
		out.Base = t.Name
	}
	return out
}

// listTemplates sends all templates that can be used or will be, as a bare array: of each name the newest version, then the names of
// the vendor's that stand for one of them.
func (a *adapter) listTemplates(w http.ResponseWriter, r *request) error {
	found, err := a.templates(r.Context(), r.Principal)
	if err != nil {
		return err
	}
	limits := a.cfg.Control.Limits(r.Principal)
	items := []templateInfo{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		items = append(items, encodeTemplate(found[name], name, limits))
	}
	for _, alias := range slices.Sorted(maps.Keys(a.cfg.Templates)) {
		if t, ok := found[a.cfg.Templates[alias]]; ok && alias != t.Name {
			items = append(items, encodeTemplate(t, alias, limits))
		}
	}
	return writeJSON(w, http.StatusOK, items)
}

// templates returns the template that each name means.
func (a *adapter) templates(ctx context.Context, p control.Principal) (map[string]core.Template, error) {
	found := map[string]core.Template{}
	for cursor, more := "", true; more; {
		page, next, err := a.cfg.Control.ListTemplates(ctx, p, store.TemplateFilter{}, store.Page{Cursor: cursor, Limit: pageSize})
		if err != nil {
			return nil, err
		}
		cursor, more = next, next != ""
		for _, t := range page {
			if old, ok := found[t.Name]; !ok || better(t, old) {
				found[t.Name] = t
			}
		}
	}
	return found, nil
}

// better reports whether a name means the template t and not old: a ready one before any other, the tenant's own before the
// system's, the newest.
func better(t, old core.Template) bool {
	order := func(t core.Template) (rank int) {
		if t.State == core.TemplateReady {
			rank += 2
		}
		if t.Tenant != core.SystemTenant {
			rank++
		}
		return rank
	}
	return cmp.Or(cmp.Compare(order(t), order(old)), cmp.Compare(t.Version, old.Version)) > 0
}

func (a *adapter) getTemplate(w http.ResponseWriter, r *request) error {
	name := r.PathValue("name")
	t, err := a.cfg.Control.GetTemplate(r.Context(), r.Principal, a.cfg.Template(name))
	if err != nil {
		return err
	}
	if name == string(t.ID) {
		name = t.Name
	}
	return writeJSON(w, http.StatusOK, encodeTemplate(t, name, a.cfg.Control.Limits(r.Principal)))
}

// me is who a key belongs to.
type me struct {
	// Workspace is the vendor's word for a tenant.
	Workspace string `json:"workspace"`
	KeyID     string `json:"key_id"`
	Admin     bool   `json:"admin"`
}

func (a *adapter) getMe(w http.ResponseWriter, r *request) error {
	return writeJSON(w, http.StatusOK, me{Workspace: string(r.Principal.Tenant), KeyID: r.Principal.Actor.ID, Admin: r.Principal.Admin})
}
