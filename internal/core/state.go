package core

// State is the one stable state of a sandbox.
type State string

// The states.
const (
	StateCreating   State = "creating"
	StateRunning    State = "running"
	StateFrozen     State = "frozen"
	StateStandby    State = "standby"
	StateHibernated State = "hibernated"
	StateStopped    State = "stopped"
	StateFailed     State = "failed"
	StateDeleted    State = "deleted"
)

// States lists every state.
func States() []State {
	return []State{
		StateCreating, StateRunning, StateFrozen, StateStandby, StateHibernated, StateStopped, StateFailed, StateDeleted,
	}
}

// OperationKind is a durable operation on a sandbox. At most one is under way at a time.
type OperationKind string

// The operations.
const (
	OpNone       OperationKind = ""
	OpCreate     OperationKind = "create"
	OpFreeze     OperationKind = "freeze"
	OpStandby    OperationKind = "standby"
	OpHibernate  OperationKind = "hibernate"
	OpWake       OperationKind = "wake"
	OpStop       OperationKind = "stop"
	OpCheckpoint OperationKind = "checkpoint"
	OpRestore    OperationKind = "restore"
	OpFork       OperationKind = "fork"
	OpResize     OperationKind = "resize"
	OpDelete     OperationKind = "delete"
)

// Operations lists every operation.
func Operations() []OperationKind {
	return []OperationKind{
		OpCreate, OpFreeze, OpStandby, OpHibernate, OpWake, OpStop, OpCheckpoint, OpRestore, OpFork, OpResize, OpDelete,
	}
}

// Transition says what follows when an operation that was allowed ends.
type Transition struct {
	// Success is the state after the operation went well.
	Success State
	// Failure is the state after it failed. An operation that leaves its source alone keeps the state.
	Failure State
}

// same is a transition that keeps the state whatever happens.
func same(s State) Transition { return Transition{Success: s, Failure: s} }

// transitions is the whole state machine: operation → state it may start in → what follows.
// A pair that is not in the table is refused with conflict.
var transitions = map[OperationKind]map[State]Transition{
	// A create that fails leaves nothing half-made: its record ends as deleted.
	OpCreate: {StateCreating: {StateRunning, StateDeleted}},
	OpFreeze: {StateRunning: {StateFrozen, StateRunning}},
	OpStandby: {
		StateRunning: {StateStandby, StateRunning},
		StateFrozen:  {StateStandby, StateFrozen},
	},
	OpHibernate: {
		StateRunning: {StateHibernated, StateRunning},
		StateFrozen:  {StateHibernated, StateFrozen},
		StateStandby: {StateHibernated, StateStandby},
	},
	// A wake that fails leaves what slept usable.
	OpWake: {
		StateFrozen:     {StateRunning, StateFrozen},
		StateStandby:    {StateRunning, StateStandby},
		StateHibernated: {StateRunning, StateHibernated},
		StateStopped:    {StateRunning, StateStopped},
	},
	OpStop: {
		StateRunning:    {StateStopped, StateRunning},
		StateFrozen:     {StateStopped, StateFrozen},
		StateStandby:    {StateStopped, StateStandby},
		StateHibernated: {StateStopped, StateHibernated},
		StateFailed:     {StateStopped, StateFailed},
	},
	OpCheckpoint: {
		StateRunning:    same(StateRunning),
		StateFrozen:     same(StateFrozen),
		StateStandby:    same(StateStandby),
		StateHibernated: same(StateHibernated),
		StateStopped:    same(StateStopped),
		StateFailed:     same(StateFailed),
	},
	// A restore puts the files back and starts what the checkpoint held; a failed one leaves the sandbox failed
	// with both its old files and the checkpoint kept.
	OpRestore: {
		StateRunning:    {StateRunning, StateFailed},
		StateFrozen:     {StateRunning, StateFailed},
		StateStandby:    {StateRunning, StateFailed},
		StateHibernated: {StateRunning, StateFailed},
		StateStopped:    {StateRunning, StateFailed},
		StateFailed:     {StateRunning, StateFailed},
	},
	OpFork: {
		StateRunning:    same(StateRunning),
		StateFrozen:     same(StateFrozen),
		StateStandby:    same(StateStandby),
		StateHibernated: same(StateHibernated),
		StateStopped:    same(StateStopped),
		StateFailed:     same(StateFailed),
	},
	OpResize: {
		StateRunning: same(StateRunning),
		StateFrozen:  same(StateFrozen),
		StateStandby: same(StateStandby),
		StateStopped: same(StateStopped),
	},
	// Delete is allowed in every state and never fails: what it could not reclaim yet is reclaimed later.
	OpDelete: {
		StateCreating:   same(StateDeleted),
		StateRunning:    same(StateDeleted),
		StateFrozen:     same(StateDeleted),
		StateStandby:    same(StateDeleted),
		StateHibernated: same(StateDeleted),
		StateStopped:    same(StateDeleted),
		StateFailed:     same(StateDeleted),
	},
}

// Next returns what follows when op starts in state. ok is false if op is not allowed there.
func Next(state State, op OperationKind) (t Transition, ok bool) {
	t, ok = transitions[op][state]
	return t, ok
}

// Begin checks that op may start on a sandbox in this state with this operation under way. Delete cancels whatever
// is under way; every other operation meets a conflict that names both.
func Begin(state State, underWay, op OperationKind) error {
	if _, ok := Next(state, op); !ok {
		if state == StateDeleted {
			return Errorf(CodeNotFound, "no such sandbox")
		}
		return Errorf(CodeConflict, "can't %s a sandbox that is %s", op, state)
	}
	if underWay != OpNone && underWay != op && op != OpDelete {
		return Errorf(CodeConflict, "the sandbox is %s and a %s is under way: try again when it has ended", state, underWay)
	}
	return nil
}

// AfterReboot is the state in which a sandbox is found after its node's machine was restarted: what was in memory is gone.
func AfterReboot(s State, persistent bool) State {
	switch s {
	case StateCreating:
		return StateDeleted
	case StateRunning, StateFrozen:
		if persistent {
			return StateStopped
		}
		return StateFailed
	case StateStandby, StateHibernated, StateStopped, StateFailed, StateDeleted:
	}
	return s
}
