package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	// maxTimeout is the longest timeout of an exec: a week.
	maxTimeout = 7 * 24 * 3600
	// maxTerminal bounds a terminal's sides.
	maxTerminal = 1<<16 - 1
)

func (a execAPI) createExec(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	var body api.CreateExecRequest
	data, err := readBody(w, r, &body)
	if err != nil {
		return err
	}
	stream := accepts(r.Request, ndjson) || accepts(r.Request, frames)
	if err := checkExec(body, stream); err != nil {
		return err
	}
	spec, err := execSpec(body)
	if err != nil {
		return err
	}
	// Whoever first wanted the whole result, and then a stream, makes another call.
	if spec.Once, err = r.once(data, strconv.FormatBool(stream)); err != nil {
		return err
	}
	input := api.Join(body.Stdin, body.StdinRaw)
	switch {
	case body.Detach:
		return a.startExec(w, r, ref, spec)
	case stream:
		return a.streamExec(w, r, ref, spec, input)
	}
	return a.runExec(w, r, ref, spec, input)
}

// checkExec refuses what contradicts itself in the form of the request; control checks what is to be run.
func checkExec(body api.CreateExecRequest, stream bool) error {
	hasInput := body.Stdin != "" || len(body.StdinRaw) > 0
	switch {
	case body.Stdin != "" && len(body.StdinRaw) > 0:
		return core.Invalid("stdin_raw", "give either stdin or stdin_raw")
	case hasInput && body.StdinOpen:
		return core.Invalid("stdin_open", "give either the input or stdin_open")
	case hasInput && body.Detach:
		return core.Invalid("stdin", "a detached exec takes its input over attach or stdin calls: set stdin_open")
	case body.StdinOpen && !body.Detach && !stream:
		return core.Invalid("stdin_open", "stdin_open is for detach or Accept: application/x-ndjson: a plain reply tells the exec's id only at its end")
	case body.Detach && stream:
		return core.Invalid("detach", "a detached exec is not streamed: leave out detach, or attach to it")
	case !body.Tty && (body.Rows != nil || body.Cols != nil):
		return core.Invalid("tty", "rows and cols are for a tty")
	case body.Cwd != "" && !strings.HasPrefix(body.Cwd, "/"):
		return core.Invalid("cwd", "cwd is an absolute path")
	}
	return nil
}

// Terminals have this size unless told otherwise.
const (
	defaultRows = 24
	defaultCols = 80
)

func execSpec(body api.CreateExecRequest) (core.ExecSpec, error) {
	spec := core.ExecSpec{
		Cmd: body.Cmd, Shell: body.Shell, Entrypoint: body.Entrypoint, Cwd: body.Cwd, Env: body.Env, User: body.User, Detach: body.Detach, TTY: body.Tty, Tag: body.Tag,
		Stdin: body.StdinOpen || body.Stdin != "" || len(body.StdinRaw) > 0,
	}
	if body.TimeoutSeconds != nil {
		if *body.TimeoutSeconds <= 0 || *body.TimeoutSeconds > maxTimeout {
			return spec, core.Invalid("timeout_seconds", "timeout_seconds is above 0 and at most %d", maxTimeout)
		}
		// Anything shorter than the clock's grain still is a timeout, where zero would be none.
		spec.Timeout = max(time.Duration(*body.TimeoutSeconds*float64(time.Second)), time.Millisecond)
	}
	if !body.Tty {
		return spec, nil
	}
	rows, cols := defaultRows, defaultCols
	if body.Rows != nil {
		rows = *body.Rows
	}
	if body.Cols != nil {
		cols = *body.Cols
	}
	var err error
	spec.Rows, spec.Cols, err = terminal(rows, cols)
	return spec, err
}

// terminal checks a terminal's size.
func terminal(rows, cols int) (uint16, uint16, error) {
	if rows < 1 || rows > maxTerminal {
		return 0, 0, core.Invalid("rows", "rows is from 1 to %d", maxTerminal)
	}
	if cols < 1 || cols > maxTerminal {
		return 0, 0, core.Invalid("cols", "cols is from 1 to %d", maxTerminal)
	}
	return uint16(rows), uint16(cols), nil
}

// runExec waits for the end. The process goes on if the client goes away.
func (a execAPI) runExec(w http.ResponseWriter, r *request, ref string, spec core.ExecSpec, input []byte) error {
	if !spec.Stdin {
		input = nil
	}
	limit, release, err := a.collecting.Take("have it streamed with Accept: " + ndjson + ", or detach, which need no room for it")
	if err != nil {
		return err
	}
	defer release()
	result, err := a.control.RunExec(r.Context(), r.principal, ref, spec, input, limit)
	if err != nil {
		return err
	}
	tellRepeated(w, spec.Once)
	return sendResult(w, api.ExecResult{
		ID: string(result.ID), PID: result.PID, Outcome: api.Outcome(result.Outcome), ExitCode: result.ExitCode,
		Signal: result.Signal, OutOfMemory: result.OutOfMemory, Truncated: result.Truncated, DurationMs: result.Duration.Milliseconds(),
	}, result.Stdout, result.Stderr)
}

func (a execAPI) startExec(w http.ResponseWriter, r *request, ref string, spec core.ExecSpec) error {
	exec, stream, err := a.control.Exec(r.Context(), r.principal, ref, spec)
	if err != nil {
		return err
	}
	if stream != nil {
		if err := stream.Close(); err != nil {
			return err
		}
	}
	tellRepeated(w, spec.Once)
	w.Header().Set("Location", "/v1/sandboxes/"+string(exec.Sandbox)+"/execs/"+string(exec.ID))
	return writeJSON(w, http.StatusCreated, encodeExec(exec))
}

func (a execAPI) listExecs(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	filter := store.ExecFilter{Tag: r.query.Get("tag"), Running: r.flag("running")}
	list, next, err := a.control.ListExecs(r.Context(), r.principal, ref, filter, r.page())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.ExecList{Execs: convert(list, encodeExec), NextCursor: next})
}

func (a execAPI) getExec(w http.ResponseWriter, r *request) error {
	ref, id, err := r.exec()
	if err != nil {
		return err
	}
	exec, err := a.control.GetExec(r.Context(), r.principal, ref, id)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeExec(exec))
}

func encodeExec(e core.Exec) api.Exec {
	out := api.Exec{
		ID: string(e.ID), SandboxID: string(e.Sandbox), Cmd: e.Spec.Cmd, Shell: e.Spec.Shell, Cwd: e.Spec.Cwd,
		Tag: e.Spec.Tag, Env: e.Spec.Env, User: e.Spec.User, StdinOpen: e.Spec.Stdin, Detach: e.Spec.Detach, Tty: e.Spec.TTY,
		TimeoutSeconds: e.Spec.Timeout.Seconds(), PID: e.PID, Running: e.Outcome == core.OutcomeRunning,
		Outcome: api.Outcome(e.Outcome), ExitCode: e.ExitCode, Signal: e.Signal, OutOfMemory: e.OutOfMemory,
		StartedAt: e.StartedAt, EndedAt: e.EndedAt,
		OutputBytes: e.OutputBytes, OutputFrom: e.OutputFrom, Processes: e.Processes,
	}
	if e.Spec.TTY {
		out.Rows, out.Cols = int(e.Spec.Rows), int(e.Spec.Cols)
	}
	return out
}
