package control_test

import (
	"errors"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

func systems(rule string) core.Actor { return core.Actor{Kind: "system", ID: rule} }

// TestRulesDelete has each kind of rule delete a sandbox, to the second.
func TestRulesDelete(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		for name, tc := range map[string]struct {
			rule core.LifecycleRule
			by   string
			// prepare is what happens to it first.
			prepare func(core.Sandbox)
		}{
			"age":      {rule: core.LifecycleRule{On: core.TriggerAge, After: time.Minute}, by: "age"},
			"deadline": {rule: core.LifecycleRule{On: core.TriggerDeadline, At: time.Now().Add(time.Minute)}, by: "deadline"},
			"idle":     {rule: core.LifecycleRule{On: core.TriggerIdle, After: time.Minute}, by: "idle"},
			"failed": {
				rule: core.LifecycleRule{On: core.TriggerTimeInState, After: time.Minute, State: core.StateFailed}, by: "time_in_state",
				prepare: func(sb core.Sandbox) {
					w.pass(10 * time.Minute) // it doesn't count while it runs
					w.node.crash(sb.ID)
				},
			},
		} {
			tc.rule.Action = core.ActionDelete
			if tc.rule.On == core.TriggerDeadline {
				tc.rule.At = time.Now().Add(time.Minute)
			}
			sb := w.create(core.SandboxSpec{Rules: []core.LifecycleRule{tc.rule}, Persistent: true})
			if !sb.ExpiresAt.IsZero() {
				t.Fatalf("%s: it has a ttl", name)
			}
			if tc.prepare != nil {
				tc.prepare(sb)
			}
			w.stays(sb, 59*time.Second)
			w.pass(time.Second)
			if by := w.ended(sb); by != systems(tc.by) {
				t.Errorf("%s: it was ended by %v", name, by)
			}
		}
	})
}

// TestRulesMissedWhileDown: what came due while no server was there is done at its start, by the rule that was due first.
func TestRulesMissedWhileDown(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		both := w.create(core.SandboxSpec{
			TTL: 20 * time.Minute, Rules: []core.LifecycleRule{{On: core.TriggerAge, After: 10 * time.Minute, Action: core.ActionDelete}},
		})
		later := w.create(core.SandboxSpec{Rules: []core.LifecycleRule{{On: core.TriggerDeadline, At: time.Now().Add(2 * time.Hour), Action: core.ActionDelete}}})
		_ = w.svc.Close()
		<-time.After(time.Hour)
		w.start()
		if by := w.ended(both); by != systems("age") {
			t.Errorf("it was ended by %v", by)
		}
		w.stays(later, time.Hour-time.Second)
		w.pass(time.Second)
		w.ended(later)
	})
}

// TestEphemeralAlwaysEnds: what is ephemeral and has no rule that deletes it for sure has a ttl, whichever way it came to that.
func TestEphemeralAlwaysEnds(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		limits := w.svc.Limits(alice)
		del := func(on core.RuleTrigger, after time.Duration) core.LifecycleRule {
			r := core.LifecycleRule{On: on, After: after, Action: core.ActionDelete}
			if on == core.TriggerTimeInState {
				r.State = core.StateFailed
			}
			if on == core.TriggerDeadline {
				r.After, r.At = 0, time.Now().Add(after)
			}
			return r
		}
		for _, on := range core.RuleTriggers() {
			rules := []core.LifecycleRule{del(on, time.Hour)}
			want := time.Time{}
			if on == core.TriggerTimeInState {
				want = time.Now().Add(limits.DefaultTTL)
			}
			sb := w.create(core.SandboxSpec{Rules: rules})
			if !sb.ExpiresAt.Equal(want) {
				t.Errorf("%s: its ttl ends at %v, want %v", on, sb.ExpiresAt, want)
			}
			sb, err := w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), control.SandboxPatch{Rules: &[]core.LifecycleRule{}})
			if err != nil || sb.ExpiresAt.IsZero() || len(sb.Rules) != 0 {
				t.Errorf("%s taken away: its ttl ends at %v, its rules are %v, %v", on, sb.ExpiresAt, sb.Rules, err)
			}
		}
		long := limits.MaxTTL + time.Minute
		for _, on := range []core.RuleTrigger{core.TriggerAge, core.TriggerDeadline} {
			_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Rules: []core.LifecycleRule{del(on, long)}})
			wantCode(t, err, core.CodeInvalid)
			sb := w.create(core.SandboxSpec{Rules: []core.LifecycleRule{del(on, long)}, Persistent: true})
			for _, patch := range []control.SandboxPatch{{Persistent: new(false)}, {Persistent: new(false), TTL: new(time.Hour)}} {
				_, err = w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), patch)
				wantCode(t, err, core.CodeInvalid)
			}
		}
	})
}

func TestPatchRules(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		ref := string(w.create(core.SandboxSpec{Persistent: true}).ID)
		patch := func(rules ...core.LifecycleRule) (core.Sandbox, error) {
			return w.svc.UpdateSandbox(t.Context(), alice, ref, control.SandboxPatch{Rules: &rules})
		}
		w.pass(time.Hour)
		age := core.LifecycleRule{On: core.TriggerAge, After: 2 * time.Hour, Action: core.ActionDelete}
		if sb, err := patch(age, core.LifecycleRule{On: core.TriggerIdle, After: time.Hour, Action: core.ActionDelete}); err != nil || len(sb.Rules) != 2 || !sb.ActiveAt.Equal(time.Now()) {
			t.Fatalf("%+v, %v", sb, err)
		}
		for name, rule := range map[string]core.LifecycleRule{
			"an age that has passed":      {On: core.TriggerAge, After: time.Minute, Action: core.ActionDelete},
			"a deadline that has passed":  {On: core.TriggerDeadline, At: time.Now(), Action: core.ActionDelete},
			"one that can't be":           {On: core.TriggerAge, After: time.Minute},
			"an action that doesn't work": {On: core.TriggerAge, After: 3 * time.Hour, Action: core.ActionFreeze},
		} {
			if _, err := patch(rule); err == nil {
				t.Errorf("%s is taken", name)
			}
		}
		// A list replaces the other as a whole, and a patch without one leaves it.
		if sb, err := w.svc.UpdateSandbox(t.Context(), alice, ref, control.SandboxPatch{TTL: new(9 * time.Hour)}); err != nil || len(sb.Rules) != 2 {
			t.Fatalf("%+v, %v", sb, err)
		}
		sb, err := patch(age)
		if err != nil || len(sb.Rules) != 1 || !sb.ActiveAt.IsZero() {
			t.Fatalf("%+v, %v", sb, err)
		}
		w.stays(sb, time.Hour-time.Second)
		w.pass(time.Second)
		w.ended(sb)
	})
}

// TestPatchMeetsRule changes a rule at the moment at which it is due: either the caller is told that the sandbox is gone, or it lives.
func TestPatchMeetsRule(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		lived := 0
		for range 40 {
			rule := core.LifecycleRule{On: core.TriggerAge, After: time.Minute, Action: core.ActionDelete}
			sb := w.create(core.SandboxSpec{Persistent: true, Rules: []core.LifecycleRule{rule}})
			<-time.After(time.Minute) // the loop wakes up in the same moment
			_, err := w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), control.SandboxPatch{Rules: &[]core.LifecycleRule{}})
			switch {
			case err == nil:
				lived++
				w.stays(sb, time.Minute)
				if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
					t.Fatal(err)
				}
			case core.IsCode(err, core.CodeNotFound):
				w.ended(sb)
			default:
				t.Fatalf("the change got %v", err)
			}
		}
		t.Logf("%d of 40 lived", lived)
	})
}

// TestRuleIsTriedAgain: a rule that can't be carried out is tried again, less and less often, and those of others are not held up.
func TestRuleIsTriedAgain(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		st := w.store.(*watchedStore)
		sb := w.create(core.SandboxSpec{TTL: time.Minute})
		other := w.create(core.SandboxSpec{TTL: 10 * time.Minute})
		w.pass(59 * time.Second)
		st.refuse(func(tx store.Tx) error {
			if now, err := tx.SandboxByID(sb.ID); err == nil && now.State == core.StateDeleted {
				return errors.New("the disk is full")
			}
			return nil
		})
		w.pass(11 * time.Minute)
		if !w.lives(sb) {
			t.Fatal("it is gone")
		}
		if by := w.ended(other); by != byTTL {
			t.Fatalf("the other was ended by %v", by)
		}
		// After 1, 2, 4, 8, 16, 32 and then every 60 seconds.
		if n := st.failed(); n < 12 || n > 20 {
			t.Errorf("it was tried %d times in 11 minutes", n)
		}
		st.refuse(nil)
		w.pass(time.Minute)
		w.ended(sb)
	})
}
