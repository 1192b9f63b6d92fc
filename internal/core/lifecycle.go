package core

import (
	"fmt"
	"slices"
	"time"
)

// LifecycleAction is what a rule of a sandbox's lifecycle does.
type LifecycleAction string

// The actions. Freeze, standby and hibernate are words already and not yet done by any rule.
const (
	ActionFreeze    LifecycleAction = "freeze"
	ActionStandby   LifecycleAction = "standby"
	ActionHibernate LifecycleAction = "hibernate"
	ActionStop      LifecycleAction = "stop"
	ActionDelete    LifecycleAction = "delete"
)

// LifecycleActions lists every action.
func LifecycleActions() []LifecycleAction {
	return []LifecycleAction{ActionFreeze, ActionStandby, ActionHibernate, ActionStop, ActionDelete}
}

// operation is what carries an action out.
func (a LifecycleAction) operation() OperationKind {
	switch a {
	case ActionFreeze:
		return OpFreeze
	case ActionStandby:
		return OpStandby
	case ActionHibernate:
		return OpHibernate
	case ActionStop:
		return OpStop
	case ActionDelete:
		return OpDelete
	}
	return OpNone
}

// AppliesTo reports whether a rule with this action has something to do in a state. What has failed is only ever deleted by a rule:
// nothing of it runs, and why it failed is not to be lost.
func (a LifecycleAction) AppliesTo(s State) bool {
	if s == StateFailed && a != ActionDelete {
		return false
	}
	_, ok := Next(s, a.operation())
	return ok
}

// Done reports whether rules can do the action.
func (a LifecycleAction) Done() bool { return a == ActionStop || a == ActionDelete }

// RuleTrigger is what a rule counts.
type RuleTrigger string

// The triggers.
const (
	// TriggerAge counts from the creation, TriggerDeadline names a moment. A rule with either acts once.
	TriggerAge      RuleTrigger = "age"
	TriggerDeadline RuleTrigger = "deadline"
	// TriggerIdle counts from the last use. A wake is one.
	TriggerIdle RuleTrigger = "idle"
	// TriggerTimeInState counts from when the sandbox came into a state, each time that it does.
	TriggerTimeInState RuleTrigger = "time_in_state"
)

// RuleTriggers lists every trigger.
func RuleTriggers() []RuleTrigger {
	return []RuleTrigger{TriggerAge, TriggerDeadline, TriggerIdle, TriggerTimeInState}
}

// LifecycleRule says what is done to a sandbox by itself, and when.
type LifecycleRule struct {
	On RuleTrigger `json:"on"`
	// After is how long it takes, for all but a deadline.
	After time.Duration `json:"after,omitempty"`
	// At is the moment of a deadline.
	At time.Time `json:"at,omitzero"`
	// State is the one in which a time_in_state rule counts.
	State  State           `json:"state,omitempty"`
	Action LifecycleAction `json:"action"`
	// FiredAt is when a rule that acts once did so, or its moment passed without anything for it to do. It never acts again.
	FiredAt time.Time `json:"fired_at,omitzero"`
}

// The bounds of rules.
const (
	MaxRules     = 16
	MinRuleAfter = time.Second
	MaxRuleAfter = 366 * 24 * time.Hour
)

// Same reports whether two rules say the same, whatever has become of them.
func (r LifecycleRule) Same(o LifecycleRule) bool {
	return r.On == o.On && r.After == o.After && r.At.Equal(o.At) && r.State == o.State && r.Action == o.Action
}

// once reports whether the rule acts once.
func (r LifecycleRule) once() bool { return r.On == TriggerAge || r.On == TriggerDeadline }

// moment is when a rule that acts once does so.
func (r LifecycleRule) moment(sb *Sandbox) time.Time {
	if r.On == TriggerAge {
		return sb.CreatedAt.Add(r.After)
	}
	return r.At
}

// CheckRules refuses rules that no sandbox can have. The error blames rules[0].on and so on.
func CheckRules(rules []LifecycleRule) error {
	if len(rules) > MaxRules {
		return Invalid("rules", "at most %d rules", MaxRules)
	}
	for i, r := range rules {
		if err := r.check(fmt.Sprintf("rules[%d].", i)); err != nil {
			return err
		}
	}
	return nil
}

func (r LifecycleRule) check(field string) error {
	switch {
	case !slices.Contains(RuleTriggers(), r.On):
		return Invalid(field+"on", "%q is nothing that a rule counts: there is age, deadline, idle and time_in_state", clip(string(r.On)))
	case !slices.Contains(LifecycleActions(), r.Action):
		return Invalid(field+"action", "%q is not an action: there is stop and delete", clip(string(r.Action)))
	case !r.Action.Done():
		return &Error{
			Code: CodeUnsupported, Field: field + "action",
			Message: fmt.Sprintf("a rule can't %s a sandbox yet: there is stop and delete", r.Action),
		}
	case r.On == TriggerDeadline && r.After != 0:
		return Invalid(field+"after_seconds", "a deadline is a moment: say at instead, or age for a time from the creation")
	case r.On == TriggerDeadline && r.At.IsZero():
		return Invalid(field+"at", "a deadline has a moment, such as 2027-01-31T18:00:00Z")
	case r.On != TriggerDeadline && !r.At.IsZero():
		return Invalid(field+"at", "only a deadline has a moment: %s takes after_seconds", r.On)
	case r.On != TriggerDeadline && (r.After < MinRuleAfter || r.After > MaxRuleAfter):
		return Invalid(field+"after_seconds", "a rule on %s acts after 1 to %d seconds", r.On, int64(MaxRuleAfter/time.Second))
	}
	return r.checkState(field)
}

// checkState holds a state to those in which a sandbox can stay and the rule has something to do.
func (r LifecycleRule) checkState(field string) error {
	switch {
	case r.On != TriggerTimeInState && r.State != "":
		return Invalid(field+"state", "only time_in_state has a state: %s counts in every state", r.On)
	case r.On != TriggerTimeInState:
		return nil
	case r.State == "":
		return Invalid(field+"state", "time_in_state says in which state: running, stopped or failed")
	}
	switch r.State {
	case StateRunning, StateStopped, StateFailed:
	case StateFrozen, StateStandby, StateHibernated:
		return &Error{
			Code: CodeUnsupported, Field: field + "state",
			Message: fmt.Sprintf("no sandbox is %s yet: time_in_state counts running, stopped and failed", r.State),
		}
	case StateCreating, StateDeleted:
		return Invalid(field+"state", "a sandbox doesn't stay %s: time_in_state counts running, stopped and failed", r.State)
	default:
		return Invalid(field+"state", "%q is not a state: time_in_state counts running, stopped and failed", clip(string(r.State)))
	}
	if !r.Action.AppliesTo(r.State) {
		return Invalid(field+"action", "a rule can't %s a sandbox that is %s", r.Action, r.State)
	}
	return nil
}

// clip shortens what a caller sent for use in a message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
