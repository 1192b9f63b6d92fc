package disk

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"shoal/internal/core"
)

// Failure turns an error of the operating system into one of the contract, for drivers. act says what was done, for the
// operator. An error of ours, and nil, stay as they are.
func Failure(err error, act string) error {
	var e *core.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	cause := fmt.Errorf("%s: %w", act, err)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return core.Wrap(core.CodeNotFound, cause, "no such tree")
	case errors.Is(err, syscall.EEXIST):
		return core.Wrap(core.CodeExists, cause, "the tree exists already")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return core.Wrap(core.CodeExhausted, cause, "the node has no disk space left")
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EUCLEAN):
		return core.Wrap(core.CodeDataLoss, cause, "the node's disk can't be read or written")
	case errors.Is(err, syscall.EROFS):
		return core.Wrap(core.CodeUnavailable, cause, "the node's disk is read-only")
	case errors.Is(err, context.Canceled):
		return core.Wrap(core.CodeCanceled, cause, "canceled")
	case errors.Is(err, context.DeadlineExceeded):
		return core.Wrap(core.CodeTimeout, cause, "timed out")
	}
	return core.Wrap(core.CodeInternal, cause, "the node's disk failed")
}
