package control

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// keeping looks after tenants' own templates once they are there: tags and deletes. Its exported methods are Service's.
type keeping struct{ *deps }

// maxTags bounds how many tags point to one version.
const maxTags = 32

// TagTemplate makes a tag point to a version of the tenant's own, wherever it pointed before.
func (k *keeping) TagTemplate(ctx context.Context, p Principal, ref, tag string) (rec core.Template, err error) {
	if err := p.may("TagTemplate"); err != nil {
		return rec, err
	}
	if err := p.needKey(); err != nil {
		return rec, err
	}
	if err := core.CheckTag("tag", tag); err != nil {
		return rec, err
	}
	err = k.store.Update(ctx, func(tx store.Tx) error {
		if rec, err = ownTemplate(tx, p, ref); err != nil {
			return err
		}
		if rec.State != core.TemplateReady {
			return core.Errorf(core.CodeConflict, "%s is still being made: tag it when it is ready", rec.Ref())
		}
		if err := k.tag(tx, rec, tag, p.Actor); err != nil {
			return err
		}
		rec, err = tx.TemplateByID(rec.ID)
		return err
	})
	if err == nil {
		k.waiters.wake(p.Tenant)
	}
	return rec, err
}

// tag points a tag to a version.
func (k *keeping) tag(tx store.Tx, rec core.Template, tag string, actor core.Actor) error {
	if err := tx.TagTemplate(rec.Tenant, rec.Name, tag, rec.ID); err != nil {
		return err
	}
	now, err := tx.TemplateByID(rec.ID)
	if err != nil {
		return err
	}
	if len(now.Tags) > maxTags {
		return core.Invalid("tag", "at most %d tags point to one version: take one away first", maxTags)
	}
	return templateEvent(tx, rec, core.EventTemplateTagged, actor, k.clock.Now(), map[string]string{"tag": tag})
}

// UntagTemplate takes a tag away from the name of a template.
func (k *keeping) UntagTemplate(ctx context.Context, p Principal, ref, tag string) error {
	if err := p.may("UntagTemplate"); err != nil {
		return err
	}
	if err := p.needKey(); err != nil {
		return err
	}
	err := k.store.Update(ctx, func(tx store.Tx) error {
		named, err := ownTemplate(tx, p, ref)
		if err != nil {
			return err
		}
		if tag == core.LatestTag {
			return core.Invalid("tag", "latest is always the newest version: it can't be taken away")
		}
		rec, err := ownTemplate(tx, p, named.Name+":"+tag)
		if err != nil {
			return err
		}
		if err := tx.UntagTemplate(p.Tenant, rec.Name, tag); err != nil {
			return err
		}
		return templateEvent(tx, rec, core.EventTemplateUntagged, p.Actor, k.clock.Now(), map[string]string{"tag": tag})
	})
	if err == nil {
		k.waiters.wake(p.Tenant)
	}
	return err
}

// ownTemplate finds one version that the caller may change: a template of the system is everybody's to use and nobody's to change.
func ownTemplate(r store.Reader, p Principal, ref string) (core.Template, error) {
	parsed, ok := core.ParseTemplateRef(ref)
	if !ok {
		return core.Template{}, errNoTemplate
	}
	rec, err := r.Template(p.Tenant, parsed)
	if err == nil && rec.Tenant != p.Tenant {
		return core.Template{}, core.Errorf(core.CodeDenied, "%s came with the server: it can be used and not changed", rec.Ref())
	}
	return rec, err
}

// DeleteTemplate makes one version gone, or with a bare name all versions of it, durably and at once; the files are removed in the
// background. If a sandbox that is not deleted started from one of them, none is deleted.
func (k *keeping) DeleteTemplate(ctx context.Context, p Principal, ref string) error {
	if err := p.may("DeleteTemplate"); err != nil {
		return err
	}
	if err := p.needKey(); err != nil {
		return err
	}
	var gone []core.Template
	err := k.store.Update(ctx, func(tx store.Tx) (err error) {
		if gone, err = versionsToDelete(tx, p, ref); err != nil {
			return err
		}
		for _, rec := range gone {
			if err := k.recordDeleted(tx, p, rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	k.waiters.wake(p.Tenant)
	for _, rec := range gone {
		k.finishSoon(rec.ID)
	}
	return failpoint.Hit(failpoint.ControlTemplateDeleted)
}

// versionsToDelete finds what a reference means to a delete.
func versionsToDelete(r store.Reader, p Principal, ref string) (list []core.Template, err error) {
	parsed, ok := core.ParseTemplateRef(ref)
	if !ok || parsed.Name == "" || parsed.Version != 0 || parsed.Tag != "" || ref != parsed.Name {
		rec, err := ownTemplate(r, p, ref)
		return []core.Template{rec}, err
	}
	filter := store.TemplateFilter{Name: parsed.Name, Own: true}
	for page := (store.Page{Limit: 100}); ; {
		var some []core.Template
		if some, page.Cursor, err = r.ListTemplates(p.Tenant, filter, page); err != nil {
			return nil, err
		}
		if list = append(list, some...); page.Cursor == "" {
			break
		}
	}
	if len(list) == 0 {
		_, err := ownTemplate(r, p, ref) // It says why.
		if err == nil {
			err = errNoTemplate
		}
		return nil, err
	}
	return list, nil
}

func (k *keeping) recordDeleted(tx store.Tx, p Principal, rec core.Template) error {
	if rec.State == core.TemplateBuilding {
		return core.Errorf(core.CodeConflict, "%s is still being made: cancel its operation instead", rec.Ref())
	}
	most := namedUsers
	if len(p.Labels) > 0 {
		most = 0 // Such a key doesn't see all sandboxes.
	}
	users, names, err := tx.TemplateUsers(p.Tenant, rec.ID, most)
	if err != nil {
		return err
	}
	if users > 0 {
		return core.Errorf(core.CodeConflict, "%s is used by %s", rec.Ref(), inUse(users, names))
	}
	rec.State = core.TemplateDeleted
	if _, err := tx.PutTemplate(rec); err != nil {
		return err
	}
	now := k.clock.Now()
	if err := tx.MeterTemplates(rec.Tenant, now); err != nil {
		return err
	}
	return templateEvent(tx, rec, core.EventTemplateDeleted, p.Actor, now, nil)
}

// namedUsers is how many of the sandboxes that keep a template are named.
const namedUsers = 3

// inUse says which sandboxes are in the way.
func inUse(n int, names []string) string {
	text, what := "1 sandbox", "delete it first"
	if n > 1 {
		text, what = fmt.Sprintf("%d sandboxes", n), "delete them first"
	}
	if len(names) > 0 {
		text += " (" + strings.Join(names, ", ")
		if n > len(names) {
			text += " and others"
		}
		text += ")"
	}
	return text + ": " + what
}

// finishSoon removes a deleted template's files and then its record, in the background, for as long as it takes.
func (k *keeping) finishSoon(id core.TemplateID) {
	k.persist(
		func(ctx context.Context) error {
			if err := k.node.DeleteTemplate(ctx, id); err != nil {
				return err
			}
			if err := failpoint.Hit(failpoint.ControlTemplateTreeGone); err != nil {
				return err
			}
			return k.store.Update(ctx, func(tx store.Tx) error { return tx.ForgetTemplate(id) })
		},
		func(err error) {
			k.log.Warn("removal of a template will be tried again", slog.String("template_id", string(id)), slog.Any("err", err))
		})
}

// finish goes on with the removals that a restart cut off.
func (k *keeping) finish(ctx context.Context) error {
	return k.store.View(ctx, func(r store.Reader) error {
		list, err := r.TemplatesInState(core.TemplateDeleted)
		for _, rec := range list {
			k.finishSoon(rec.ID)
		}
		return err
	})
}
