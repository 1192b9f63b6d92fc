package control

import (
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"shoal/internal/core"
)

// The bounds of one exec.
const (
	maxCmdArgs  = 4096
	maxCmdBytes = 512 << 10
	// maxArgBytes is what Linux lets one argument have, and a script of sh -c is one.
	maxArgBytes  = 128<<10 - 1
	maxTimeout   = 7 * 24 * time.Hour
	maxPathBytes = 4096
	maxTagBytes  = 256
)

// checkExec refuses what no guest agent could start.
func checkExec(spec core.ExecSpec) error {
	switch {
	case spec.Entrypoint && spec.Shell != "":
		return core.Invalid("shell", "shell and entrypoint exclude each other")
	case len(spec.Cmd) == 0 && spec.Shell == "" && !spec.Entrypoint:
		return core.Invalid("cmd", "say what to run: cmd or shell")
	case len(spec.Cmd) != 0 && spec.Shell != "":
		return core.Invalid("shell", "cmd and shell exclude each other")
	case len(spec.Cmd) > 0 && spec.Cmd[0] == "" && !spec.Entrypoint:
		return core.Invalid("cmd", "the program's name is empty")
	case len(spec.Cmd) > maxCmdArgs:
		return core.Invalid("cmd", "at most %d arguments", maxCmdArgs)
	case spec.Timeout < 0 || spec.Timeout > maxTimeout:
		return core.Invalid("timeout_seconds", "a timeout is 0 (none) to %d seconds", int64(maxTimeout/time.Second))
	case len(spec.Cwd) > maxPathBytes || strings.ContainsRune(spec.Cwd, 0):
		return core.Invalid("cwd", "a path has at most %d bytes and no NUL", maxPathBytes)
	case len(spec.User) > 256 || strings.ContainsRune(spec.User, 0):
		return core.Invalid("user", "a user is a name or a number, optionally with :group")
	}
	if err := checkTag(spec.Tag); err != nil {
		return err
	}
	total := len(spec.Shell)
	if strings.ContainsRune(spec.Shell, 0) {
		return core.Invalid("shell", "a script can't contain a NUL")
	}
	if len(spec.Shell) > maxArgBytes {
		return core.Invalid("shell", "a script has at most %d bytes: send a longer one as a file, and run that", maxArgBytes)
	}
	for _, arg := range spec.Cmd {
		total += len(arg)
		if len(arg) > maxArgBytes {
			return core.Invalid("cmd", "an argument has at most %d bytes: send what is longer as a file or as input", maxArgBytes)
		}
		if strings.ContainsRune(arg, 0) {
			return core.Invalid("cmd", "an argument can't contain a NUL")
		}
	}
	if total > maxCmdBytes {
		return core.Invalid("cmd", "a command has at most %d bytes: send a longer script as a file", maxCmdBytes)
	}
	return checkEnv("env", spec.Env)
}

// checkTag checks a caller's word for an exec.
func checkTag(tag string) error {
	if len(tag) > maxTagBytes || !utf8.ValidString(tag) || strings.ContainsRune(tag, 0) {
		return core.Invalid("tag", "a tag has at most %d bytes of UTF-8 without NUL", maxTagBytes)
	}
	return nil
}

// recordedSpec is what the record of an exec keeps: never its environment's values, which may hold secrets.
func recordedSpec(spec core.ExecSpec) core.ExecSpec {
	env := maps.Clone(spec.Env)
	for k := range env {
		env[k] = ""
	}
	spec.Env, spec.Once = env, nil
	return spec
}
