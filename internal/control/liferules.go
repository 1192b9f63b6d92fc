package control

import (
	"fmt"
	"slices"
	"time"

	"shoal/internal/config"
	"shoal/internal/core"
)

// minTTL is the least ttl, and the least time of any other rule.
const minTTL = core.MinRuleAfter

// lifecycle checks when a sandbox is to end or to sleep, and fills in the defaults.
func (l Limits) lifecycle(spec core.SandboxSpec, now time.Time) (_ core.SandboxSpec, ttl time.Duration, err error) {
	if spec.Idle, spec.OnIdle, err = idleRule(spec.Idle, spec.OnIdle, spec.Persistent); err != nil {
		return spec, 0, err
	}
	sb := core.Sandbox{Persistent: spec.Persistent, Idle: spec.Idle, OnIdle: spec.OnIdle, CreatedAt: now}
	if sb.Rules, err = l.rules(spec.Rules, sb, now); err != nil {
		return spec, 0, err
	}
	spec.Rules = sb.Rules
	if spec.TTL == 0 && (spec.Persistent || sb.Ends()) { // another rule is an end too
		return spec, 0, nil
	}
	ttl, err = l.ttl(spec.TTL, spec.Persistent)
	return spec, ttl, err
}

// ttl checks a ttl; zero is the default.
func (l Limits) ttl(ttl time.Duration, persistent bool) (time.Duration, error) {
	switch {
	case ttl < 0 || (ttl > 0 && ttl < minTTL):
		return 0, core.Invalid("ttl_seconds", "the ttl is at least 1 second")
	case ttl == 0:
		return l.DefaultTTL, nil
	case ttl > l.MaxTTL && !persistent:
		return 0, core.Invalid("ttl_seconds", "an ephemeral sandbox lives at most %s: ask for less, or for a persistent one", config.FormatDuration(l.MaxTTL))
	}
	return ttl, nil
}

// idleRule checks an idle rule and fills in its action. A persistent sandbox was asked to be kept: only a caller who spells the
// deletion out gets a rule that deletes it.
func idleRule(after time.Duration, then core.LifecycleAction, persistent bool) (time.Duration, core.LifecycleAction, error) {
	known := slices.Contains(core.LifecycleActions(), then)
	switch {
	case then != "" && !known:
		return 0, "", core.Invalid("on_idle", "%q is not an action: there is stop and delete", clip(string(then)))
	case then != "" && !then.Done():
		return 0, "", unsupported("on_idle", "an idle rule can't "+string(then)+" a sandbox yet: there is stop and delete")
	case then != "" && after == 0:
		return 0, "", core.Invalid("on_idle", "on_idle says what comes after idle_seconds: give that too")
	case after == 0:
		return 0, "", nil
	case after < core.MinRuleAfter || after > core.MaxRuleAfter:
		return 0, "", core.Invalid("idle_seconds", "an idle rule is 1 to %d seconds", int64(core.MaxRuleAfter/time.Second))
	case persistent && then == "":
		return 0, "", core.Invalid("on_idle",
			"an idle rule deletes the sandbox, and this one is persistent: if that is meant, set on_idle to delete, or to stop to keep its files")
	case then == "":
		then = core.ActionDelete
	}
	return after, then, nil
}

// rules checks the rules that a sandbox is to have. One that acts once and that it has already keeps what has become of it; the moment of
// another must lie ahead.
func (l Limits) rules(rules []core.LifecycleRule, sb core.Sandbox, now time.Time) ([]core.LifecycleRule, error) {
	if err := core.CheckRules(rules); err != nil {
		return nil, err
	}
	out := slices.Clone(rules)
	for i, r := range out {
		out[i].FiredAt = time.Time{}
		if old := slices.IndexFunc(sb.Rules, r.Same); old >= 0 {
			out[i].FiredAt = sb.Rules[old].FiredAt
			continue
		}
		switch {
		case r.On == core.TriggerDeadline && !r.At.After(now):
			return nil, core.Invalid(fmt.Sprintf("rules[%d].at", i), "that moment has passed: a deadline lies ahead")
		case r.On == core.TriggerAge && !sb.CreatedAt.Add(r.After).After(now):
			return nil, core.Invalid(fmt.Sprintf("rules[%d].after_seconds", i), "the sandbox is older than that already: say a deadline, or do it yourself")
		}
	}
	sb.Rules = out
	return out, l.ephemeral(sb, now)
}

// ephemeral refuses ends that lie further ahead than those of an ephemeral sandbox may.
func (l Limits) ephemeral(sb core.Sandbox, now time.Time) error {
	last := now.Add(l.MaxTTL)
	for i, r := range sb.Rules {
		if sb.Persistent || r.Action != core.ActionDelete {
			continue
		}
		switch {
		case r.On == core.TriggerAge && sb.CreatedAt.Add(r.After).After(last):
			return core.Invalid(fmt.Sprintf("rules[%d].after_seconds", i), "an ephemeral sandbox lives at most %s", config.FormatDuration(l.MaxTTL))
		case r.On == core.TriggerDeadline && r.At.After(last):
			return core.Invalid(fmt.Sprintf("rules[%d].at", i), "an ephemeral sandbox lives at most %s", config.FormatDuration(l.MaxTTL))
		}
	}
	return nil
}
