package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// making makes tenants' own templates: of images, of archives that callers upload, and of the files of sandboxes. Its exported methods are
// Service's.
type making struct {
	*deps
	operations *operations
	keeping    *keeping
	logins     *registryLogins
	once       *once
	// importer may be nil, if this server imports no images.
	importer ImageImporter
	spool    Spool
}

// The facts of a template's operation: the id and name@version of what it makes, and the upload that it needs.
const (
	targetTemplate = "template_id"
	targetName     = "template"
	targetUpload   = "upload_id"
)

// makeTime bounds how long the making of one template takes.
const makeTime = 3 * time.Hour

// makeIntent is what is needed to make a template again after a restart. A password is never in it.
type makeIntent struct {
	Ref      string                 `json:"ref,omitempty"`
	Platform string                 `json:"platform,omitempty"`
	Upload   core.UploadID          `json:"upload,omitempty"`
	Tags     []string               `json:"tags,omitempty"`
	Config   core.TemplateOverrides `json:"config"`
}

// CreateTemplate begins to make the next version of a template, and returns the operation that does it.
func (m *making) CreateTemplate(ctx context.Context, p Principal, spec core.TemplateSpec) (core.Operation, error) {
	if err := p.may("CreateTemplate"); err != nil {
		return core.Operation{}, err
	}
	if err := p.needKey(); err != nil {
		return core.Operation{}, err
	}
	if err := checkTemplate(spec); err != nil {
		return core.Operation{}, err
	}
	turn, err := m.once.begin(ctx, p, "template", spec.Once)
	if err != nil {
		return core.Operation{}, err
	}
	defer turn.over()
	if turn != nil && turn.found != nil {
		return m.before(ctx, p, turn)
	}
	var in intended
	switch {
	case spec.Sandbox != "":
		in = m.ofSandbox(p, spec)
	case spec.Checkpoint != "":
		in = m.ofCheckpoint(p, spec)
	default:
		if in, err = m.ofImage(p, spec); err != nil {
			return core.Operation{}, err
		}
	}
	record := in.record
	in.record = func(tx store.Tx, op *core.Operation) error {
		if err := record(tx, op); err != nil {
			return err
		}
		return turn.began(tx, op.ID)
	}
	return m.operations.begin(ctx, p, in)
}

// before returns the operation that an earlier call with the key began, as it is by now.
func (m *making) before(ctx context.Context, p Principal, t *turn) (op core.Operation, err error) {
	err = m.store.View(ctx, func(r store.Reader) error {
		op, err = r.Operation(p.Tenant, t.found.Operation)
		return err
	})
	if core.IsCode(err, core.CodeNotFound) {
		err = errForgotten
	}
	if err != nil {
		return core.Operation{}, err
	}
	m.operations.show(&op)
	t.repeated()
	return op, nil
}

// ofImage is an import that is to begin.
func (m *making) ofImage(p Principal, spec core.TemplateSpec) (intended, error) {
	if m.importer == nil {
		return intended{}, core.Errorf(core.CodeUnsupported, "this server imports no images")
	}
	intent := makeIntent{
		Ref: spec.Image.Ref, Platform: spec.Image.Platform, Upload: spec.Upload, Tags: spec.Tags, Config: spec.Config,
	}
	target := map[string]string{}
	src := spec.Image
	if spec.Upload != "" {
		target[targetUpload] = string(spec.Upload)
		var err error
		if src, err = m.uploaded(p.Tenant, intent); err != nil {
			return intended{}, err
		}
	} else {
		target["from_image"] = src.Ref
	}
	in := intended{kind: core.WorkTemplateImport, intent: intent}
	if src.Username != "" || src.Password != "" {
		in.intent = nil // Without them it can't be done again, and nobody keeps them.
	} else if src.Ref != "" {
		src.Login = m.logins.finder(p.Tenant)
	}
	rec := m.draft(p, spec)
	in.record = func(tx store.Tx, op *core.Operation) error { return m.record(tx, p, rec, op, target) }
	in.do = func(ctx context.Context, op core.Operation, report func(core.OperationProgress)) (workResult, error) {
		return m.imported(ctx, op, intent, src, report)
	}
	return in, nil
}

// uploaded is the source of an import of an upload.
func (m *making) uploaded(tenant core.TenantID, in makeIntent) (core.ImageSource, error) {
	path, err := m.spool.Path(tenant, in.Upload)
	return core.ImageSource{Archive: path, Platform: in.Platform}, err
}

// draft is the record of a new version before it is made.
func (m *making) draft(p Principal, spec core.TemplateSpec) core.Template {
	return core.Template{
		ID: core.TemplateID(core.NewID()), Tenant: p.Tenant, Name: spec.Name, Visibility: core.VisibilityPrivate,
		State: core.TemplateBuilding, Progress: "starting", CreatedAt: m.clock.Now(),
	}
}

// record records a version that is being made, in the transaction that records the operation.
func (m *making) record(tx store.Tx, p Principal, rec core.Template, op *core.Operation, target map[string]string) error {
	if err := m.quotas.template(tx, p.Tenant, 1, 0); err != nil {
		return err
	}
	rec, err := tx.PutTemplate(rec)
	if err != nil {
		return err
	}
	op.Target = map[string]string{targetTemplate: string(rec.ID), targetName: rec.Ref()}
	for k, v := range target {
		op.Target[k] = v
	}
	return templateEvent(tx, rec, core.EventTemplateImporting, p.Actor, op.CreatedAt, map[string]string{"operation_id": string(op.ID)})
}

// imported does an import.
func (m *making) imported(
	ctx context.Context, op core.Operation, in makeIntent, src core.ImageSource, report func(core.OperationProgress),
) (workResult, error) {
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	id := core.TemplateID(op.Target[targetTemplate])
	// What an attempt that was cut off has left may be whole, but nobody knows its config.
	if err := m.node.DeleteTemplate(ctx, id); err != nil {
		return workResult{}, err
	}
	var built BuiltTemplate
	info, err := m.node.ImportTemplate(ctx, id, func(ctx context.Context, dir string) (err error) {
		built, err = m.importer(ctx, src, dir, report)
		return err
	})
	if err == nil {
		err = failpoint.Hit(failpoint.ControlTemplateMade)
	}
	if err != nil {
		return workResult{}, inTime(ctx, err)
	}
	built.Config = in.Config.Apply(built.Config)
	return m.made(op, in, built, info), nil
}

// inTime says of an error that it came because the work took too long, if it did.
func inTime(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return core.Wrap(core.CodeTimeout, err, "it took longer than %d hours", int(makeTime/time.Hour))
	}
	return err
}

// made is the result of an operation that has made a template's tree.
func (m *making) made(op core.Operation, in makeIntent, built BuiltTemplate, info core.TreeInfo) workResult {
	return workResult{
		Result: map[string]string{
			targetTemplate: op.Target[targetTemplate], targetName: op.Target[targetName], "digest": info.Digest,
		},
		Commit: func(tx store.Tx) error {
			rec, err := tx.TemplateByID(core.TemplateID(op.Target[targetTemplate]))
			if err != nil {
				return err
			}
			if err := m.quotas.template(tx, rec.Tenant, 0, info.SizeBytes); err != nil {
				return err
			}
			now := m.clock.Now()
			rec.State, rec.Progress, rec.Percent, rec.ReadyAt = core.TemplateReady, "ready", 100, now
			rec.Source, rec.Packages, rec.Config = built.Source, built.Packages, built.Config
			rec.Digest, rec.SizeBytes, rec.OwnBytes, rec.Files = info.Digest, info.SizeBytes, info.OwnBytes, info.Files
			if rec, err = tx.PutTemplate(rec); err != nil {
				return err
			}
			if err := tx.MeterTemplates(rec.Tenant, now); err != nil {
				return err
			}
			if err := templateEvent(tx, rec, core.EventTemplateReady, op.Actor, now, nil); err != nil {
				return err
			}
			for _, tag := range in.Tags {
				if err := m.keeping.tag(tx, rec, tag, op.Actor); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// resume returns the work of an import that a restart cut off.
func (m *making) resume(_ context.Context, op core.Operation) (work, error) {
	var in makeIntent
	if err := json.Unmarshal([]byte(op.Intent), &in); err != nil {
		return nil, fmt.Errorf("read intent: %w", err)
	}
	src := core.ImageSource{Ref: in.Ref, Platform: in.Platform, Login: m.logins.finder(op.Tenant)}
	if in.Upload != "" {
		var err error
		if src, err = m.uploaded(op.Tenant, in); err != nil {
			return nil, err
		}
	}
	if m.importer == nil {
		return nil, core.Errorf(core.CodeUnsupported, "this server imports no images")
	}
	return func(ctx context.Context, op core.Operation, report func(core.OperationProgress)) (workResult, error) {
		return m.imported(ctx, op, in, src, report)
	}, nil
}

// abandon makes a version that came to nothing as if it had never been, but for its number.
func (m *making) abandon(tx store.Tx, op core.Operation, cause error) error {
	rec, err := tx.TemplateByID(core.TemplateID(op.Target[targetTemplate]))
	if core.IsCode(err, core.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	rec.State = core.TemplateDeleted
	if _, err := tx.PutTemplate(rec); err != nil {
		return err
	}
	return templateEvent(tx, rec, core.EventTemplateFailed, op.Actor, m.clock.Now(), map[string]string{
		"operation_id": string(op.ID), "code": string(core.CodeOf(cause)), "reason": publicMessage(cause),
	})
}

// ended removes what an operation has needed, and what it has left if it came to nothing.
func (m *making) ended(op core.Operation, state core.OperationState) {
	if id := core.UploadID(op.Target[targetUpload]); id != "" {
		if err := m.spool.Delete(op.Tenant, id); err != nil {
			m.log.Warn("remove an upload: it will be removed when it is too old", slog.String("operation_id", string(op.ID)), slog.Any("err", err))
		}
	}
	if state != core.OperationSucceeded {
		m.keeping.finishSoon(core.TemplateID(op.Target[targetTemplate]))
	}
}

// templateEvent adds an event about a template to the transaction that makes it true.
func templateEvent(
	tx store.Tx, rec core.Template, t core.EventType, actor core.Actor, at time.Time, data map[string]string,
) error {
	facts := map[string]string{"template": rec.Ref(), "template_id": string(rec.ID)}
	if rec.Digest != "" {
		facts["digest"] = rec.Digest
	}
	for k, v := range data {
		facts[k] = v
	}
	_, err := tx.AppendEvent(core.Event{Tenant: rec.Tenant, Type: t, At: at, Actor: actor, Data: facts})
	return err
}
