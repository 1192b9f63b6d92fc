package btrfs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk/btrfs"
)

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		err  error
		want core.Code
	}{
		{nil, ""},
		{unix.ENOENT, core.CodeNotFound},
		{&os.PathError{Op: "open", Path: "/x", Err: unix.ENOENT}, core.CodeNotFound},
		{unix.EEXIST, core.CodeExists},
		{unix.ENOSPC, core.CodeExhausted},
		{unix.EDQUOT, core.CodeExhausted},
		{unix.EIO, core.CodeDataLoss},
		{unix.EUCLEAN, core.CodeDataLoss},
		{unix.EROFS, core.CodeUnavailable},
		{context.Canceled, core.CodeCanceled},
		{context.DeadlineExceeded, core.CodeTimeout},
		{unix.EINVAL, core.CodeInternal},
		{fmt.Errorf("look: %w", core.Errorf(core.CodeConflict, "busy")), core.CodeConflict},
	} {
		err := btrfs.Failure(c.err)
		if got := core.CodeOf(err); got != c.want {
			t.Errorf("%v became %q, want %q", c.err, got, c.want)
		}
		var e *core.Error
		if c.err != nil && (!errors.As(err, &e) || !errors.Is(err, c.err) || strings.Contains(e.Message, "/")) {
			t.Errorf("%v became %v: the cause must be kept, and no path shown", c.err, err)
		}
	}
}

func TestMkfsMissing(t *testing.T) {
	_, err := btrfs.FindMkfs("mkfs.not-there")
	if !core.IsCode(err, core.CodeUnavailable) || !strings.Contains(err.Error(), "btrfs-progs") {
		t.Errorf("got %v, want unavailable, naming the package", err)
	}
	if path, err := btrfs.FindMkfs("mkfs.not-there", "sh"); err != nil || !strings.HasSuffix(path, "/sh") {
		t.Errorf("got %q, %v", path, err)
	}
}
