package core

import "time"

// WorkKind names what an operation does, as noun.verb. It is no OperationKind: those are what one sandbox goes through, and are
// over in a moment.
type WorkKind string

// The kinds of long work.
const (
	WorkTemplateImport WorkKind = "template.import"
	WorkTemplateCreate WorkKind = "template.create"
)

// WorkKinds lists every kind of long work.
func WorkKinds() []WorkKind { return []WorkKind{WorkTemplateImport, WorkTemplateCreate} }

// OperationState says how an operation stands. One that has ended keeps its state.
type OperationState string

// The states of an operation.
const (
	OperationRunning   OperationState = "running"
	OperationSucceeded OperationState = "succeeded"
	OperationFailed    OperationState = "failed"
	OperationCanceled  OperationState = "canceled"
)

// OperationStates lists every state of an operation.
func OperationStates() []OperationState {
	return []OperationState{OperationRunning, OperationSucceeded, OperationFailed, OperationCanceled}
}

// Operation is one piece of work that outlives the call that asked for it.
type Operation struct {
	ID     OperationID
	Tenant TenantID
	Kind   WorkKind
	State  OperationState
	// Target names what it makes or changes, such as template_id, and Result what came of it. Both hold a few short facts.
	Target map[string]string
	Result map[string]string
	// Intent is what is needed to do the work again after a restart, as JSON: its kind knows the form. It holds no secret, and no
	// caller sees it. Empty means that the work can't be done again.
	Intent    string
	Progress  OperationProgress
	Actor     Actor
	CreatedAt time.Time
	EndedAt   time.Time
	// Code and Message say why it failed; the message is safe to show.
	Code    Code
	Message string
	// Revision rises with every change that is worth showing, as long as this server does the work. It is not durable.
	Revision int64
}

// OperationProgress says how far an operation is.
type OperationProgress struct {
	// Step is what is being done, in plain words.
	Step string
	// Percent is how far all of it is, 0 to 100; negative if nobody knows.
	Percent int
	// BytesDone of BytesTotal have been moved; a total of 0 is not known.
	BytesDone, BytesTotal int64
}

// Ended reports whether the operation is over.
func (o Operation) Ended() bool { return o.State != OperationRunning }

// The events of operations. Their data name the operation's id and kind, and how it ended.
const (
	EventOperationStarted EventType = "operation.started"
	EventOperationEnded   EventType = "operation.ended"
)
