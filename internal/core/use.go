package core

// UseKind is a way of using a sandbox that goes on for a while and counts as use all along.
type UseKind string

// The kinds.
const (
	UseExecStream UseKind = "exec_stream"
	UseFileRead   UseKind = "file_read"
	UseFileWrite  UseKind = "file_write"
	UseFileWatch  UseKind = "file_watch"
	UseConnection UseKind = "connection"
	// UseOperation is work on the sandbox as a whole that a caller asked for: a checkpoint, a restore, a fork.
	UseOperation UseKind = "operation"
)

// UseKinds lists every kind.
func UseKinds() []UseKind {
	return []UseKind{UseExecStream, UseFileRead, UseFileWrite, UseFileWatch, UseConnection, UseOperation}
}
