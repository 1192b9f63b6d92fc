package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"shoal/internal/core"
)

// checkDir returns the absolute working directory that a caller asked for, relative to base. A user who may not enter it is
// told so here: the kernel's refusal could not be told from one of the program.
func checkDir(dir, base string, acc account) (string, error) {
	if strings.ContainsRune(dir, 0) {
		return "", core.Invalid("cwd", "the working directory has a zero byte")
	}
	if !filepath.IsAbs(dir) {
		dir = strings.TrimSuffix(base, "/") + "/" + dir
	}
	st, err := os.Stat(dir)
	if full := noRoom(err); full != nil {
		return "", full
	}
	if err != nil {
		return "", &core.Error{Code: core.CodeInvalid, Field: "cwd", Message: fmt.Sprintf("no such directory: %q", dir), Err: err}
	}
	if !st.IsDir() {
		return "", core.Invalid("cwd", "not a directory: %q", dir)
	}
	if !enterable(dir, acc) {
		return "", &core.Error{Code: core.CodeDenied, Field: "cwd", Message: fmt.Sprintf("user %d may not enter %q", acc.uid, dir)}
	}
	return dir, nil
}

// defaultDir is where a process starts whose caller named no directory: the template's for the template's user, and for
// another user its home; / if it may not go there.
func defaultDir(workdir string, defaultUser bool, acc account) string {
	if !defaultUser && acc.uid != 0 {
		workdir = acc.home
	}
	if workdir != "" && filepath.IsAbs(workdir) && enterable(workdir, acc) {
		return workdir
	}
	return "/"
}

// enterable reports whether a user may enter a directory through all those above it.
func enterable(dir string, acc account) bool {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for ; ; resolved = filepath.Dir(resolved) {
		st, err := os.Stat(resolved)
		if err != nil || !st.IsDir() || !mayExecute(st, acc) {
			return false
		}
		if resolved == "/" {
			return true
		}
	}
}
