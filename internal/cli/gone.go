package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// notFoundError says that there is no sandbox, or no exec in one, of the name or id that was asked for, and where to look.
type notFoundError struct {
	what, ref, look string
	cause           error
}

// Error names it.
func (e *notFoundError) Error() string {
	return fmt.Sprintf("no such %s: %s (%s)", e.what, e.ref, e.look)
}

// Unwrap returns the server's answer.
func (e *notFoundError) Unwrap() error { return e.cause }

// tenantHeader is the field of errors about the tenant that a call is for.
const tenantHeader = "Shoal-Tenant"

// isMissing reports whether what a call is about isn't there; the tenant that it is for is another matter.
func isMissing(err error) bool {
	var e *shoal.Error
	return shoal.ErrorCode(err) == shoal.CodeNotFound && !(errors.As(err, &e) && e.Field == tenantHeader)
}

// aboutSandbox says which sandbox isn't there, after a call on the sandbox itself.
func aboutSandbox(ref string, err error) error {
	if isMissing(err) {
		return &notFoundError{"sandbox", ref, "'shoal ls -a' shows all, also those that are deleted", err}
	}
	return err
}

// aboutName says of a name that is taken by a sandbox that has failed how to get it back.
func aboutName(ctx context.Context, c *shoal.Client, name string, err error) error {
	var e *shoal.Error
	if !errors.As(err, &e) || e.Code != shoal.CodeConflict || e.Field != "name" {
		return err
	}
	if sb, gerr := c.Sandboxes().Get(ctx, name); gerr == nil && sb.State == api.SandboxStateFailed {
		return fmt.Errorf("the name %s is taken by a sandbox that has failed: 'shoal get %s' says why, 'shoal rm %s' deletes it and frees the name",
			name, name, name)
	}
	return err
}

// stoppedError says that a sandbox is stopped, and how to start it again.
type stoppedError struct {
	ref   string
	cause error
}

// Error names it.
func (e *stoppedError) Error() string {
	return fmt.Sprintf("the sandbox %s is stopped: 'shoal wake %s' starts it again; its files can be read as it is", e.ref, e.ref)
}

// Unwrap returns the server's answer.
func (e *stoppedError) Unwrap() error { return e.cause }

// withinSandbox does the same after a call on something in the sandbox, which may also be what is missing, or can't be had while the sandbox
// is stopped.
func withinSandbox(ctx context.Context, c *shoal.Client, ref string, err error) error {
	var known *notFoundError
	if shoal.ErrorCode(err) == shoal.CodeConflict {
		if sb, gerr := c.Sandboxes().Get(ctx, ref); gerr == nil && sb.State == api.SandboxStateStopped {
			return &stoppedError{ref, err}
		}
		return err
	}
	if !isMissing(err) || errors.As(err, &known) {
		return err
	}
	if _, gerr := c.Sandboxes().Get(ctx, ref); shoal.ErrorCode(gerr) == shoal.CodeNotFound {
		return aboutSandbox(ref, gerr)
	}
	return err
}

// aboutExec says whether an exec isn't there or its sandbox.
func aboutExec(ctx context.Context, c *shoal.Client, ref, id string, err error) error {
	err = withinSandbox(ctx, c, ref, err)
	var known *notFoundError
	if isMissing(err) && !errors.As(err, &known) {
		return &notFoundError{"exec", id, "'shoal logs --list " + ref + "' shows all", err}
	}
	return err
}

const (
	// fateTime bounds how long the reason for a sandbox's end is waited for, which the server records a moment after it.
	fateTime = 3 * time.Second
	fateStep = 100 * time.Millisecond
)

// fate says in words how a sandbox ended under a process; empty if it did not, or if that can't be learned.
func fate(ctx context.Context, c *shoal.Client, ref string) string {
	// It is asked also when the command was interrupted.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fateTime)
	defer cancel()
	for {
		sb, err := c.Sandboxes().Get(ctx, ref)
		switch {
		case shoal.ErrorCode(err) == shoal.CodeNotFound, err == nil && sb.State == api.SandboxStateDeleted:
			return "the sandbox was deleted before the process had ended"
		case err != nil:
			return ""
		case sb.State == api.SandboxStateFailed && sb.Failure != "":
			return "the sandbox failed before the process had ended: " + sb.Failure
		case sb.State == api.SandboxStateStopped:
			return "the sandbox was stopped before the process had ended"
		case sb.State != api.SandboxStateRunning:
			return fmt.Sprintf("the sandbox is %s; the process had not ended before", sb.State)
		}
		select {
		case <-time.After(fateStep):
		case <-ctx.Done():
			return ""
		}
	}
}

// endError is outcomeError with the reason why an end isn't known.
func endError(ctx context.Context, c *shoal.Client, ref string, e shoal.Exec) error {
	err := outcomeError(e)
	if e.Outcome != api.OutcomeLost {
		return err
	}
	if text := fate(ctx, c, ref); text != "" {
		return &exitError{exitOurs, errors.New(text)}
	}
	return err
}

// brokenOff says why a process that had been started could not be followed to its end.
func brokenOff(ctx context.Context, c *shoal.Client, ref string, err error) error {
	switch shoal.ErrorCode(err) { //nolint:exhaustive // The others have reasons of their own.
	case shoal.CodeNotFound, shoal.CodeConflict, shoal.CodeUnavailable:
		if unreachable(err) != "" {
			return howToFollow(ref, err)
		}
		if text := fate(ctx, c, ref); text != "" {
			return &exitError{exitOurs, errors.New(text)}
		}
	}
	return howToFollow(ref, err)
}
