package files

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"shoal/internal/core"
)

// Failure says in the caller's words what went wrong with a file. An error of ours, and nil, stay as they are.
func Failure(err error, field, name string) error {
	if err == nil {
		return nil
	}
	var known *core.Error
	if errors.As(err, &known) {
		return err
	}
	e := &core.Error{Code: core.CodeInternal, Message: "the file operation failed", Err: err}
	for _, f := range failures() {
		if errors.Is(err, f.is) {
			e.Code, e.Field, e.Message = f.code, field, f.text+": "+Quote(name)
			break
		}
	}
	return e
}

type failure struct {
	is   error
	code core.Code
	text string
}

// failures is in the order in which they are looked for: some are kinds of others.
func failures() []failure {
	const notAllowed, inUse, full = "the file does not allow this", "the file is in use", "the sandbox's disk is full"
	return []failure{
		{fs.ErrNotExist, core.CodeNotFound, "no such file"},
		{syscall.ENOTEMPTY, core.CodeConflict, "the directory is not empty"},
		{fs.ErrExist, core.CodeExists, "the file exists"},
		{syscall.EISDIR, core.CodeInvalid, "it is a directory"},
		{syscall.ENOTDIR, core.CodeInvalid, "a part of the path is not a directory"},
		{syscall.ELOOP, core.CodeInvalid, "too many symbolic links"},
		{syscall.ENAMETOOLONG, core.CodeInvalid, "the name is too long"},
		{syscall.EXDEV, core.CodeUnsupported, "the two paths are on different filesystems"},
		{syscall.EINVAL, core.CodeInvalid, notAllowed},
		{syscall.ENXIO, core.CodeInvalid, notAllowed},
		{syscall.EIO, core.CodeInvalid, notAllowed}, // files of /proc
		{syscall.EMFILE, core.CodeExhausted, "too many files are open in the sandbox"},
		{syscall.ENFILE, core.CodeExhausted, "too many files are open in the sandbox"},
		{syscall.EBUSY, core.CodeConflict, inUse},
		{syscall.ETXTBSY, core.CodeConflict, inUse},
		{fs.ErrPermission, core.CodeDenied, "the file may not be changed or read"},
		{syscall.EROFS, core.CodeDenied, "the file may not be changed or read"},
		{syscall.ENOSPC, core.CodeExhausted, full},
		{syscall.EDQUOT, core.CodeExhausted, full},
		{syscall.EFBIG, core.CodeInvalid, "the file is too large"},
	}
}

// Quote makes a name fit for an error: UTF-8, and short.
func Quote(name string) string {
	if len(name) > 300 {
		name = name[:300] + "…"
	}
	return `"` + strings.ToValidUTF8(name, "?") + `"`
}
