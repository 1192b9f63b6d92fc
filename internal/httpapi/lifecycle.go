package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
)

// lifecycleRules turns a request's rules into what control takes.
func lifecycleRules(in []api.LifecycleRule) ([]core.LifecycleRule, error) {
	out := make([]core.LifecycleRule, 0, len(in))
	for i, r := range in {
		after, err := seconds(fmt.Sprintf("rules[%d].after_seconds", i), float64(r.AfterSeconds))
		if err != nil {
			return nil, err
		}
		out = append(out, core.LifecycleRule{
			On: core.RuleTrigger(r.On), After: after, At: r.At.UTC(), State: core.State(r.State), Action: core.LifecycleAction(r.Action),
		})
	}
	return out, nil
}

func encodeRule(r core.LifecycleRule) api.SandboxRule {
	return api.SandboxRule{
		On: string(r.On), AfterSeconds: int64(r.After / time.Second), At: r.At, State: string(r.State), Action: string(r.Action), FiredAt: r.FiredAt,
	}
}

func (a sandboxAPI) getSandboxWhy(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	why, err := a.control.Why(r.Context(), r.principal, ref)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeWhy(why))
}

// mostUses bounds how many execs are told one by one.
const mostUses = 100

func encodeWhy(w control.Why) api.SandboxWhy {
	sb := w.Sandbox
	out := api.SandboxWhy{
		ID: string(sb.ID), At: w.At, State: api.SandboxState(sb.State), StateSince: sb.StateSince, Operation: string(sb.Operation),
		Failure: sb.Failure, ActiveAt: sb.ActiveAt, Uses: []api.SandboxUse{}, Rules: []api.ScheduledRule{},
	}
	for _, u := range w.Uses {
		out.Uses = append(out.Uses, api.SandboxUse{What: string(u.Kind), Count: u.Count, Since: u.Since, Awake: true})
	}
	for _, e := range w.Execs[:min(len(w.Execs), mostUses)] {
		out.Uses = append(out.Uses, api.SandboxUse{What: "exec", Count: 1, Since: e.StartedAt, ExecID: string(e.ID), Tag: e.Spec.Tag})
	}
	var waiting []api.ScheduledRule
	for _, r := range w.Rules {
		if rule := encodeScheduled(r, sb, w.InUse()); rule.Waiting == "" {
			out.Rules = append(out.Rules, rule)
		} else {
			waiting = append(waiting, rule)
		}
	}
	out.Rules = append(out.Rules, waiting...)
	out.Costs, out.LostByStop, out.LostByDelete = encodeCosts(w)
	return out
}

// encodeScheduled tells a rule of a sandbox, which may be in use.
func encodeScheduled(r core.ScheduledRule, sb core.Sandbox, inUse bool) api.ScheduledRule {
	rule := encodeRule(r.LifecycleRule)
	out := api.ScheduledRule{
		On: rule.On, AfterSeconds: rule.AfterSeconds, At: rule.At, State: rule.State, Action: rule.Action, FiredAt: rule.FiredAt, Origin: string(r.Origin),
	}
	switch {
	case !r.FiredAt.IsZero():
		out.Waiting = "fired"
	case r.On == core.TriggerTimeInState && r.State != sb.State:
		out.Waiting = "other_state"
	case !r.Action.AppliesTo(sb.State):
		out.Waiting = "nothing_to_do"
	case r.On == core.TriggerIdle && (inUse || r.DueAt.IsZero()): // what is being created is in use
		out.Waiting = "in_use"
	default:
		out.DueAt = r.DueAt
	}
	return out
}

// encodeCosts tells what a sandbox takes, and what of it a stop and a delete would lose.
func encodeCosts(w control.Why) (costs api.SandboxCosts, stop, del api.SandboxLoss) {
	clocks := core.ClocksOf(w.Sandbox.State)
	if w.Sandbox.State == core.StateCreating { // it doesn't count for usage yet, and is promised all the same
		clocks = core.ClocksOf(core.StateRunning)
	}
	if clocks.Awake {
		costs.VCPUs = w.Sandbox.Resources.VCPUs
	}
	if clocks.Memory {
		costs.MemoryBytes = w.Sandbox.Resources.MemoryBytes
	}
	if w.KeptBytes >= 0 {
		costs.DiskBytes = &w.KeptBytes
	}
	stop.Execs = len(w.Execs)
	if m := w.Metrics; m != nil {
		costs.MemoryUsedBytes, stop.MemoryBytes = &m.MemoryBytes, &m.MemoryBytes
		if m.Processes >= 0 {
			stop.Processes = &m.Processes
		}
	}
	del = stop
	del.Files, del.DiskBytes = true, costs.DiskBytes
	if w.Kept != nil {
		del.CheckpointID, del.CheckpointAt = string(w.Kept.ID), w.Kept.CreatedAt
	}
	return costs, stop, del
}
