package sqlite

import (
	"shoal/internal/core"
	"shoal/internal/store"
)

// FindExec finds an exec by pid or tag: a running one before one that has ended, then the newest.
func (r *reader) FindExec(sandbox core.SandboxID, by store.ExecKey) (core.Exec, error) {
	switch {
	case by.PID != 0:
		query, args := findByPID(sandbox, by)
		return one(r, noExec, scanExec, query, args...)
	case by.Tag != "":
		// A tag may be on every record: each question is answered by the end of an index.
		const newest = " ORDER BY started_at DESC, id DESC LIMIT 1"
		const tagged = selectExec + "WHERE sandbox = ? AND tag = ? AND tag <> ''"
		e, err := one(r, noExec, scanExec, tagged+" AND outcome = ''"+newest, sandbox, by.Tag)
		if !core.IsCode(err, core.CodeNotFound) {
			return e, err
		}
		return one(r, noExec, scanExec, tagged+newest, sandbox, by.Tag)
	}
	return core.Exec{}, core.Errorf(core.CodeInvalid, "an exec is found by its pid or its tag")
}

// findByPID is the query for a process id, and a tag if there is one. A process id has few records. The words about zero are what the
// index is limited to; by itself SQLite takes the primary key, and reads all of the sandbox's records.
func findByPID(sandbox core.SandboxID, by store.ExecKey) (query string, args []any) {
	query, args = selectExec+"INDEXED BY exec_by_pid WHERE sandbox = ? AND pid = ? AND pid <> 0", []any{sandbox, by.PID}
	if by.Tag != "" {
		query += " AND tag = ?"
		args = append(args, by.Tag)
	}
	return query + " ORDER BY outcome <> '', started_at DESC, id DESC LIMIT 1", args
}

// filterExecs adds a filter to a query of execs.
func filterExecs(query string, args []any, f store.ExecFilter) (string, []any) {
	if f.Running {
		query += " AND outcome = ''"
	}
	if f.Tag != "" {
		query += " AND tag = ? AND tag <> ''"
		args = append(args, f.Tag)
	}
	return query, args
}
