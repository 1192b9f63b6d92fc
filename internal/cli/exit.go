package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// The exit codes of run and exec, beside the process's own. Other commands answer 0 or exitOurs.
const (
	// exitTimeout: the process's deadline passed.
	exitTimeout = 124
	// exitOurs: the process's end isn't known, or the command itself failed.
	exitOurs = 125
	// exitNotExecutable and exitNotFound: the program could not be started, as sh says it.
	exitNotExecutable = 126
	exitNotFound      = 127
	// exitSignal and the signal's number: a signal ended the process.
	exitSignal = 128
)

// exitError ends the program with a code. Without err nothing is printed.
type exitError struct {
	code int
	err  error
}

// Error returns the cause's text.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

// ExitCode returns the code.
func (e *exitError) ExitCode() int { return e.code }

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

// exitCode returns the exit code for an error: its own, if it has one.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	var own interface {
		error
		ExitCode() int
	}
	if errors.As(err, &own) {
		return own.ExitCode()
	}
	return exitOurs
}

// usage is an error about how the command was typed.
func usage(c *cobra.Command, format string, args ...any) error {
	hint := fmt.Sprintf("Try '%s --help'.", c.CommandPath())
	return &exitError{exitOurs, fmt.Errorf("%s\n%s", fmt.Sprintf(format, args...), hint)}
}

// outcomeError turns the end of a process into the program's exit code, nil for a process that returned 0. What is not the
// process's own result is said in words.
func outcomeError(e shoal.Exec) error {
	switch e.Outcome {
	case api.OutcomeExited:
		if e.ExitCode == nil {
			return &exitError{exitOurs, errors.New("the server says that the process ended and doesn't say how")}
		}
		if *e.ExitCode == 0 {
			return nil
		}
		return &exitError{*e.ExitCode, memoryError(e)}
	case api.OutcomeSignaled:
		n := unix.SignalNum(signalName(e.Signal))
		if n == 0 {
			return &exitError{exitOurs, fmt.Errorf("the process was ended by %s", e.Signal)}
		}
		return &exitError{exitSignal + int(n), memoryError(e)}
	case api.OutcomeTimeout:
		return &exitError{exitTimeout, errors.New("the process ran into its timeout and was killed")}
	case api.OutcomeCanceled:
		return &exitError{exitOurs, errors.New("the process was canceled")}
	case api.OutcomeLost:
		return &exitError{exitOurs, errors.New("how the process ended could not be learned")}
	}
	return &exitError{exitOurs, fmt.Errorf("the server reports an outcome that this program doesn't know: %q", string(e.Outcome))}
}

// memoryError says that memory ran out, which the process's own code doesn't; nil if it did not.
func memoryError(e shoal.Exec) error {
	switch {
	case !e.OutOfMemory:
		return nil
	case e.Outcome == api.OutcomeSignaled:
		return errors.New("the process was killed because the sandbox had used up its memory")
	}
	return errors.New("the sandbox had used up its memory, and something that the process started was killed")
}

// signalName completes a signal's name: "term" and "SIGTERM" are the same.
func signalName(s string) string {
	s = strings.ToUpper(s)
	if !strings.HasPrefix(s, "SIG") {
		s = "SIG" + s
	}
	return s
}

// startError turns a refusal to start a process into what sh would answer.
func startError(err error) error {
	var e *shoal.Error
	if !errors.As(err, &e) || e.Field != "cmd" {
		return err
	}
	switch e.Code {
	case shoal.CodeInvalid, shoal.CodeNotFound:
		return &exitError{exitNotFound, err}
	case shoal.CodeDenied:
		return &exitError{exitNotExecutable, err}
	default:
		return err
	}
}

// typed says how a request's field is typed here: for most by the flag of its name.
func typed(field string) string {
	if strings.HasPrefix(field, "rules") {
		return "--rule"
	}
	switch field {
	case "ttl_seconds":
		return "--ttl"
	case "idle_seconds":
		return "--idle"
	case "on_idle":
		return "--on-idle"
	case "extend_ttl_seconds":
		return "--extend"
	case "memory_bytes":
		return "--memory"
	case "disk_bytes":
		return "--disk"
	case "open_files":
		return "--open-files"
	case "cpu_weight":
		return "--cpu-weight"
	case "io_weight":
		return "--io-weight"
	case "timeout_seconds":
		return "--timeout"
	case "cwd":
		return "--workdir"
	case "labels":
		return "--label"
	case "expires_in_seconds":
		return "--expires"
	case tenantHeader:
		return "--tenant"
	case "name_prefix":
		return "--name"
	case "name", "dialect", "template", "tag", "vcpus", "pids", "env", "user", "state", "label", "persistent", "after", "signal":
		return "--" + field
	}
	return field
}

// explain says an error in words for a person, with what to do.
func explain(err error) string {
	var missing *notFoundError
	if errors.As(err, &missing) {
		return missing.Error()
	}
	var stopped *stoppedError
	if errors.As(err, &stopped) {
		return stopped.Error()
	}
	var e *shoal.Error
	if !errors.As(err, &e) {
		if at, ok := err.(*fs.PathError); ok { //nolint:errorlint // What is wrapped has words of its own.
			return at.Path + ": " + at.Err.Error()
		}
		if errors.Is(err, context.Canceled) {
			return "interrupted"
		}
		if text := unreachable(err); text != "" {
			return text
		}
		return err.Error()
	}
	if text := unreachable(err); text != "" {
		return text
	}
	text := e.Message
	rest, begins := strings.CutPrefix(text, e.Field+" ")
	switch {
	case e.Field != "" && begins:
		text = typed(e.Field) + " " + rest
	case strings.Contains(e.Field, "_") && strings.Contains(text, e.Field):
		text = strings.ReplaceAll(text, e.Field, strings.TrimPrefix(typed(e.Field), "--"))
	case e.Field == "url":
		text += "; change --url, SHOAL_URL or cli.json, whichever it comes from"
	case e.Field != "" && e.Field != "cmd" && e.Field != "path" && !strings.Contains(text, e.Field):
		text = typed(e.Field) + ": " + text
	}
	switch e.Code {
	case shoal.CodeNotFound:
		if e.Field == "template" {
			text += ": 'shoal template ls' shows all"
		}
	case shoal.CodeUnauthenticated:
		text += ": set SHOAL_API_KEY, or run this as root on the server's machine, without --url and SHOAL_URL"
	case shoal.CodeExhausted, shoal.CodeQuota:
		if e.Code == shoal.CodeExhausted && e.Field == "path" {
			text += " (delete files in it, or make a sandbox with a larger --disk)"
		} else if e.RetryAfter > 0 {
			text += fmt.Sprintf(" (try again in %s)", e.RetryAfter)
		}
	case shoal.CodeInternal, shoal.CodeDataLoss:
		if e.RequestID != "" {
			text += fmt.Sprintf(" (the server's log has the cause under request %s)", e.RequestID)
		}
	default:
	}
	return text
}
