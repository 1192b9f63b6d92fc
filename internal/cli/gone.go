package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// noSandboxError says that there is no sandbox of the name or id that was asked for.
type noSandboxError struct {
	ref   string
	cause error
}

// Error names it and says where to look.
func (m *noSandboxError) Error() string {
	return fmt.Sprintf("no such sandbox: %s ('shoal ls -a' shows all, also those that are deleted)", m.ref)
}

// Unwrap returns the server's answer.
func (m *noSandboxError) Unwrap() error { return m.cause }

// aboutSandbox says which sandbox isn't there, after a call on the sandbox itself.
func aboutSandbox(ref string, err error) error {
	if shoal.ErrorCode(err) == shoal.CodeNotFound {
		return &noSandboxError{ref, err}
	}
	return err
}

// withinSandbox does the same after a call on something in the sandbox, which may also be what is missing.
func withinSandbox(ctx context.Context, c *shoal.Client, ref string, err error) error {
	var known *noSandboxError
	if shoal.ErrorCode(err) != shoal.CodeNotFound || errors.As(err, &known) {
		return err
	}
	if _, gerr := c.Sandboxes().Get(ctx, ref); shoal.ErrorCode(gerr) == shoal.CodeNotFound {
		return &noSandboxError{ref, err}
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
			return err
		}
		if text := fate(ctx, c, ref); text != "" {
			return &exitError{exitOurs, errors.New(text)}
		}
	}
	return err
}
