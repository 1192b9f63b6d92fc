package sqlite

import (
	"time"

	"shoal/internal/core"
)

// The column next_rule_at has core.NextClockRule's moment of each sandbox, written with the record.

const (
	rulesDue = "SELECT id FROM sandbox WHERE next_rule_at <= ? AND state <> 'deleted' ORDER BY next_rule_at, id"
	nextRule = "SELECT min(next_rule_at) FROM sandbox WHERE next_rule_at > ? AND state <> 'deleted'"
)

// RulesDue returns the sandboxes of which a rule is due, in the order of their moments.
func (r *reader) RulesDue(now time.Time) ([]core.SandboxID, error) {
	return many(r, func(r row) (id core.SandboxID, err error) {
		err = r.Scan(&id)
		return id, err
	}, rulesDue, nearest(now))
}

// NextRule returns when the next rule is due that isn't yet.
func (r *reader) NextRule(now time.Time) (at time.Time, ok bool, err error) {
	at, err = one(r, "", func(r row) (t time.Time, err error) {
		err = r.Scan((*instant)(&t))
		return t, err
	}, nextRule, nearest(now))
	return at, !at.IsZero(), err
}
