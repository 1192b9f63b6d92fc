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

// ListTemplates returns a page of the templates that the tenant may use.
func (s *Service) ListTemplates(ctx context.Context, p Principal, page store.Page) (list []core.Template, next string, err error) {
	err = s.store.View(ctx, func(r store.Reader) error {
		list, next, err = r.ListTemplates(p.Tenant, page)
		return err
	})
	return list, next, err
}

// GetTemplate finds a template by id or name; one that is being built is returned with its progress.
func (s *Service) GetTemplate(ctx context.Context, p Principal, ref string) (core.Template, error) {
	t, err := s.findTemplate(ctx, p.Tenant, ref)
	if core.IsCode(err, core.CodeNotFound) {
		if unready, ok := s.unready(ctx, ref); ok {
			return unready, nil
		}
	}
	return t, err
}

func (s *Service) findTemplate(ctx context.Context, tenant core.TenantID, ref string) (t core.Template, err error) {
	err = s.store.View(ctx, func(r store.Reader) error {
		t, err = r.Template(tenant, ref)
		return err
	})
	return t, err
}

// unready finds a system template that is not there yet.
func (s *Service) unready(ctx context.Context, name string) (found core.Template, ok bool) {
	err := s.store.View(ctx, func(r store.Reader) error {
		for _, state := range []core.TemplateState{core.TemplateFailed, core.TemplateBuilding} {
			list, err := r.TemplatesInState(state)
			if err != nil {
				return err
			}
			for _, t := range list {
				if t.Name == name && t.Visibility == core.VisibilityPublic {
					found, ok = t, true
				}
			}
		}
		return nil
	})
	return found, ok && err == nil
}

// templateRetryAfter is when a caller who wants a template that is being built may ask again.
const templateRetryAfter = 2 * time.Second

// template finds a template that is ready, or says why it is not.
func (s *Service) template(ctx context.Context, tenant core.TenantID, ref string) (core.Template, error) {
	t, err := s.findTemplate(ctx, tenant, ref)
	if err == nil && t.State == core.TemplateReady {
		return t, nil
	}
	if err != nil && !core.IsCode(err, core.CodeNotFound) {
		return t, err
	}
	if err != nil {
		var ok bool
		if t, ok = s.unready(ctx, ref); !ok {
			return t, &core.Error{Code: core.CodeNotFound, Field: "template", Message: "there is no template " + clip(ref)}
		}
	}
	if t.State == core.TemplateFailed {
		return t, &core.Error{Code: core.CodeUnavailable, Field: "template", RetryAfter: templateRetryMost,
			Message: "template " + t.Name + " could not be built, and will be tried again: " + t.Failure}
	}
	return t, &core.Error{Code: core.CodeUnavailable, Field: "template", RetryAfter: templateRetryAfter,
		Message: "template " + t.Name + " is still being built: " + t.Progress}
}
