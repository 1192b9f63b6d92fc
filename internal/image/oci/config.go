package oci

import (
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"shoal/internal/core"
)

// Bounds of an image's config.
const (
	maxEnv       = 1000
	maxList      = 1000
	maxConfigSum = 128 << 10
)

// defaultPath is PATH where an image has none, as other runtimes have it.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// templateConfig reads what an image says of processes in it. What has no meaning for a sandbox (volumes, health checks, the stop signal,
// commands for a later build) is left out.
func templateConfig(c *v1.ConfigFile) (core.TemplateConfig, error) {
	in := c.Config
	out := core.TemplateConfig{
		User: in.User, Workdir: "/", Env: map[string]string{}, Entrypoint: in.Entrypoint, Cmd: in.Cmd,
		Labels: in.Labels, Ports: slices.Sorted(maps.Keys(in.ExposedPorts)),
	}
	if out.User == "" {
		out.User = "root"
	}
	if in.WorkingDir != "" {
		out.Workdir = path.Join("/", in.WorkingDir)
	}
	if len(in.Env) > maxEnv || len(out.Entrypoint)+len(out.Cmd) > maxList || len(out.Labels) > maxList || len(out.Ports) > maxList {
		return out, core.Errorf(core.CodeInvalid, "the image's config has more than %d values in a list", maxList)
	}
	for _, entry := range in.Env {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return out, core.Errorf(core.CodeInvalid, "the image's environment has %q, which is not NAME=VALUE", clip(entry, 100))
		}
		out.Env[name] = value
	}
	if out.Env["PATH"] == "" {
		out.Env["PATH"] = defaultPath
	}
	return out, checkConfig(out)
}

// checkConfig holds that every text is one, and that they are not too large together.
func checkConfig(c core.TemplateConfig) error {
	sum := 0
	check := func(what string, texts ...string) error {
		for _, text := range texts {
			sum += len(text)
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return core.Errorf(core.CodeInvalid, "the image's %s has a value that is no text: %q", what, clip(text, 100))
			}
		}
		if sum > maxConfigSum {
			return core.Errorf(core.CodeInvalid, "the image's config has more than %d KiB of text", maxConfigSum>>10)
		}
		return nil
	}
	for _, list := range []struct {
		what  string
		texts []string
	}{
		{"USER", []string{c.User}},
		{"WORKDIR", []string{c.Workdir}},
		{"environment", slices.Concat(slices.Collect(maps.Keys(c.Env)), slices.Collect(maps.Values(c.Env)))},
		{"ENTRYPOINT", c.Entrypoint},
		{"CMD", c.Cmd},
		{"labels", slices.Concat(slices.Collect(maps.Keys(c.Labels)), slices.Collect(maps.Values(c.Labels)))},
		{"ports", c.Ports},
	} {
		if err := check(list.what, list.texts...); err != nil {
			return err
		}
	}
	return nil
}
