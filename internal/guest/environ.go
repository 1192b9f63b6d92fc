package guest

import (
	"strings"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns an exec's environment: what every process gets, then the template's, the sandbox's and the
// exec's own, each over the one before.
func environment(id *wire.Identity, acc account, q wire.ExecRequest) (map[string]string, error) {
	env := map[string]string{"PATH": defaultPath, "HOME": "/", "SHELL": "/bin/sh"}
	if acc.home != "" {
		env["HOME"] = acc.home
	}
	if acc.shell != "" {
		env["SHELL"] = acc.shell
	}
	if acc.name != "" {
		env["USER"], env["LOGNAME"] = acc.name, acc.name
	}
	if q.TTY {
		env["TERM"] = "xterm-256color"
	}
	for _, layer := range []map[string]string{id.TemplateEnv, id.Env, q.Env} {
		for k, v := range layer {
			if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
				return nil, core.Invalid("env", "not a variable: %q", k)
			}
			env[k] = v
		}
	}
	return env, nil
}
