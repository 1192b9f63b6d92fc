package sqlite

import (
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"shoal/internal/core"
	"shoal/internal/store"
)

const noExec = "no such exec"

const execColumns = `sandbox, id, cmd, shell, cwd, env, user, stdin, timeout, detach, tty, tty_rows, tty_cols,
	pid, outcome, exit_code, signal, out_of_memory, started_at, ended_at, output_bytes, output_from, processes, tag`

const selectExec = "SELECT " + execColumns + " FROM exec "

// selectOpen leaves the specification where it is.
const selectOpen = `SELECT sandbox, id, NULL, '', '', NULL, '', 0, 0, 0, 0, 0, 0,
	pid, outcome, exit_code, signal, out_of_memory, started_at, ended_at, output_bytes, output_from, processes, '' FROM exec `

func scanExec(r row) (e core.Exec, err error) {
	s := &e.Spec
	err = r.Scan(&e.Sandbox, &e.ID, jsonOf(&s.Cmd), &s.Shell, &s.Cwd, jsonOf(&s.Env), &s.User, &s.Stdin,
		&s.Timeout, &s.Detach, &s.TTY, &s.Rows, &s.Cols,
		&e.PID, &e.Outcome, &e.ExitCode, &e.Signal, &e.OutOfMemory, (*instant)(&e.StartedAt), (*instant)(&e.EndedAt),
		&e.OutputBytes, &e.OutputFrom, &e.Processes, &s.Tag)
	return e, err
}

// Exec finds an exec of a sandbox.
func (r *reader) Exec(sandbox core.SandboxID, id core.ExecID) (core.Exec, error) {
	return one(r, noExec, scanExec, selectExec+"WHERE sandbox = ? AND id = ?", sandbox, id)
}

// ListExecs returns a page of a sandbox's execs, newest first.
func (r *reader) ListExecs(
	sandbox core.SandboxID, filter store.ExecFilter, page store.Page,
) (list []core.Exec, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	after, ok, err := parseCursor("execs", page.Cursor)
	if err != nil {
		return nil, "", err
	}
	query, args := filterExecs(selectExec+"WHERE sandbox = ?", []any{sandbox}, filter)
	if ok {
		query += " AND (started_at, id) < (?, ?)"
		args = append(args, after.At, after.ID)
	}
	query += " ORDER BY started_at DESC, id DESC LIMIT ?"
	list, more, err := readPage(r, scanExec, store.ExecSize, page.Limit, query, append(args, page.Limit+1)...)
	if err != nil || !more {
		return list, "", err
	}
	e := list[len(list)-1]
	return list, position{Kind: "execs", At: nanoseconds(e.StartedAt), ID: string(e.ID)}.String(), nil
}

// OpenExecs returns a sandbox's execs that have no outcome, oldest first, without their specifications.
func (r *reader) OpenExecs(sandbox core.SandboxID) ([]core.Exec, error) {
	return many(r, scanExec, selectOpen+"WHERE sandbox = ? AND outcome = '' ORDER BY started_at, id", sandbox)
}

const putExec = "INSERT INTO exec (" + execColumns + `)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (sandbox, id) DO UPDATE SET pid = excluded.pid, outcome = excluded.outcome,
	exit_code = excluded.exit_code, signal = excluded.signal, out_of_memory = excluded.out_of_memory,
	started_at = excluded.started_at,
	ended_at = excluded.ended_at, output_bytes = excluded.output_bytes, output_from = excluded.output_from,
	processes = excluded.processes`

// PutExec inserts an exec, or replaces all but its specification, which never changes.
func (w *writer) PutExec(e core.Exec) error {
	if e.ID == "" || e.Sandbox == "" || e.StartedAt.IsZero() {
		return core.Errorf(core.CodeInvalid, "an exec has an id, a sandbox and a time of start")
	}
	s := &e.Spec
	if err := checkText("env", s.Env); err != nil {
		return err
	}
	if err := checkText("cmd", nil, s.Cmd...); err != nil {
		return err
	}
	if err := checkText("tag", nil, s.Tag); err != nil {
		return err
	}
	_, err := w.change("write exec", putExec,
		e.Sandbox, e.ID, jsonOf(&s.Cmd), s.Shell, s.Cwd, jsonOf(&s.Env), s.User, s.Stdin,
		int64(s.Timeout), s.Detach, s.TTY, s.Rows, s.Cols,
		e.PID, e.Outcome, e.ExitCode, e.Signal, e.OutOfMemory, instant(e.StartedAt), instant(e.EndedAt),
		e.OutputBytes, e.OutputFrom, e.Processes, s.Tag)
	if isCode(err, sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY) {
		return core.Wrap(core.CodeNotFound, err, noSandbox)
	}
	if err != nil || e.Outcome != core.OutcomeRunning {
		return err
	}
	// Only what begins adds to the number. While there are not so many, there is no row to compare with, and none goes.
	_, err = w.change("trim execs", `DELETE FROM exec WHERE sandbox = ?1 AND outcome <> '' AND (started_at, id) <=
		(SELECT started_at, id FROM exec WHERE sandbox = ?1 ORDER BY started_at DESC, id DESC LIMIT 1 OFFSET ?2)`,
		e.Sandbox, w.keep.execs)
	return err
}

// DeleteExec removes the record of an exec.
func (w *writer) DeleteExec(sandbox core.SandboxID, id core.ExecID) error {
	n, err := w.change("delete exec", "DELETE FROM exec WHERE sandbox = ? AND id = ?", sandbox, id)
	if err == nil && n == 0 {
		return core.Errorf(core.CodeNotFound, noExec)
	}
	return err
}

// LoseExecs ends every running exec of a sandbox as lost.
func (w *writer) LoseExecs(sandbox core.SandboxID, at time.Time) ([]core.Exec, error) {
	list, err := w.OpenExecs(sandbox)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	for i := range list {
		list[i].Outcome = core.OutcomeLost
		list[i].EndedAt = time.Unix(0, at.UnixNano()).UTC()
		list[i].Processes = 0
	}
	_, err = w.change("lose execs",
		"UPDATE exec SET outcome = 'lost', ended_at = ?, processes = 0 WHERE sandbox = ? AND outcome = ''",
		instant(at), sandbox)
	return list, err
}
