package guest

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"shoal/internal/core"
)

// findProgram returns the path of the program that a name means in a directory, with a PATH, for a user. As in a shell,
// a name with a slash is a path; an empty element of PATH is the current directory.
//
// No such program is invalid with field cmd (a shell's 127), one that may not be executed is denied with field cmd (126).
func findProgram(name, dir, list string, acc account) (string, error) {
	if name == "" {
		return "", core.Invalid("cmd", "no such program: the name is empty")
	}
	if strings.Contains(name, "/") {
		full := name
		if !strings.HasPrefix(name, "/") {
			full = path.Join(dir, name)
		}
		switch found, ok, err := executable(full, acc); {
		case err != nil:
			return "", err
		case !found:
			return "", core.Invalid("cmd", "no such program: %q", name)
		case !ok:
			return "", notExecutable(name)
		}
		return full, nil
	}
	denied := false
	for _, d := range strings.Split(list, ":") {
		full := path.Join(dir, d, name)
		if strings.HasPrefix(d, "/") {
			full = path.Join(d, name)
		}
		found, ok, err := executable(full, acc)
		if ok || err != nil {
			return full, err
		}
		denied = denied || found
	}
	if denied {
		return "", notExecutable(name)
	}
	return "", core.Invalid("cmd", "no such program: %q is not in PATH", name)
}

func notExecutable(name string) error {
	return &core.Error{Code: core.CodeDenied, Field: "cmd", Message: fmt.Sprintf("not executable: %q", name)}
}

// executable reports whether there is a file, and whether it is a program that the user may execute by its mode. An error says that
// the sandbox has no room to look: what can't be seen may be there.
func executable(name string, acc account) (found, ok bool, err error) {
	st, err := os.Stat(name)
	if err != nil {
		return false, false, noRoom(err)
	}
	return true, st.Mode().IsRegular() && mayExecute(st, acc), nil
}

// noRoom returns the error of a call that failed because the sandbox has used up descriptors or memory; nil if it failed otherwise.
func noRoom(err error) error {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		return core.Wrap(core.CodeExhausted, err, "the sandbox has no room for another process: its open files or its memory are used up")
	}
	return nil
}

// mayExecute reports whether a user may execute a file, or enter a directory, by its mode. Root may enter any directory.
func mayExecute(st os.FileInfo, acc account) bool {
	sys, isStat := st.Sys().(*syscall.Stat_t)
	if !isStat {
		return false
	}
	bits := st.Mode().Perm()
	switch {
	case acc.uid == 0:
		return st.IsDir() || bits&0o111 != 0
	case sys.Uid == acc.uid:
		return bits&0o100 != 0
	case sys.Gid == acc.gid || slices.Contains(acc.groups, sys.Gid):
		return bits&0o010 != 0
	}
	return bits&0o001 != 0
}
