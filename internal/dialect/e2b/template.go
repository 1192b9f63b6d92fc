package e2b

import (
	"net/http"
	"slices"
	"strings"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd"
	"shoal/internal/store"
)

// templateBody is one template. What E2B counts of its use is not counted here for the server's own templates, which E2B itself tells as
// zero for its own.
type templateBody struct {
	TemplateID  string   `json:"templateID"`
	BuildID     string   `json:"buildID"`
	CPUCount    int      `json:"cpuCount"`
	MemoryMB    int64    `json:"memoryMB"`
	DiskSizeMB  int64    `json:"diskSizeMB"`
	Public      bool     `json:"public"`
	Aliases     []string `json:"aliases"`
	Names       []string `json:"names"`
	CreatedAt   string   `json:"createdAt"`
	UpdatedAt   string   `json:"updatedAt"`
	CreatedBy   *string  `json:"createdBy"`
	LastSpawned *string  `json:"lastSpawnedAt"`
	SpawnCount  int      `json:"spawnCount"`
	BuildCount  int      `json:"buildCount"`
	EnvdVersion string   `json:"envdVersion"`
	BuildStatus string   `json:"buildStatus"`
	IsDefault   bool     `json:"isDefault"`
}

// buildBody is one version of a template.
type buildBody struct {
	BuildID     string `json:"buildID"`
	Status      string `json:"status"`
	CreatedAt   string `json:"createdAt"`
	UpdatedAt   string `json:"updatedAt"`
	FinishedAt  string `json:"finishedAt,omitempty"`
	CPUCount    int    `json:"cpuCount"`
	MemoryMB    int64  `json:"memoryMB"`
	DiskSizeMB  int64  `json:"diskSizeMB"`
	EnvdVersion string `json:"envdVersion"`
}

// templates returns the versions of every template that the caller may use, by name, the newest first.
func (a *adapter) templates(r request) ([][]core.Template, error) {
	var groups [][]core.Template
	page := store.Page{Limit: wholePage}
	for {
		list, next, err := a.Control.ListTemplates(r.Context(), r.principal, store.TemplateFilter{}, page)
		if err != nil {
			return nil, err //nolint:wrapcheck // Control's errors are made for the edge.
		}
		for _, t := range list {
			groups = grouped(groups, t)
		}
		if page.Cursor = next; next == "" {
			return groups, nil
		}
	}
}

// grouped puts a version to the others of its template. In our order, versions of a tenant's own stand between those of the system's that
// has the same name.
func grouped(groups [][]core.Template, t core.Template) [][]core.Template {
	near := max(len(groups)-2, 0)
	for i := near; i < len(groups); i++ {
		if g := groups[i]; g[0].Name == t.Name && g[0].Tenant == t.Tenant {
			groups[i] = append(g, t)
			return groups
		}
	}
	return append(groups, []core.Template{t})
}

func (a *adapter) listTemplates(w http.ResponseWriter, r request) error {
	if team := r.query.Get("teamID"); team != "" && team != string(r.principal.Tenant) {
		return core.Errorf(core.CodeDenied, "the key belongs to another team than %q", clip(team))
	}
	groups, err := a.templates(r)
	if err != nil {
		return err
	}
	if strings.HasPrefix(r.URL.Path, "/v2/") { // older clients know no pages
		if groups, err = pageOf(w, r.query, groups); err != nil {
			return err
		}
	}
	out := []templateBody{}
	for _, versions := range groups {
		out = append(out, a.templateBody(r.principal, versions))
	}
	return writeJSON(w, http.StatusOK, out)
}

// findTemplate returns the versions of one template.
func (a *adapter) findTemplate(r request, ref string) ([]core.Template, error) {
	t, err := a.Control.GetTemplate(r.Context(), r.principal, a.template(ref))
	if core.IsCode(err, core.CodeNotFound) {
		return nil, core.Errorf(core.CodeNotFound, "template %q doesn't exist or you don't have access to it", clip(ref))
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // Control's errors are made for the edge.
	}
	groups, err := a.templates(r)
	if err != nil {
		return nil, err
	}
	for _, versions := range groups {
		if slices.ContainsFunc(versions, func(v core.Template) bool { return v.ID == t.ID }) {
			return versions, nil
		}
	}
	return []core.Template{t}, nil // It was made between the two looks.
}

func (a *adapter) getTemplate(w http.ResponseWriter, r request) error {
	versions, err := a.findTemplate(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	body := struct {
		templateBody
		Builds []buildBody `json:"builds"`
	}{templateBody: a.templateBody(r.principal, versions)}
	size := a.Control.Limits(r.principal).Default
	page, err := pageOf(w, r.query, versions)
	if err != nil {
		return err
	}
	for _, t := range page {
		b := buildBody{
			BuildID: string(t.ID), Status: buildStatus(t.State), CreatedAt: rfc3339(t.CreatedAt), UpdatedAt: rfc3339(t.CreatedAt),
			CPUCount: cpuCount(size), MemoryMB: size.MemoryBytes >> 20, DiskSizeMB: size.DiskBytes >> 20, EnvdVersion: envd.Version,
		}
		if !t.ReadyAt.IsZero() {
			b.UpdatedAt, b.FinishedAt = rfc3339(t.ReadyAt), rfc3339(t.ReadyAt)
		}
		body.Builds = append(body.Builds, b)
	}
	return writeJSON(w, http.StatusOK, body)
}

// getAlias finds a template by name. Its pattern also takes calls on a template's tags, which ServeMux can't tell apart.
func (a *adapter) getAlias(w http.ResponseWriter, r request) error {
	if r.PathValue("id") != "aliases" {
		return core.Errorf(core.CodeUnsupported, "%s", noBuilds)
	}
	versions, err := a.findTemplate(r, r.PathValue("alias"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, struct {
		TemplateID string `json:"templateID"`
		Public     bool   `json:"public"`
	}{string(current(versions).ID), current(versions).Visibility == core.VisibilityPublic})
}

// current is the version of a template that its name means to who creates a sandbox: the newest that is ready, as an id of one that isn't
// would be of no use. Without any it is the newest.
func current(versions []core.Template) core.Template {
	for _, t := range versions {
		if t.State == core.TemplateReady {
			return t
		}
	}
	return versions[0]
}

// templateBody tells of the current version of a template. Sandboxes of any template get the server's default size.
func (a *adapter) templateBody(p control.Principal, versions []core.Template) templateBody {
	t, size := current(versions), a.Control.Limits(p).Default
	names := []string{t.Name}
	for vendor, ours := range a.Templates {
		if ours == t.Name && vendor != t.Name {
			names = append(names, vendor)
		}
	}
	slices.Sort(names[1:])
	updated := t.CreatedAt
	if !t.ReadyAt.IsZero() {
		updated = t.ReadyAt
	}
	return templateBody{
		TemplateID: string(t.ID), BuildID: string(t.ID), CPUCount: cpuCount(size), MemoryMB: size.MemoryBytes >> 20, DiskSizeMB: size.DiskBytes >> 20,
		Public: t.Visibility == core.VisibilityPublic, Aliases: names, Names: names, CreatedAt: rfc3339(t.CreatedAt), UpdatedAt: rfc3339(updated),
		BuildCount: len(versions), EnvdVersion: envd.Version, BuildStatus: buildStatus(t.State), IsDefault: t.Tenant == core.SystemTenant,
	}
}

func buildStatus(s core.TemplateState) string {
	switch s {
	case core.TemplateReady:
		return "ready"
	case core.TemplateBuilding:
		return "building"
	case core.TemplateFailed, core.TemplateDeleted:
		return "error"
	}
	return "error"
}
