package core

import "time"

// Once names a call by a key of its caller's, so that it has its effect once however often it arrives: a repeat is answered with
// what the first one made. A pointer to it goes with what is asked for; nil means that every call counts.
type Once struct {
	// Key is the caller's word for the call. Digest is of all else that the call says: a repeat says the same.
	Key, Digest string
	// Input says that the call brings the whole input of the process that it starts.
	Input bool
	// Repeated is set when the answer is that of an earlier call: nothing was made, and nothing is to be given to it.
	Repeated bool
}

// The bounds of keyed calls.
const (
	// RememberCalls is for how long a call with a key is remembered.
	RememberCalls = 24 * time.Hour
	// maxOnceKey is the greatest length of a key.
	maxOnceKey = 255
)

// CheckOnceKey returns an error that blames field unless s may be a key: 1 to 255 characters of printable ASCII without spaces.
func CheckOnceKey(field, s string) error {
	if s == "" || len(s) > maxOnceKey {
		return Invalid(field, "a key for a call has 1 to %d characters", maxOnceKey)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return Invalid(field, "a key for a call is printable ASCII without spaces")
		}
	}
	return nil
}

// KeyedCall is what is remembered of a call with a key: what it made, recorded together with that.
type KeyedCall struct {
	Tenant TenantID
	// Route says which call it was and on what, so that the same key may be used on another.
	Route, Key, Digest string
	// Sandbox is the sandbox that it made, or, if Exec is not empty, in which it made that.
	Sandbox SandboxID
	Exec    ExecID
	// Operation is the operation that it began, empty if it makes no long work.
	Operation OperationID
	// Checkpoint is the checkpoint that it made.
	Checkpoint CheckpointID
	// Fed says that the process has been given all of the input that the call brought.
	Fed bool
	At  time.Time
	// Result is the whole answer, nil while there is none, and if it was too large to be kept or so many have been kept since.
	Result []byte
}
