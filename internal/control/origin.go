package control

import (
	"context"

	"shoal/internal/core"
	"shoal/internal/store"
)

// origins finds what new sandboxes start from.
type origins struct {
	*deps
	templates *templates
}

// origin is what a new sandbox starts from: a template, or a checkpoint with what that says of it.
type origin struct {
	template     core.TemplateID
	templateName string
	source       core.CheckpointID
	config       core.TemplateConfig
}

// checkOrigin refuses a sandbox that is to start from two things.
func checkOrigin(spec core.SandboxSpec) error {
	if spec.From != "" && spec.Template != "" {
		return core.Invalid("from_checkpoint", "a sandbox starts from a template or from a checkpoint: give one of them")
	}
	return nil
}

// checkpoint finds the one that a sandbox is to start from; it is zero if it starts from a template.
func (o *origins) checkpoint(ctx context.Context, p Principal, spec core.SandboxSpec) (rec core.Checkpoint, err error) {
	if err := checkOrigin(spec); err != nil || spec.From == "" {
		return rec, err
	}
	err = o.store.View(ctx, func(r store.Reader) error {
		rec, err = p.findCheckpoint(r, spec.From)
		return err
	})
	if core.IsCode(err, core.CodeNotFound) {
		err = &core.Error{Code: core.CodeNotFound, Field: "from_checkpoint", Message: "there is no checkpoint " + clip(string(spec.From))}
	}
	return rec, err
}

// of returns what a sandbox starts from: saved, unless that is zero.
func (o *origins) of(ctx context.Context, p Principal, spec core.SandboxSpec, saved core.Checkpoint) (origin, error) {
	if saved.ID != "" {
		return originOf(saved), nil
	}
	tmpl, err := o.templates.ready(ctx, p.Tenant, spec.Template)
	return origin{template: tmpl.ID, templateName: tmpl.Name, config: tmpl.Config}, err
}

func originOf(saved core.Checkpoint) origin {
	return origin{template: saved.Template, templateName: saved.TemplateName, source: saved.ID, config: saved.Config}
}

// mark writes into a new record what its sandbox starts from.
func (o origin) mark(sb *core.Sandbox) {
	sb.Template, sb.TemplateName = o.template, o.templateName
	if o.source != "" {
		sb.Source, sb.Head, sb.Config = o.source, o.source, &o.config
	}
}

// treeOf is what a new sandbox's tree is made of.
func treeOf(sb core.Sandbox) core.TreeSource {
	if sb.Source != "" {
		return core.TreeSource{Checkpoint: sb.Source}
	}
	return core.TreeSource{Template: sb.Template}
}

// configOf says how a sandbox's processes are started. Every use case that must know asks here: the template of one that started from a
// checkpoint may be gone.
func configOf(r store.Reader, sb core.Sandbox) (core.TemplateConfig, error) {
	if sb.Config != nil {
		return *sb.Config, nil
	}
	tmpl, err := r.TemplateByID(sb.Template)
	return tmpl.Config, err
}

// namedConfigOf is configOf with the name of the template, of which the version is left out if it is gone.
func namedConfigOf(r store.Reader, sb core.Sandbox) (config core.TemplateConfig, name string, err error) {
	tmpl, err := r.TemplateByID(sb.Template)
	switch {
	case err == nil:
		name = tmpl.Ref()
	case core.IsCode(err, core.CodeNotFound):
		name = sb.TemplateName
	default:
		return config, "", err
	}
	config, err = configOf(r, sb)
	return config, name, err
}

// stillThere refuses what was deleted since it was looked up. A template is held by the record of its sandbox from here on; the files of a
// checkpoint are cloned next, or the create fails.
func stillThere(r store.Reader, sb core.Sandbox) error {
	if sb.Source != "" {
		c, err := r.CheckpointByID(sb.Source)
		if core.IsCode(err, core.CodeNotFound) || err == nil && c.State != core.CheckpointReady {
			return &core.Error{Code: core.CodeNotFound, Field: "from_checkpoint", Message: "the checkpoint was deleted meanwhile"}
		}
		return err
	}
	t, err := r.TemplateByID(sb.Template)
	if core.IsCode(err, core.CodeNotFound) || err == nil && t.State != core.TemplateReady {
		return &core.Error{Code: core.CodeNotFound, Field: "template", Message: "the template was deleted meanwhile"}
	}
	return err
}

// inherit fills in limits that nobody has named with those of the sandbox that is copied, as far as they are allowed by now.
func (l Limits) inherit(want, from core.Resources) core.Resources {
	from.VCPUs = min(from.VCPUs, l.Max.VCPUs)
	from.MemoryBytes = min(from.MemoryBytes, l.Max.MemoryBytes)
	from.Pids, from.OpenFiles = min(from.Pids, l.Max.Pids), min(from.OpenFiles, l.Max.OpenFiles)
	from.CPUWeight, from.IOWeight = min(from.CPUWeight, l.Max.CPUWeight), min(from.IOWeight, l.Max.IOWeight)
	if l.Max.DiskBytes != 0 {
		from.DiskBytes = min(from.DiskBytes, l.Max.DiskBytes)
	}
	if !l.DiskQuota {
		from.DiskBytes = 0
	}
	if !l.CPUWeight {
		from.CPUWeight = 0
	}
	if l.IOWeightReason != "" {
		from.IOWeight = 0
	}
	return ResourcesPatch(want).Over(from)
}
