package httpapi_test

import (
	"context"
	"io"
	"strings"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

func (f *fakeControl) ListTemplates(
	_ context.Context, _ control.Principal, filter store.TemplateFilter, page store.Page,
) ([]core.Template, string, error) {
	list := []core.Template{f.template(), f.ownTemplate()}
	if filter.Own || filter.Name == "app" {
		list = list[1:]
	} else if filter.Name != "" {
		list = nil
	}
	return paged(list, page)
}

func (f *fakeControl) GetTemplate(_ context.Context, _ control.Principal, ref string) (core.Template, error) {
	for _, t := range []core.Template{f.template(), f.ownTemplate()} {
		if ref == t.Name || ref == string(t.ID) || ref == t.Ref() || ref == t.Digest || len(t.Tags) > 0 && ref == t.Name+":"+t.Tags[0] {
			return t, nil
		}
	}
	return core.Template{}, core.Errorf(core.CodeNotFound, "no such template")
}

// CreateTemplate begins an operation whose target tells what was asked for.
func (f *fakeControl) CreateTemplate(_ context.Context, p control.Principal, spec core.TemplateSpec) (core.Operation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found, err := f.again(p, "template", spec.Once); err != nil || found.op.ID != "" {
		return found.op, err
	}
	if spec.Name == "full" {
		return core.Operation{}, &core.Error{Code: core.CodeQuota, Message: "too many", RetryAfter: time.Second}
	}
	target := map[string]string{
		"template": spec.Name + "@1", "tags": strings.Join(spec.Tags, " "), "ref": spec.Image.Ref, "username": spec.Image.Username,
		"password": strings.Repeat("*", len(spec.Image.Password)), "platform": spec.Image.Platform, "upload": string(spec.Upload), "sandbox": spec.Sandbox,
		"checkpoint": spec.Checkpoint, "env": spec.Config.Env["A"],
	}
	for name, v := range map[string]*string{"user": spec.Config.User, "workdir": spec.Config.Workdir} {
		if v != nil {
			target[name] = *v
		}
	}
	for name, v := range map[string]*[]string{"entrypoint": spec.Config.Entrypoint, "cmd": spec.Config.Cmd} {
		if v != nil {
			target[name] = "[" + strings.Join(*v, " ") + "]"
		}
	}
	for name, v := range target {
		if v == "" {
			delete(target, name)
		}
	}
	op := core.Operation{
		ID: core.OperationID(f.id("o")), Tenant: p.Tenant, Kind: core.WorkTemplateImport, State: core.OperationRunning, Target: target,
		Progress: core.OperationProgress{Step: "starting"}, Actor: p.Actor, CreatedAt: f.now,
	}
	f.operations = append(f.operations, op)
	f.made(p, "template", spec.Once, fakeCall{op: op})
	return op, nil
}

func (f *fakeControl) TagTemplate(ctx context.Context, p control.Principal, ref, tag string) (core.Template, error) {
	t, err := f.GetTemplate(ctx, p, ref)
	if err == nil {
		err = core.CheckTag("tag", tag)
	}
	t.Tags = append(t.Tags, tag)
	return t, err
}

func (f *fakeControl) UntagTemplate(ctx context.Context, p control.Principal, name, tag string) error {
	_, err := f.GetTemplate(ctx, p, name+":"+tag)
	return err
}

func (f *fakeControl) DeleteTemplate(ctx context.Context, p control.Principal, ref string) error {
	t, err := f.GetTemplate(ctx, p, ref)
	if err == nil && t.Tenant == core.SystemTenant {
		return core.Errorf(core.CodeDenied, "%s came with the server", t.Ref())
	}
	return err
}

func (f *fakeControl) PutUpload(_ context.Context, _ control.Principal, r io.Reader) (core.Upload, error) {
	data, err := io.ReadAll(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	return core.Upload{ID: core.UploadID(f.id("u")), SizeBytes: int64(len(data)), Digest: "sha256:00", ExpiresAt: f.now.Add(time.Hour)}, err
}

func (f *fakeControl) DeleteUpload(_ context.Context, _ control.Principal, id core.UploadID) error {
	if id == "u000000000000000000001" {
		return nil
	}
	return core.Errorf(core.CodeNotFound, "no such upload")
}

// fakeLogin is what is kept for a registry of the host.
func (f *fakeControl) fakeLogin(host string) core.RegistryLogin {
	return core.RegistryLogin{Tenant: "t1", Host: host, Username: "ci", Sealed: []byte("sealed"), CreatedAt: epoch, UpdatedAt: epoch.Add(time.Minute)}
}

func (f *fakeControl) PutRegistryLogin(_ context.Context, _ control.Principal, spec core.RegistryLoginSpec) (core.RegistryLogin, error) {
	if spec.Password.Reveal() != "correct horse" {
		return core.RegistryLogin{}, core.Invalid("password", "a login has a password; without a username it is a token")
	}
	l := f.fakeLogin(spec.Host)
	l.Username = spec.Username
	return l, nil
}

func (f *fakeControl) GetRegistryLogin(_ context.Context, _ control.Principal, host string) (core.RegistryLogin, error) {
	if host != "ghcr.io" {
		return core.RegistryLogin{}, core.Errorf(core.CodeNotFound, "no login is kept for this registry")
	}
	return f.fakeLogin(host), nil
}

func (f *fakeControl) ListRegistryLogins(_ context.Context, _ control.Principal, page store.Page) ([]core.RegistryLogin, string, error) {
	return paged([]core.RegistryLogin{f.fakeLogin("ghcr.io"), f.fakeLogin("registry.example:5000")}, page)
}

func (f *fakeControl) DeleteRegistryLogin(ctx context.Context, p control.Principal, host string) error {
	_, err := f.GetRegistryLogin(ctx, p, host)
	return err
}

func (f *fakeControl) template() core.Template {
	return core.Template{
		ID: "t000000000000000000001", Tenant: core.SystemTenant, Name: "base", Version: 1, Visibility: core.VisibilityPublic,
		State: core.TemplateReady, Source: "debian", Digest: "sha256:00", SizeBytes: 1 << 20, Percent: 100,
		Packages: []core.Package{{Name: "python3", Version: "3.13"}}, Config: core.TemplateConfig{User: "user", Workdir: "/home/user"},
		CreatedAt: epoch, ReadyAt: epoch.Add(time.Minute),
	}
}

func (f *fakeControl) ownTemplate() core.Template {
	return core.Template{
		ID: "t000000000000000000002", Tenant: "t1", Name: "app", Version: 3, Tags: []string{"stable"}, Visibility: core.VisibilityPrivate,
		State: core.TemplateReady, Source: "image", Digest: "sha256:" + strings.Repeat("0a", 32), SizeBytes: 1 << 20, Files: 7, Percent: 100,
		Config: core.TemplateConfig{
			User: "1000:1000", Workdir: "/app", Env: map[string]string{"A": "b"}, Entrypoint: []string{"/app"}, Cmd: []string{"-v"},
			Labels: map[string]string{"l": "x"}, Ports: []string{"80/tcp"},
		},
		CreatedAt: epoch, ReadyAt: epoch.Add(time.Minute),
	}
}
