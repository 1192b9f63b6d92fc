package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// hasFiles says that there is a tree to work with: not before it is made, nor after it is gone.
func hasFiles(s State) bool { return s != StateCreating && s != StateDeleted }

// TestEveryPair walks operation × state. For each it says from the words of the design, not from the table, whether the
// operation is allowed, and holds what follows to what it means.
func TestEveryPair(t *testing.T) {
	allowed := map[OperationKind]func(State) bool{
		OpCreate:    func(s State) bool { return s == StateCreating },
		OpFreeze:    func(s State) bool { return s == StateRunning },
		OpStandby:   func(s State) bool { return s == StateRunning || s == StateFrozen },
		OpHibernate: func(s State) bool { return s == StateRunning || s == StateFrozen || s == StateStandby },
		OpWake: func(s State) bool {
			return s == StateFrozen || s == StateStandby || s == StateHibernated || s == StateStopped
		},
		OpStop:       func(s State) bool { return hasFiles(s) && s != StateStopped },
		OpCheckpoint: hasFiles,
		OpRestore:    hasFiles,
		OpFork:       hasFiles,
		OpResize: func(s State) bool {
			return s == StateRunning || s == StateFrozen || s == StateStandby || s == StateStopped
		},
		OpDelete: func(s State) bool { return s != StateDeleted },
	}
	success := map[OperationKind]State{
		OpCreate: StateRunning, OpFreeze: StateFrozen, OpStandby: StateStandby, OpHibernate: StateHibernated,
		OpWake: StateRunning, OpStop: StateStopped, OpRestore: StateRunning, OpDelete: StateDeleted,
	}
	failure := map[OperationKind]State{OpCreate: StateDeleted, OpRestore: StateFailed, OpDelete: StateDeleted}
	for _, op := range Operations() {
		for _, s := range States() {
			t.Run(fmt.Sprintf("%s in %s", op, s), func(t *testing.T) {
				got, ok := Next(s, op)
				if ok != allowed[op](s) {
					t.Fatalf("allowed is %v", ok)
				}
				err := Begin(s, OpNone, op)
				if (err == nil) != ok {
					t.Fatalf("Begin says %v", err)
				}
				if !ok {
					want := CodeConflict
					if s == StateDeleted {
						want = CodeNotFound
					}
					if CodeOf(err) != want {
						t.Fatalf("refused with %v, want %s", err, want)
					}
					return
				}
				want := Transition{Success: s, Failure: s}
				if to, moves := success[op]; moves {
					want.Success = to
				}
				if to, moves := failure[op]; moves {
					want.Failure = to
				}
				if got != want {
					t.Fatalf("got %+v, want %+v", got, want)
				}
			})
		}
	}
}

// TestOperationUnderWay holds that an operation meets another one as a conflict that names both state and operation, that
// it may be taken up again itself, and that delete never waits.
func TestOperationUnderWay(t *testing.T) {
	for _, s := range States() {
		for _, underWay := range Operations() {
			for _, op := range Operations() {
				if _, ok := Next(s, op); !ok {
					continue
				}
				err := Begin(s, underWay, op)
				if op == OpDelete || op == underWay {
					if err != nil {
						t.Errorf("%s during %s in %s: %v", op, underWay, s, err)
					}
					continue
				}
				if !IsCode(err, CodeConflict) || !strings.Contains(err.Error(), string(s)) || !strings.Contains(err.Error(), string(underWay)) {
					t.Errorf("%s during %s in %s: %v", op, underWay, s, err)
				}
			}
		}
	}
}

func TestTableNamesOnlyWhatExists(t *testing.T) {
	for op, row := range transitions {
		if !slices.Contains(Operations(), op) {
			t.Errorf("the table has the operation %q", op)
		}
		for s, next := range row {
			for _, x := range []State{s, next.Success, next.Failure} {
				if !slices.Contains(States(), x) {
					t.Errorf("%s: the table has the state %q", op, x)
				}
			}
		}
	}
	if _, ok := Next(StateRunning, OpNone); ok {
		t.Error("no operation at all is allowed")
	}
}

// TestEveryStateIsReachedAndLeft holds that no state is a trap: each can be reached from creating, and deleted from each.
func TestEveryStateIsReachedAndLeft(t *testing.T) {
	reached := map[State]bool{StateCreating: true}
	for grew := true; grew; {
		grew = false
		for _, row := range transitions {
			for s, next := range row {
				for _, to := range []State{next.Success, next.Failure} {
					if reached[s] && !reached[to] {
						reached[to], grew = true, true
					}
				}
			}
		}
	}
	for _, s := range States() {
		if !reached[s] {
			t.Errorf("%s is never reached", s)
		}
	}
}
