package control

import (
	"context"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// BuiltTemplate is what a template builder tells of the tree that it filled.
type BuiltTemplate struct {
	Source   string
	Packages []core.Package
	Config   core.TemplateConfig
}

// TemplateBuilder fills an empty directory with the tree of a recipe. It reports steps in plain words, with percent from 0 to
// 100.
type TemplateBuilder func(ctx context.Context, recipe, dir string, progress func(step string, percent int)) (BuiltTemplate, error)

// ImageImporter fills an empty directory with the tree of a container image and tells its config. Source of the result names the image
// by digest. It reports steps in plain words, with percent from 0 to 100 and the bytes of layers, and may do so often. On any error, and when
// ctx ends first, the directory is to be thrown away, and the error is a *core.Error: invalid (field "ref", "archive", "platform" or none) for what the caller or the image
// did wrong, denied if the registry refuses, not_found, unavailable, exhausted, unsupported, timeout, canceled.
type ImageImporter func(ctx context.Context, src core.ImageSource, dir string, progress func(core.OperationProgress)) (BuiltTemplate, error)

// templates looks after the templates: it finds them, and makes those that come with the server (bootstrap.go).
type templates struct {
	*deps
	build TemplateBuilder
	// names are the recipes to have, in the order in which they are made.
	names []string
	// underWay is the long work that makes tenants' templates.
	underWay *liveOperations
}

// ListTemplates returns a page of the templates that the tenant may use.
func (s *Service) ListTemplates(
	ctx context.Context, p Principal, f store.TemplateFilter, page store.Page,
) (list []core.Template, next string, err error) {
	if err := p.may("ListTemplates"); err != nil {
		return nil, "", err
	}
	if err := p.needKey(); err != nil {
		return nil, "", err
	}
	err = s.store.View(ctx, func(r store.Reader) error {
		list, next, err = r.ListTemplates(p.Tenant, f, page)
		return err
	})
	for i := range list {
		s.templates.show(&list[i])
	}
	return list, next, err
}

// GetTemplate finds a template by id or name; one that is being built is returned with its progress.
func (s *Service) GetTemplate(ctx context.Context, p Principal, ref string) (core.Template, error) {
	if err := p.may("GetTemplate"); err != nil {
		return core.Template{}, err
	}
	if err := p.needKey(); err != nil {
		return core.Template{}, err
	}
	return s.templates.any(ctx, p.Tenant, ref)
}

// any finds a template, ready or not, in one moment: between two looks it could become ready and be seen by neither.
func (t *templates) any(ctx context.Context, tenant core.TenantID, ref string) (rec core.Template, err error) {
	parsed, ok := core.ParseTemplateRef(ref)
	if !ok {
		return rec, errNoTemplate
	}
	err = t.store.View(ctx, func(r store.Reader) error {
		rec, err = r.Template(tenant, parsed)
		if !core.IsCode(err, core.CodeNotFound) || parsed.Name == "" || parsed.Version != 0 || parsed.Tag != "" {
			return err
		}
		unready, ok, lookErr := findUnready(r, tenant, parsed.Name)
		if lookErr != nil {
			return lookErr
		}
		if ok {
			rec, err = unready, nil
		}
		return err
	})
	t.show(&rec)
	return rec, err
}

// errNoTemplate is the answer about what is no template, or not the caller's.
var errNoTemplate = core.Errorf(core.CodeNotFound, "no such template")

// show fills in how far the making of a tenant's own template is.
func (t *templates) show(rec *core.Template) {
	if rec.State != core.TemplateBuilding || rec.Tenant == core.SystemTenant {
		return
	}
	if p, ok := t.underWay.ofTemplate(rec.ID); ok {
		rec.Progress, rec.Percent = p.Step, max(p.Percent, 0)
	}
}

// system finds a template of the server's own that is ready.
func (t *templates) system(ctx context.Context, name string) (rec core.Template, err error) {
	err = t.store.View(ctx, func(r store.Reader) error {
		rec, err = r.Template(core.SystemTenant, core.TemplateRef{Name: name})
		return err
	})
	return rec, err
}

// unready finds a system template that is not there yet.
func (t *templates) unready(ctx context.Context, name string) (found core.Template, ok bool) {
	err := t.store.View(ctx, func(r store.Reader) (err error) {
		found, ok, err = findUnready(r, core.SystemTenant, name)
		return err
	})
	return found, ok && err == nil
}

// findUnready looks for a template that is being built, the tenant's own before the system's, or else for one of the system that could
// not be built.
func findUnready(r store.Reader, tenant core.TenantID, name string) (found core.Template, ok bool, err error) {
	for _, state := range []core.TemplateState{core.TemplateFailed, core.TemplateBuilding} {
		list, err := r.TemplatesInState(state)
		if err != nil {
			return found, false, err
		}
		for _, rec := range list {
			public := rec.Tenant == core.SystemTenant && rec.Visibility == core.VisibilityPublic
			if rec.Name == name && (public && found.Tenant != tenant || rec.Tenant == tenant) {
				found, ok = rec, true
			}
		}
	}
	return found, ok, nil
}

// templateRetryAfter is when a caller who wants a template that is being built may ask again.
const templateRetryAfter = 2 * time.Second

// ready finds a template that is ready, or says why it is not.
func (t *templates) ready(ctx context.Context, tenant core.TenantID, ref string) (core.Template, error) {
	rec, err := t.any(ctx, tenant, ref)
	if core.IsCode(err, core.CodeNotFound) {
		return rec, &core.Error{Code: core.CodeNotFound, Field: "template", Message: "there is no template " + clip(ref)}
	}
	if err != nil || rec.State == core.TemplateReady {
		return rec, err
	}
	if rec.State == core.TemplateFailed {
		return rec, &core.Error{
			Code: core.CodeUnavailable, Field: "template", RetryAfter: templateRetryMost,
			Message: "template " + rec.Name + " could not be built, and will be tried again: " + rec.Failure,
		}
	}
	return rec, &core.Error{
		Code: core.CodeUnavailable, Field: "template", RetryAfter: templateRetryAfter,
		Message: "template " + rec.Name + " is still being built: " + rec.Progress,
	}
}
