package harness

import (
	"context"
	"fmt"
	"testing"
	"time"

	shoal "shoal/sdk/go"
)

// CallLimit bounds one test's calls: long enough for a busy machine, short enough to see a hang.
const CallLimit = 2 * time.Minute

// Context is the context of one test's calls.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	c, cancel := context.WithTimeout(tb.Context(), CallLimit)
	tb.Cleanup(cancel)
	return c
}

// Create creates a sandbox.
func (s *Server) Create(tb testing.TB, req shoal.CreateSandboxRequest) shoal.Sandbox {
	tb.Helper()
	sb, err := s.Client.Sandboxes().Create(Context(tb), req)
	if err != nil {
		tb.Fatalf("create: %v", err)
	}
	return sb
}

// Sandbox creates a sandbox that is deleted at the end of the test.
func (s *Server) Sandbox(tb testing.TB, req shoal.CreateSandboxRequest) shoal.Sandbox {
	tb.Helper()
	sb := s.Create(tb, req)
	s.DeleteAtEnd(tb, sb.ID)
	return sb
}

// DeleteAtEnd deletes a sandbox when the test has ended, if it is still there. The test's own context is canceled by then.
func (s *Server) DeleteAtEnd(tb testing.TB, id string) {
	tb.Helper()
	tb.Cleanup(func() {
		if s.Exited() {
			return
		}
		c, cancel := context.WithTimeout(context.Background(), CallLimit)
		defer cancel()
		if err := s.Client.Sandboxes().Delete(c, id); err != nil && shoal.ErrorCode(err) != "not_found" {
			tb.Errorf("delete: %v", err)
		}
	})
}

// Sandboxes lists all sandboxes.
func (s *Server) Sandboxes(tb testing.TB) (out []shoal.Sandbox) {
	tb.Helper()
	for sb, err := range s.Client.Sandboxes().List(Context(tb), shoal.ListSandboxesOptions{}) {
		if err != nil {
			tb.Fatalf("list: %v", err)
		}
		out = append(out, sb)
	}
	return out
}

// Run runs a command in a sandbox to its end.
func (s *Server) Run(tb testing.TB, id string, req shoal.ExecRequest) shoal.ExecResult {
	tb.Helper()
	res, err := s.Client.Execs(id).Run(Context(tb), req)
	if err != nil {
		tb.Fatalf("exec %q %q: %v", req.Cmd, req.Shell, err)
	}
	return res
}

// Out runs a script in a sandbox, which must succeed, and returns its output.
func (s *Server) Out(tb testing.TB, id, script string) string {
	tb.Helper()
	res := s.Run(tb, id, shoal.ExecRequest{Shell: script})
	if res.Outcome != shoal.OutcomeExited || *res.ExitCode != 0 {
		tb.Fatalf("%q: %s\n%s%s", script, Describe(res), res.StdoutBytes(), res.StderrBytes())
	}
	return string(res.StdoutBytes())
}

// Describe says how a command ended.
func Describe(r shoal.ExecResult) string {
	code := "-"
	if r.ExitCode != nil {
		code = fmt.Sprint(*r.ExitCode)
	}
	return fmt.Sprintf("outcome %s, exit code %s, signal %q", r.Outcome, code, r.Signal)
}
