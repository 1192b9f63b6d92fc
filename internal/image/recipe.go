package image

import (
	"slices"

	"shoal/internal/core"
)

// Recipe names what a tree holds.
type Recipe string

// The recipes.
const (
	// Minimal is the distribution's base with apt, python3 and ca-certificates, used as root.
	Minimal Recipe = "minimal"
	// Base is a developer's machine: python3 with pip and venv, nodejs, npm, git, curl, sudo, build-essential and jq, with
	// the user "user" (uid 1000), who may use sudo without a password.
	Base Recipe = "base"
)

// recipe is what a Recipe stands for.
type recipe struct {
	packages []string
	// user is made with uid 1000 and passwordless sudo; empty makes none.
	user   string
	config core.TemplateConfig
}

// common are the packages that every tree has beside what the distribution requires: the roots of trust, a resolver that
// knows the machine's own name whatever it is (sudo asks for it at each call, and DNS must not be what answers),
// /etc/protocols and services, ps and top.
func common() []string {
	return []string{"ca-certificates", "libnss-myhostname", "netbase", "procps", "python3"}
}

// environment is what every process of a tree starts with.
func environment() map[string]string {
	return map[string]string{
		"LANG": "C.UTF-8",
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
}

// userEnvironment is what every process of a tree with a user starts with: what pip installs without root can be called
// by name.
func userEnvironment() map[string]string {
	env := environment()
	env["PATH"] = "/home/user/.local/bin:" + env["PATH"]
	return env
}

// lookup returns what a recipe stands for.
func lookup(name Recipe) (recipe, error) {
	switch name {
	case Minimal:
		return recipe{
			packages: common(),
			config:   core.TemplateConfig{User: "root", Workdir: "/root", Env: environment()},
		}, nil
	case Base:
		return recipe{
			packages: slices.Concat(common(), []string{
				"build-essential", "curl", "git", "jq", "less", "nodejs", "npm", "openssh-client", "python3-dev",
				"python3-pip", "python3-venv", "sudo", "unzip", "wget", "xz-utils", "zip",
			}),
			user:   "user",
			config: core.TemplateConfig{User: "user", Workdir: "/home/user", Env: userEnvironment()},
		}, nil
	}
	return recipe{}, core.Invalid("recipe", "no recipe is called %q: there are %s and %s", string(name), Minimal, Base)
}
