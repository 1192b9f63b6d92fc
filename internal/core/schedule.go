package core

import (
	"cmp"
	"slices"
	"time"
)

// RuleOrigin says which field of a sandbox a rule comes from.
type RuleOrigin string

// The origins.
const (
	// OriginTTL is a deadline that deletes: Sandbox.ExpiresAt. OriginIdle is Sandbox.Idle with OnIdle. OriginRules is Sandbox.Rules.
	OriginTTL   RuleOrigin = "ttl"
	OriginIdle  RuleOrigin = "idle"
	OriginRules RuleOrigin = "rules"
)

// ScheduledRule is a rule of one sandbox, with when it acts if nothing changes before that.
type ScheduledRule struct {
	LifecycleRule
	Origin RuleOrigin
	// DueAt is zero if, as the sandbox is, the rule never acts: it did, it counts in another state, or it has nothing to do in this one.
	DueAt time.Time
}

// Reason names the rule in events: ttl, or what it counts.
func (r ScheduledRule) Reason() string {
	if r.Origin == OriginTTL {
		return string(OriginTTL)
	}
	return string(r.On)
}

// Schedule returns every rule of a sandbox, those of ttl and idle too, in the order in which they act: the earliest first, of several at the
// same moment one that deletes, then as they are written. Those that never act as the sandbox is come last. Idle rules count from
// sb.ActiveAt, which whoever asks must have right.
func Schedule(sb Sandbox) []ScheduledRule {
	var list []ScheduledRule
	add := func(r LifecycleRule, from RuleOrigin) {
		list = append(list, ScheduledRule{LifecycleRule: r, Origin: from, DueAt: dueAt(&sb, r)})
	}
	if !sb.ExpiresAt.IsZero() {
		add(LifecycleRule{On: TriggerDeadline, At: sb.ExpiresAt, Action: ActionDelete}, OriginTTL)
	}
	if sb.Idle > 0 {
		add(LifecycleRule{On: TriggerIdle, After: sb.Idle, Action: sb.OnIdle}, OriginIdle)
	}
	for _, r := range sb.Rules {
		add(r, OriginRules)
	}
	slices.SortStableFunc(list, func(a, b ScheduledRule) int {
		switch az, bz := a.DueAt.IsZero(), b.DueAt.IsZero(); {
		case az && bz:
			return 0
		case az:
			return 1
		case bz:
			return -1
		}
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(afterDelete(a.Action), afterDelete(b.Action)))
	})
	return list
}

func afterDelete(a LifecycleAction) int {
	if a == ActionDelete {
		return 0
	}
	return 1
}

// dueAt is when a rule acts on a sandbox as it is; zero if never.
func dueAt(sb *Sandbox, r LifecycleRule) time.Time {
	if !r.Action.AppliesTo(sb.State) {
		return time.Time{}
	}
	switch {
	case r.once() && r.FiredAt.IsZero():
		return r.moment(sb)
	case r.On == TriggerTimeInState && r.State == sb.State:
		return sb.StateSince.Add(r.After)
	case r.On == TriggerIdle && sb.State != StateCreating && !sb.ActiveAt.IsZero(): // being created is use
		return sb.ActiveAt.Add(r.After)
	}
	return time.Time{}
}

// NextClockRule returns the rule that acts first on a sandbox by what its record says alone: any but those on idle. ok is false if none does.
func NextClockRule(sb Sandbox) (ScheduledRule, bool) {
	return first(sb, func(r ScheduledRule) bool { return r.On != TriggerIdle })
}

// NextIdleRule returns the rule that acts first on a sandbox when it is not used. ok is false if none does.
func NextIdleRule(sb Sandbox) (ScheduledRule, bool) {
	return first(sb, func(r ScheduledRule) bool { return r.On == TriggerIdle })
}

func first(sb Sandbox, want func(ScheduledRule) bool) (ScheduledRule, bool) {
	for _, r := range Schedule(sb) {
		if !r.DueAt.IsZero() && want(r) {
			return r, true
		}
	}
	return ScheduledRule{}, false
}

// CountsUse reports whether a sandbox has a rule on idle, in whatever state that acts.
func (sb *Sandbox) CountsUse() bool {
	return sb.Idle > 0 || slices.ContainsFunc(sb.Rules, func(r LifecycleRule) bool { return r.On == TriggerIdle })
}

// Ends reports whether a sandbox has a rule that deletes it whatever state it comes to: a ttl, or one on age, deadline or idle.
func (sb *Sandbox) Ends() bool {
	return !sb.ExpiresAt.IsZero() || sb.Idle > 0 && sb.OnIdle == ActionDelete || slices.ContainsFunc(sb.Rules, LifecycleRule.ends)
}

func (r LifecycleRule) ends() bool { return r.Action == ActionDelete && r.On != TriggerTimeInState }

// Become puts a sandbox into a state. Rules that act once and whose moment has come are over if the state before or the new one leaves
// them nothing to do: what was stopped at its age or deadline is not stopped again by that after it was woken.
func (sb *Sandbox) Become(s State, at time.Time) {
	sb.lapse(at)
	if sb.State != s || sb.StateSince.IsZero() {
		sb.StateSince = at
	}
	sb.State = s
	sb.lapse(at)
}

func (sb *Sandbox) lapse(now time.Time) {
	if sb.State == "" || sb.State == StateCreating || sb.State == StateDeleted {
		return
	}
	rules := slices.Clone(sb.Rules) // whoever has the record of before sees it as it was
	for i, r := range rules {
		if r.once() && r.FiredAt.IsZero() && !r.moment(sb).After(now) && !r.Action.AppliesTo(sb.State) {
			rules[i].FiredAt = now
		}
	}
	sb.Rules = rules
}
