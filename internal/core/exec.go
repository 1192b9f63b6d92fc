package core

import "time"

// ExecSpec is what a caller asks to have run. Exactly one of Cmd and Shell is set.
type ExecSpec struct {
	// Cmd is the program and its arguments; a program without a slash is looked up in the exec's PATH.
	Cmd []string
	// Shell is a script that /bin/sh -c runs.
	Shell string
	// Cwd is the working directory; empty means the template's.
	Cwd string
	Env map[string]string
	// User is a name or a number, optionally ":group"; empty means the template's default user.
	User string
	// Stdin says that the caller will send input and end it; otherwise the process reads from /dev/null.
	Stdin bool
	// Timeout kills the whole process group when it passes; zero means none.
	Timeout time.Duration
	// Detach lets the exec go on by itself: output is kept in a bounded ring and nobody holds it back.
	Detach bool
	// Entrypoint runs what the sandbox's template says: its entrypoint with Cmd as arguments, or with its own if Cmd is empty.
	Entrypoint bool
	// TTY gives it a terminal of Rows × Cols.
	TTY        bool
	Rows, Cols uint16
	// Tag is a caller's own word for the exec, to find it by: at most 256 bytes of UTF-8 without NUL. Several may have the
	// same one.
	Tag string
	// Once, unless it is nil, makes a repeat of the call return what the first one made. It is no part of the record.
	Once *Once
}

// Outcome says how an exec ended. There is no other way to end, and none is invented.
type Outcome string

// The outcomes.
const (
	// OutcomeRunning is the outcome of an exec that has not ended.
	OutcomeRunning Outcome = ""
	// OutcomeExited: the process returned ExitCode.
	OutcomeExited Outcome = "exited"
	// OutcomeSignaled: Signal ended it, sent by someone else than us for a deadline or a cancel.
	OutcomeSignaled Outcome = "signaled"
	// OutcomeTimeout: its timeout passed and its group was killed.
	OutcomeTimeout Outcome = "timeout"
	// OutcomeCanceled: a caller deleted the exec and its group was killed.
	OutcomeCanceled Outcome = "canceled"
	// OutcomeLost: the sandbox or its guest agent went away before the end could be learned.
	OutcomeLost Outcome = "lost"
)

// Exec is one process that a caller started, with the group of its descendants.
type Exec struct {
	ID      ExecID
	Sandbox SandboxID
	Spec    ExecSpec
	// PID is the process's id inside the sandbox.
	PID     int
	Outcome Outcome
	// ExitCode is what the process returned; nil unless Outcome is exited.
	ExitCode *int
	// Signal is the name of the signal that ended it, such as "SIGKILL"; empty unless Outcome is signaled.
	Signal string
	// OutOfMemory says that the guest agent killed processes of its group because the sandbox had used up its memory. The
	// outcome is what it is without that: signaled if the leader was among them.
	OutOfMemory bool
	// Shortage has the figures of that, when the guest agent tells them; it is in the event of the end and not on record.
	Shortage  Shortage
	StartedAt time.Time
	EndedAt   time.Time
	// OutputBytes is how much it has written so far to stdout and stderr together: the end of its output ring.
	OutputBytes int64
	// OutputFrom is the offset of the oldest byte still in the ring.
	OutputFrom int64
	// Processes is how many processes of its group are alive, the leader included.
	Processes int
}

// Shortage is how memory was used up, in bytes: what the whole sandbox used when processes were killed for it, what those held,
// and what there was.
type Shortage struct{ UsedBytes, HeldBytes, LimitBytes int64 }

// ExecResult is the reply of an exec that was waited for.
type ExecResult struct {
	Exec
	Stdout, Stderr []byte
	// Truncated says that output was left out of the reply because it was larger than the reply's limit.
	Truncated bool
	Duration  time.Duration
}

// ExecStreamKind says what an ExecMessage carries.
type ExecStreamKind string

// The kinds of message of an exec stream.
const (
	ExecStarted ExecStreamKind = "started"
	ExecStdout  ExecStreamKind = "stdout"
	ExecStderr  ExecStreamKind = "stderr"
	// ExecGap says that output from Offset up to Offset+Missing is no longer in the ring.
	ExecGap ExecStreamKind = "gap"
	// ExecEnded is the last message: Exec holds the outcome.
	ExecEnded ExecStreamKind = "ended"
)

// ExecMessage is one message of an exec stream.
type ExecMessage struct {
	Kind ExecStreamKind
	// Offset is where Data begins in the exec's output, both streams counted together in the order they were read.
	Offset  int64
	Data    []byte
	Missing int64
	Exec    *Exec
}
