package panda

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

const (
	// user is who commands run as: PandaStack's guests are entered as root.
	user = "root"
	// home is where they start, as a login does.
	home = "/root"
	// maxTimeout is the longest timeout of an exec in seconds: a week.
	maxTimeout = 7 * 24 * 3600
)

// execBody is what an exec may say.
type execBody struct {
	Cmd            string   `json:"cmd"`
	TimeoutSeconds *float64 `json:"timeout_seconds"`
}

// execSpec reads what is to be run.
func execSpec(w http.ResponseWriter, r *request) (core.ExecSpec, error) {
	var body execBody
	if err := decodeBody(w, r, &body); err != nil {
		return core.ExecSpec{}, err
	}
	if strings.TrimSpace(body.Cmd) == "" {
		return core.ExecSpec{}, core.Invalid("cmd", "cmd is needed: the command line that sh -c is to run")
	}
	spec := core.ExecSpec{Shell: body.Cmd, User: user, Cwd: home}
	if s := body.TimeoutSeconds; s != nil && *s != 0 { // zero is no timeout, as at the vendor's
		if *s < 0 || *s > maxTimeout {
			return spec, core.Invalid("timeout_seconds", "timeout_seconds is 0 (none) to %d", maxTimeout)
		}
		// Anything shorter than the clock's grain still is a timeout.
		spec.Timeout = max(time.Duration(*s*float64(time.Second)), time.Millisecond)
	}
	return spec, nil
}

// withoutHome starts again at the root if a sandbox has no home for root any more, as a login does.
func withoutHome[T any](spec core.ExecSpec, start func(core.ExecSpec) (T, error)) (T, error) {
	out, err := start(spec)
	if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeInvalid && e.Field == "cwd" {
		spec.Cwd = "/"
		return start(spec)
	}
	return out, err
}

// runExec waits for the end. The command goes on if the client goes away: the SDK for JavaScript gives up after 30 s.
func (a *adapter) runExec(w http.ResponseWriter, r *request) error {
	spec, err := execSpec(w, r)
	if err != nil {
		return err
	}
	limit, release, err := a.cfg.Collecting.Take("use exec/stream, which needs no room for it")
	if err != nil {
		return err
	}
	defer release()
	res, err := withoutHome(spec, func(spec core.ExecSpec) (core.ExecResult, error) {
		return a.cfg.Control.RunExec(r.Context(), r.Principal, r.sandbox(), spec, nil, limit)
	})
	if err != nil {
		return renamed(err)
	}
	if res.Truncated {
		// What was cut may have been cut inside a character.
		res.Stdout, res.Stderr = cutWhole(res.Stdout, limit), cutWhole(res.Stderr, limit)
	}
	code, problem := exitOf(res.Exec)
	if problem == nil {
		return sendResult(w, http.StatusOK, resultHead{
			ExitCode: &code, DurationMS: res.Duration.Milliseconds(), Signal: res.Signal, OutOfMemory: res.OutOfMemory, Truncated: res.Truncated,
		}, res)
	}
	shown := r.Failed(problem)
	status := http.StatusInternalServerError
	if res.Outcome == core.OutcomeTimeout {
		status = http.StatusGatewayTimeout
	}
	// What the command wrote until then is not lost, for clients that look.
	return sendResult(w, status, resultHead{
		failure:    &failure{Error: shown.Message, Code: "exec." + string(res.Outcome), Message: shown.Message, RequestID: r.ID},
		DurationMS: res.Duration.Milliseconds(), OutOfMemory: res.OutOfMemory, Truncated: res.Truncated,
	}, res)
}

// signals are the numbers of the signals that end a process, as a shell adds them to 128.
func signals() map[string]int {
	return map[string]int{
		"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9,
		"SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15, "SIGSTKFLT": 16, "SIGXCPU": 24,
		"SIGXFSZ": 25, "SIGVTALRM": 26, "SIGPROF": 27, "SIGIO": 29, "SIGPWR": 30, "SIGSYS": 31,
	}
}

// exitOf returns the exit code of an exec that has one, and for any other end an error: the vendor has no word for it, and an exit
// code must not be made up.
func exitOf(e core.Exec) (int, error) {
	switch e.Outcome {
	case core.OutcomeExited:
		if e.ExitCode != nil {
			return *e.ExitCode, nil
		}
	case core.OutcomeSignaled:
		if n, ok := signals()[e.Signal]; ok {
			return 128 + n, nil
		}
		var n int
		if _, err := fmt.Sscanf(e.Signal, "SIGRTMIN+%d", &n); err == nil && n >= 0 && n < 32 {
			return 128 + 34 + n, nil
		}
		return 0, core.Errorf(core.CodeUnavailable, "signaled: the command was ended by a signal that has no exit code: %s", printable(e.Signal))
	case core.OutcomeTimeout:
		return 0, core.Errorf(core.CodeTimeout, "timeout: deadline exceeded: the command ran for longer than timeout_seconds and was killed with all it had started")
	case core.OutcomeCanceled:
		return 0, core.Errorf(core.CodeCanceled, "canceled: the command was ended by another call")
	case core.OutcomeLost, core.OutcomeRunning:
	}
	return 0, core.Errorf(core.CodeUnavailable, "lost: the sandbox went away before the command's end was known; it may have done all, some or none of its work")
}

// resultHead is an exec's reply without its output.
type resultHead struct {
	*failure
	ExitCode   *int  `json:"exit_code,omitempty"`
	DurationMS int64 `json:"duration_ms"`
	// Signal, OutOfMemory and Truncated are ours: the name of the signal that ended it, whether processes of it were killed for memory, and
	// whether output was left out because it is longer than a reply holds.
	Signal      string `json:"signal,omitempty"`
	OutOfMemory bool   `json:"out_of_memory,omitempty"`
	Truncated   bool   `json:"truncated,omitempty"`
}

// sendResult sends an exec's end. Its output is encoded in pieces as the client reads them: a reply whose client is slow holds what
// was collected, not what JSON makes of it, which can be several times as much.
func sendResult(w http.ResponseWriter, status int, head resultHead, res core.ExecResult) error {
	data, err := encodeJSON(head)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	out := bufio.NewWriterSize(w, min(pieceSize, len(data)+2*(len(res.Stdout)+len(res.Stderr))+64))
	_, _ = out.Write(data[:len(data)-2]) // without its last brace; a bufio.Writer keeps its error for Flush
	for _, s := range []struct {
		name string
		text []byte
	}{{"stdout", res.Stdout}, {"stderr", res.Stderr}} {
		_, _ = out.WriteString(`,"` + s.name + `":"`)
		writeText(out, s.text)
		_ = out.WriteByte('"')
	}
	_, _ = out.WriteString("}\n")
	if err := out.Flush(); err != nil {
		return httpserve.Gone(err)
	}
	return nil
}
