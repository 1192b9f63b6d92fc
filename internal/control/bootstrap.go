package control

import (
	"context"
	"log/slog"
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

// loop makes the templates that come with the server, one after the other.
func (t *templates) loop(ctx context.Context) {
	for _, name := range t.names {
		for wait := templateRetryFirst; ; wait = min(2*wait, templateRetryMost) {
			err := t.ensure(ctx, name)
			if err == nil || ctx.Err() != nil {
				break
			}
			t.log.Error("template could not be built", slog.String("template", name),
				slog.String("retry_in", wait.String()), slog.Any("err", err))
			if !pause(ctx, t.clock, wait) {
				break
			}
		}
	}
}

// ensure makes a system template unless it is there, tree and record.
func (t *templates) ensure(ctx context.Context, name string) error {
	rec, err := t.system(ctx, name)
	if err == nil && rec.State == core.TemplateReady {
		has, err := t.node.HasTemplate(ctx, rec.ID)
		if err != nil || has {
			return err
		}
		t.log.Warn("the tree of a template is gone: it is built anew",
			slog.String("template", name), slog.String("template_id", string(rec.ID)))
		rec.State, rec.Failure = core.TemplateFailed, "its tree is gone from the node"
		if err := t.put(ctx, &rec); err != nil {
			return err
		}
	} else if err != nil && !core.IsCode(err, core.CodeNotFound) {
		return err
	}
	return t.make(ctx, name)
}

// make builds a new version, going on with the record of an attempt that was cut off.
func (t *templates) make(ctx context.Context, name string) error {
	rec, again := t.unready(ctx, name)
	if !again {
		rec = core.Template{
			ID: core.TemplateID(core.NewID()), Tenant: core.SystemTenant, Name: name, Visibility: core.VisibilityPublic,
			CreatedAt: t.clock.Now(),
		}
	}
	rec.State, rec.Progress, rec.Percent, rec.Failure = core.TemplateBuilding, "starting", 0, ""
	if err := t.put(ctx, &rec); err != nil {
		return err
	}
	if err := t.node.DeleteTemplate(ctx, rec.ID); err != nil {
		return err
	}
	progress := t.progress(ctx, rec)
	var built BuiltTemplate
	info, err := t.node.ImportTemplate(ctx, rec.ID, func(ctx context.Context, dir string) (err error) {
		built, err = t.build(ctx, name, dir, progress)
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return t.failed(ctx, rec, err)
	}
	rec.State, rec.Progress, rec.Percent, rec.ReadyAt = core.TemplateReady, "ready", 100, t.clock.Now()
	rec.Source, rec.Packages, rec.Config = built.Source, built.Packages, built.Config
	rec.Digest, rec.SizeBytes, rec.Files = info.Digest, info.SizeBytes, info.Files
	t.log.Info("template is ready", slog.String("template", name), slog.String("digest", rec.Digest),
		slog.Int64("dur_ms", rec.ReadyAt.Sub(rec.CreatedAt).Milliseconds()))
	return t.ended(ctx, rec, core.EventTemplateReady)
}

// failed records why a build failed, in words that are safe to show, and returns the cause.
func (t *templates) failed(ctx context.Context, rec core.Template, cause error) error {
	rec.State, rec.Failure = core.TemplateFailed, publicMessage(cause)
	if err := t.ended(ctx, rec, core.EventTemplateFailed); err != nil {
		t.log.Error("record a failed template", slog.String("template", rec.Name), slog.Any("err", err))
	}
	return cause
}

// ended records how a build ended, and the event.
func (t *templates) ended(ctx context.Context, rec core.Template, event core.EventType) error {
	err := t.store.Update(ctx, func(tx store.Tx) error {
		if _, err := tx.PutTemplate(rec); err != nil {
			return err
		}
		_, err := tx.AppendEvent(core.Event{
			Tenant: rec.Tenant, Type: event, At: t.clock.Now(), Actor: system("bootstrap"), Data: map[string]string{"template": rec.Name},
		})
		return err
	})
	if err == nil {
		t.waiters.wake(rec.Tenant)
	}
	return err
}

func (t *templates) put(ctx context.Context, rec *core.Template) error {
	return t.store.Update(ctx, func(tx store.Tx) (err error) {
		*rec, err = tx.PutTemplate(*rec)
		return err
	})
}

// progress returns a function that shows progress in the template's record, not more often than is of use.
func (t *templates) progress(ctx context.Context, rec core.Template) func(string, int) {
	var mu sync.Mutex
	var last time.Time
	return func(step string, percent int) {
		mu.Lock()
		defer mu.Unlock()
		now := t.clock.Now()
		if step == rec.Progress && now.Sub(last) < progressEvery {
			return
		}
		last, rec.Progress, rec.Percent = now, step, min(max(percent, 0), 99)
		err := t.store.UpdateRelaxed(ctx, func(tx store.Tx) error {
			_, err := tx.PutTemplate(rec)
			return err
		})
		if err != nil && ctx.Err() == nil {
			t.log.Warn("show a template's progress", slog.String("template", rec.Name), slog.Any("err", err))
		}
	}
}
