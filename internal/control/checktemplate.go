package control

import (
	"strings"

	"shoal/internal/core"
)

// The bounds of what a caller may say of a template.
const (
	maxNewTags       = 16
	maxRefBytes      = 1024
	maxPlatformBytes = 128
	maxUserBytes     = 256
	maxCredential    = 64 << 10
)

// checkTemplate refuses what no template can be made of.
func checkTemplate(spec core.TemplateSpec) error {
	if err := core.CheckName("name", spec.Name); err != nil {
		return err
	}
	if len(spec.Tags) > maxNewTags {
		return core.Invalid("tags", "at most %d tags at a time", maxNewTags)
	}
	for _, tag := range spec.Tags {
		if err := core.CheckTag("tags", tag); err != nil {
			return err
		}
	}
	if err := checkSource(spec); err != nil {
		return err
	}
	return checkOverrides(spec.Config)
}

// checkSource wants exactly one source, and nothing that only another one takes.
func checkSource(spec core.TemplateSpec) error {
	sources := 0
	for _, s := range []string{spec.Image.Ref, string(spec.Upload), spec.Sandbox, spec.Checkpoint} {
		if s != "" {
			sources++
		}
	}
	img := spec.Image
	switch {
	case sources != 1:
		return core.Invalid("from_image", "say where it comes from by exactly one of from_image, from_upload, from_sandbox and from_checkpoint")
	case img.Ref == "" && (img.Username != "" || img.Password != ""):
		return core.Invalid("username", "username and password are for the registry of from_image")
	case img.Username != "" && img.Password == "":
		return core.Invalid("password", "username needs a password; a password alone is sent as a token")
	case (spec.Sandbox != "" || spec.Checkpoint != "") && img.Platform != "":
		return core.Invalid("platform", "a sandbox has the platform that it has")
	case len(img.Ref) > maxRefBytes:
		return core.Invalid("from_image", "a reference has at most %d bytes", maxRefBytes)
	case len(img.Platform) > maxPlatformBytes:
		return core.Invalid("platform", "a platform has at most %d bytes", maxPlatformBytes)
	case len(img.Username) > maxUserBytes || len(img.Password) > maxCredential:
		return core.Invalid("password", "a username has at most %d bytes, a password %d", maxUserBytes, maxCredential)
	}
	return nil
}

// checkOverrides refuses a config that no process could be started with.
func checkOverrides(o core.TemplateOverrides) error {
	if o.User != nil && (*o.User == "" || len(*o.User) > maxUserBytes || strings.ContainsRune(*o.User, 0)) {
		return core.Invalid("user", "a user is a name or a number, optionally with :group")
	}
	if o.Workdir != nil && (!strings.HasPrefix(*o.Workdir, "/") || len(*o.Workdir) > maxPathBytes || strings.ContainsRune(*o.Workdir, 0)) {
		return core.Invalid("workdir", "a working directory is an absolute path of at most %d bytes", maxPathBytes)
	}
	for field, words := range map[string]*[]string{"entrypoint": o.Entrypoint, "cmd": o.Cmd} {
		if words == nil || len(*words) == 0 {
			continue
		}
		if err := checkExec(core.ExecSpec{Cmd: *words}); err != nil {
			return blame(err, field)
		}
	}
	return checkEnv("env", o.Env)
}
