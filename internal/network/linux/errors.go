package linux

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// edge turns an error of the kernel or of a library into one of ours. act is the public message, such as "can't attach
// the network".
func edge(err error, act string) error {
	var ours *core.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return err
	case errors.Is(err, context.Canceled):
		return core.Wrap(core.CodeCanceled, err, "%s: canceled", act)
	case errors.Is(err, context.DeadlineExceeded):
		return core.Wrap(core.CodeTimeout, err, "%s in time", act)
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS):
		return core.Wrap(core.CodeUnsupported, err,
			"%s: the server needs root, with the right to make network namespaces and to write /proc/sys/net", act)
	case errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT):
		return core.Wrap(core.CodeUnsupported, err, "%s: the kernel lacks nftables or veth", act)
	}
	for _, scarce := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ENOSPC} {
		if errors.Is(err, scarce) {
			return core.Wrap(core.CodeExhausted, err, "%s: the node is out of resources", act)
		}
	}
	return core.Wrap(core.CodeInternal, err, "%s", act)
}

func notFound() error { return core.Errorf(core.CodeNotFound, "the sandbox has no network") }

func closed() error { return core.Errorf(core.CodeUnavailable, "the network driver has been closed") }
