package dialect

import (
	"context"
	"errors"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// Call is one request with what has been learned about it, for its line in the log. One goroutine uses it at a time.
type Call struct {
	// ID is the request's id, which its reply carries as X-Request-Id.
	ID string
	// Operation is the vendor's name for what is called, such as "sandboxes.create"; empty until it is known.
	Operation string
	Principal control.Principal
	// Sandbox is the sandbox that the request names.
	Sandbox string
	// Quiet says that the call is one of many that move data or look: it is a line of the log only if it fails.
	Quiet bool
	// Looks says that the call changes nothing, whatever its method: it is not in the audit.
	Looks bool
	began time.Time
	// tether ends it from outside; nil if nothing can. after gives back what it took, let says that its caller was let in.
	tether *httpserve.Tether
	after  []func()
	let    bool
	err    error
	code   core.Code
}

type callKey struct{}

// CallOf returns the call of a request that came through Handler; for any other, one that nobody will read.
func CallOf(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{ID: core.NewID(), began: time.Now()}
}

// Failed notes why a call failed, for the log, and returns the error that its caller may see: whatever is not a *core.Error is internal,
// and is told as such with the request's id.
func (c *Call) Failed(err error) *core.Error {
	shown := c.public(err)
	c.err, c.code = err, shown.Code
	return shown
}

// Ended reports whether the call was ended from outside, such as by the deletion of its key: its client is still to be told so.
func (c *Call) Ended() bool { return c.tether.Cause() != nil }

// finish gives back what the call took.
func (c *Call) finish() {
	for i := len(c.after) - 1; i >= 0; i-- {
		c.after[i]()
	}
	c.tether.Release()
}

// AtTheEnd says of a call that was cut short why, if it was the server's own end that did it: closing says that Config.Closing has ended. Any
// other error it returns as it is.
func AtTheEnd(closing bool, err error) error {
	if closing && (core.IsCode(err, core.CodeCanceled) || errors.Is(err, context.Canceled)) {
		return core.Wrap(core.CodeUnavailable, err, "the server is shutting down; what was started goes on")
	}
	return err
}

func (c *Call) public(err error) *core.Error {
	if cause := c.tether.Cause(); cause != nil {
		return cause // whatever it was busy with when it was ended
	}
	var e *core.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled), errors.Is(err, httpserve.ErrGone):
		return core.Errorf(core.CodeCanceled, "the call was canceled")
	default:
		return core.Errorf(core.CodeInternal, "internal error; the server's log has it under request id %s", c.ID)
	}
}
