package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"shoal/api"
	shoal "shoal/sdk/go"
)

func TestOutcomeExitCodes(t *testing.T) {
	code := func(n int) *int { return &n }
	for _, c := range []struct {
		name string
		exec shoal.Exec
		want int
		says string
	}{
		{"well", shoal.Exec{Outcome: api.OutcomeExited, ExitCode: code(0)}, 0, ""},
		{"its own", shoal.Exec{Outcome: api.OutcomeExited, ExitCode: code(42)}, 42, ""},
		{"its own, also if it looks like ours", shoal.Exec{Outcome: api.OutcomeExited, ExitCode: code(124)}, 124, ""},
		{"no code", shoal.Exec{Outcome: api.OutcomeExited}, 125, "doesn't say how"},
		{"killed", shoal.Exec{Outcome: api.OutcomeSignaled, Signal: "SIGKILL"}, 137, ""},
		{"memory ran out below it", shoal.Exec{Outcome: api.OutcomeExited, ExitCode: code(137), OutOfMemory: true}, 137, "used up its memory"},
		{"terminated", shoal.Exec{Outcome: api.OutcomeSignaled, Signal: "SIGTERM"}, 143, ""},
		{"an unknown signal", shoal.Exec{Outcome: api.OutcomeSignaled, Signal: "SIGODD"}, 125, "SIGODD"},
		{"timeout", shoal.Exec{Outcome: api.OutcomeTimeout}, 124, "timeout"},
		{"canceled", shoal.Exec{Outcome: api.OutcomeCanceled}, 125, "canceled"},
		{"lost", shoal.Exec{Outcome: api.OutcomeLost}, 125, "could not be learned"},
		{"an unknown outcome", shoal.Exec{Outcome: "odd"}, 125, "odd"},
		{"none", shoal.Exec{}, 125, "outcome"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := outcomeError(c.exec)
			if got := exitCode(err); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
			var e *exitError
			if c.says == "" && errors.As(err, &e) && e.err != nil {
				t.Errorf("says %q where the process's own code says all", e.err)
			}
			if c.says != "" && !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("says %v, want something with %q", err, c.says)
			}
		})
	}
}

// coded is an error of another package that has an exit code of its own, such as doctor's.
type coded int

func (coded) Error() string   { return "coded" }
func (c coded) ExitCode() int { return int(c) }

func TestErrorExitCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"none", nil, 0},
		{"any", errors.New("x"), 125},
		{"the server's", &shoal.Error{Code: shoal.CodeNotFound}, 125},
		{"no such program", startError(&shoal.Error{Code: shoal.CodeInvalid, Field: "cmd"}), 127},
		{"not executable", startError(&shoal.Error{Code: shoal.CodeDenied, Field: "cmd"}), 126},
		{"another field", startError(&shoal.Error{Code: shoal.CodeInvalid, Field: "cwd"}), 125},
		{"denied for another reason", startError(&shoal.Error{Code: shoal.CodeDenied}), 125},
		{"its own", fmt.Errorf("wrapped: %w", coded(3)), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := exitCode(c.err); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
		})
	}
}

func TestExplainDoesNotShowTheOperatorsPart(t *testing.T) {
	err := &shoal.Error{Code: shoal.CodeInternal, Message: "something broke", RequestID: "r1", Err: errors.New("disk /dev/x")}
	got := explain(err)
	if want := "something broke (the server's log has the cause under request r1)"; got != want {
		t.Errorf("explain = %q, want %q", got, want)
	}
}

func TestExplainAFullSandbox(t *testing.T) {
	got := explain(&shoal.Error{Code: shoal.CodeExhausted, Field: "path", Message: `the sandbox's disk is full: "/tmp/x"`})
	if want := `the sandbox's disk is full: "/tmp/x" (delete files in it, or make a sandbox with a larger --disk)`; got != want {
		t.Errorf("explain = %q, want %q", got, want)
	}
}
