package btrfs

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// failure turns what the kernel said into an error of the contract. act says what was done, for the operator.
func failure(err error, act string) error {
	var e *core.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	cause := fmt.Errorf("%s: %w", act, err)
	switch {
	case errors.Is(err, unix.ENOENT):
		return core.Wrap(core.CodeNotFound, cause, "no such tree")
	case errors.Is(err, unix.EEXIST):
		return core.Wrap(core.CodeExists, cause, "the tree exists already")
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return core.Wrap(core.CodeExhausted, cause, "the node has no disk space left")
	case errors.Is(err, unix.EIO), errors.Is(err, unix.EUCLEAN):
		return core.Wrap(core.CodeDataLoss, cause, "the node's disk can't be read or written")
	case errors.Is(err, unix.EROFS):
		return core.Wrap(core.CodeUnavailable, cause, "the node's disk is read-only")
	case errors.Is(err, context.Canceled):
		return core.Wrap(core.CodeCanceled, cause, "canceled")
	case errors.Is(err, context.DeadlineExceeded):
		return core.Wrap(core.CodeTimeout, cause, "timed out")
	}
	return core.Wrap(core.CodeInternal, cause, "the node's disk failed")
}
