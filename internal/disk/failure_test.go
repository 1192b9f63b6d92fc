package disk_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
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
		err := disk.Failure(c.err, "act")
		if got := core.CodeOf(err); got != c.want {
			t.Errorf("%v became %q, want %q", c.err, got, c.want)
		}
		var e *core.Error
		if c.err != nil && (!errors.As(err, &e) || !errors.Is(err, c.err) || strings.Contains(e.Message, "/")) {
			t.Errorf("%v became %v: the cause must be kept, and no path shown", c.err, err)
		}
	}
}
