package control

import (
	"context"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// Retries of a template that could not be built: the network may come back.
const (
	templateRetryFirst = 15 * time.Second
	templateRetryMost  = 10 * time.Minute
	// progressEvery bounds how often progress is written to the store.
	progressEvery = 300 * time.Millisecond
)

// bootstrapLoop makes the templates that come with the server, one after the other.
func (s *Service) bootstrapLoop(ctx context.Context) {
	for _, name := range s.cfg.Bootstrap {
		for wait := templateRetryFirst; ; wait = min(2*wait, templateRetryMost) {
			err := s.ensureTemplate(ctx, name)
			if err == nil || ctx.Err() != nil {
				break
			}
			s.log.Error("template could not be built", "template", name, "retry_in", wait.String(), "err", err)
			select {
			case <-ctx.Done():
			case <-s.clock.After(wait):
			}
			if ctx.Err() != nil {
				break
			}
		}
	}
}

// ensureTemplate makes a system template unless it is there, tree and record.
func (s *Service) ensureTemplate(ctx context.Context, name string) error {
	t, err := s.findTemplate(ctx, core.SystemTenant, name)
	if err == nil && t.State == core.TemplateReady {
		has, err := s.node.HasTemplate(ctx, t.ID)
		if err != nil || has {
			return err
		}
		s.log.Warn("the tree of a template is gone: it is built anew", "template", name, "template_id", string(t.ID))
		t.State, t.Failure = core.TemplateFailed, "its tree is gone from the node"
		if err := s.putTemplate(ctx, &t); err != nil {
			return err
		}
	} else if err != nil && !core.IsCode(err, core.CodeNotFound) {
		return err
	}
	return s.buildTemplate(ctx, name)
}

// buildTemplate builds a new version, going on with the record of an attempt that was cut off.
func (s *Service) buildTemplate(ctx context.Context, name string) error {
	t, again := s.unready(ctx, name)
	if !again {
		t = core.Template{
			ID: core.TemplateID(core.NewID()), Tenant: core.SystemTenant, Name: name, Visibility: core.VisibilityPublic,
			CreatedAt: s.clock.Now(),
		}
	}
	t.State, t.Progress, t.Percent, t.Failure = core.TemplateBuilding, "starting", 0, ""
	if err := s.putTemplate(ctx, &t); err != nil {
		return err
	}
	if err := s.node.DeleteTemplate(ctx, t.ID); err != nil {
		return err
	}
	progress := s.templateProgress(ctx, t)
	var built BuiltTemplate
	info, err := s.node.ImportTemplate(ctx, t.ID, func(ctx context.Context, dir string) (err error) {
		built, err = s.cfg.Build(ctx, name, dir, progress)
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return s.templateFailed(ctx, t, err)
	}
	t.State, t.Progress, t.Percent, t.ReadyAt = core.TemplateReady, "ready", 100, s.clock.Now()
	t.Source, t.Packages, t.Config = built.Source, built.Packages, built.Config
	t.Digest, t.SizeBytes = info.Digest, info.SizeBytes
	s.log.Info("template is ready", "template", name, "digest", t.Digest, "dur_ms", t.ReadyAt.Sub(t.CreatedAt).Milliseconds())
	return s.endTemplate(ctx, t, core.EventTemplateReady)
}

// templateFailed records why a build failed, in words that are safe to show, and returns the cause.
func (s *Service) templateFailed(ctx context.Context, t core.Template, cause error) error {
	t.State, t.Failure = core.TemplateFailed, publicMessage(cause)
	if err := s.endTemplate(ctx, t, core.EventTemplateFailed); err != nil {
		s.log.Error("record a failed template", "template", t.Name, "err", err)
	}
	return cause
}

func (s *Service) endTemplate(ctx context.Context, t core.Template, event core.EventType) error {
	err := s.store.Update(ctx, func(tx store.Tx) error {
		if _, err := tx.PutTemplate(t); err != nil {
			return err
		}
		_, err := tx.AppendEvent(core.Event{
			Tenant: t.Tenant, Type: event, At: s.clock.Now(), Actor: system("bootstrap"), Data: map[string]string{"template": t.Name},
		})
		return err
	})
	if err == nil {
		s.changed(t.Tenant)
	}
	return err
}

func (s *Service) putTemplate(ctx context.Context, t *core.Template) error {
	return s.store.Update(ctx, func(tx store.Tx) (err error) {
		*t, err = tx.PutTemplate(*t)
		return err
	})
}

// templateProgress returns a function that shows progress in the template's record, not more often than is of use.
func (s *Service) templateProgress(ctx context.Context, t core.Template) func(string, int) {
	var mu sync.Mutex
	var last time.Time
	return func(step string, percent int) {
		mu.Lock()
		defer mu.Unlock()
		now := s.clock.Now()
		if step == t.Progress && now.Sub(last) < progressEvery {
			return
		}
		last, t.Progress, t.Percent = now, step, min(max(percent, 0), 99)
		err := s.store.UpdateRelaxed(ctx, func(tx store.Tx) error {
			_, err := tx.PutTemplate(t)
			return err
		})
		if err != nil && ctx.Err() == nil {
			s.log.Warn("show a template's progress", "template", t.Name, "err", err)
		}
	}
}
