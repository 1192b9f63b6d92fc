package control_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// stoppedBy fails the test unless a sandbox was stopped by a rule, and only by it.
func (w *world) stoppedBy(sb core.Sandbox, rule string) {
	w.t.Helper()
	synctest.Wait()
	w.wantState(sb.ID, core.StateStopped)
	list, _, err := w.svc.Events(w.t.Context(), alice, string(sb.ID), 0, 1000, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	last := list[len(list)-1]
	if last.Type != core.EventSandboxStopped || last.Actor != systems(rule) || last.Data["reason"] != rule {
		w.t.Fatalf("the last event is %+v", last)
	}
}

// TestRulesStop has each kind of rule stop a sandbox; what acts once doesn't stop it again after a wake, and idle counts anew.
func TestRulesStop(t *testing.T) {
	for _, on := range core.RuleTriggers() {
		for _, persistent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, persistent %v", on, persistent), func(t *testing.T) {
				inTime(t, func(w *world) {
					t := w.t
					rule := core.LifecycleRule{On: on, After: time.Minute, Action: core.ActionStop}
					switch on {
					case core.TriggerDeadline:
						rule.After, rule.At = 0, time.Now().Add(time.Minute)
					case core.TriggerTimeInState:
						rule.State = core.StateRunning
					case core.TriggerAge, core.TriggerIdle:
					}
					sb := w.create(core.SandboxSpec{Persistent: persistent, Rules: []core.LifecycleRule{rule}})
					if sb.ExpiresAt.IsZero() != persistent {
						t.Fatalf("its ttl ends at %v", sb.ExpiresAt)
					}
					w.pass(59 * time.Second)
					w.wantState(sb.ID, core.StateRunning)
					w.pass(time.Second)
					w.stoppedBy(sb, string(on))
					w.pass(time.Minute) // asleep it stays
					w.wake(sb)
					again := on == core.TriggerIdle || on == core.TriggerTimeInState
					w.pass(59 * time.Second)
					w.wantState(sb.ID, core.StateRunning)
					w.pass(time.Second)
					if got := w.lookUp(sb.ID); (got.State == core.StateStopped) != again || got.Rules[0].FiredAt.IsZero() != again {
						t.Fatalf("a minute after the wake it is %s, its rule was over at %v", got.State, got.Rules[0].FiredAt)
					}
				})
			})
		}
	}
}

// TestIdleStopsAndLaterDeletes has a sandbox that is stopped when idle and deleted when stopped for long, as other vendors have it.
func TestIdleStopsAndLaterDeletes(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		sb := w.create(core.SandboxSpec{
			Persistent: true, Idle: 10 * time.Minute, OnIdle: core.ActionStop,
			Rules: []core.LifecycleRule{{On: core.TriggerTimeInState, After: time.Hour, State: core.StateStopped, Action: core.ActionDelete}},
		})
		for range 3 {
			w.pass(10 * time.Minute)
			w.stoppedBy(sb, "idle")
			w.stays(sb, 59*time.Minute)
			w.wake(sb)
			w.stays(sb, 9*time.Minute)
			if err := w.svc.Touch(t.Context(), alice, string(sb.ID)); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(10 * time.Minute)
		w.stoppedBy(sb, "idle")
		// A wake that fails doesn't let it live longer.
		w.stays(sb, 30*time.Minute)
		w.node.onWake = func(context.Context, core.NodeSpec) error { return core.Errorf(core.CodeUnavailable, "not today") }
		if _, err := w.svc.WakeSandbox(t.Context(), alice, string(sb.ID)); err == nil {
			t.Fatal("it was woken")
		}
		w.stays(sb, 30*time.Minute-time.Second)
		w.pass(time.Second)
		if by := w.ended(sb); by != systems("time_in_state") {
			t.Errorf("it was ended by %v", by)
		}
	})
}

// TestTwoRulesOnIdle: a sandbox that is stopped when idle is deleted when it has been idle for longer, asleep or not.
func TestTwoRulesOnIdle(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		sb := w.create(core.SandboxSpec{
			Idle: time.Hour, OnIdle: core.ActionDelete, Rules: []core.LifecycleRule{{On: core.TriggerIdle, After: time.Minute, Action: core.ActionStop}},
		})
		if !sb.ExpiresAt.IsZero() {
			t.Fatal("it has a ttl, though it ends when it is idle")
		}
		w.pass(time.Minute)
		w.stoppedBy(sb, "idle")
		w.pass(29 * time.Minute)
		files, err := w.svc.ReadFiles(t.Context(), alice, string(sb.ID)) // its files are read: that is use
		if err != nil {
			t.Fatal(err)
		}
		if _, body, err := files.ReadFile(t.Context(), "/x", 0, -1); err != nil || body.Close() != nil {
			t.Fatal(err)
		}
		w.stays(sb, time.Hour-time.Second)
		w.pass(time.Second)
		if by := w.ended(sb); by != byIdle {
			t.Errorf("it was ended by %v", by)
		}
	})
}

// TestStopRulesMissedWhileDown: what came due while no server was there is done at its start; of a stopped sandbox nothing is left to be
// done, and nothing comes of it after a wake.
func TestStopRulesMissedWhileDown(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		age := []core.LifecycleRule{{On: core.TriggerAge, After: 10 * time.Minute, Action: core.ActionStop}}
		runs := w.create(core.SandboxSpec{Persistent: true, Rules: age})
		idle := w.create(core.SandboxSpec{Persistent: true, Idle: 10 * time.Minute, OnIdle: core.ActionStop})
		sleeps := w.create(core.SandboxSpec{Persistent: true, Rules: age})
		doomed := w.create(core.SandboxSpec{Persistent: true, Rules: []core.LifecycleRule{
			{On: core.TriggerTimeInState, After: 30 * time.Minute, State: core.StateStopped, Action: core.ActionDelete},
		}})
		w.stop(sleeps)
		w.stop(doomed)
		_ = w.svc.Close()
		<-time.After(time.Hour)
		w.start()
		w.stoppedBy(runs, "age")
		w.stoppedBy(idle, "idle")
		if by := w.ended(doomed); by != systems("time_in_state") {
			t.Errorf("it was ended by %v", by)
		}
		w.wake(sleeps)
		w.pass(time.Hour)
		w.wantState(sleeps.ID, core.StateRunning)
	})
}

// TestUseMeetsStop uses a sandbox at the moment at which its rule stops it: either the use is served and the sandbox runs on, or the caller
// is told to wake it.
func TestUseMeetsStop(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		served := 0
		for range 40 {
			sb := w.create(core.SandboxSpec{Persistent: true, Idle: time.Minute, OnIdle: core.ActionStop})
			<-time.After(time.Minute) // the idle loop wakes up in the same moment
			_, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "serve"})
			switch {
			case err == nil:
				served++
				w.pass(10 * time.Minute) // and it goes on for as long as the stream is open
				w.wantState(sb.ID, core.StateRunning)
				_ = stream.Close()
			case core.IsCode(err, core.CodeConflict) && strings.Contains(err.Error(), "wake it"):
				w.stoppedBy(sb, "idle")
				w.wake(sb)
				w.pass(30 * time.Second)
				w.wantState(sb.ID, core.StateRunning)
			default:
				t.Fatalf("the call got %v", err)
			}
			if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d of 40 were served", served)
	})
}

// TestStopByRuleIsTriedAgain: a stop that fails is tried again until it is done, and the sandbox can be used meanwhile.
func TestStopByRuleIsTriedAgain(t *testing.T) {
	for name, spec := range map[string]core.SandboxSpec{
		"idle": {Persistent: true, Idle: time.Minute, OnIdle: core.ActionStop},
		"age":  {Persistent: true, Rules: []core.LifecycleRule{{On: core.TriggerAge, After: time.Minute, Action: core.ActionStop}}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(w *world) {
				t := w.t
				sb := w.create(spec)
				var tries atomic.Int64
				w.node.stopBy(func(context.Context) error {
					tries.Add(1)
					return core.Errorf(core.CodeUnavailable, "not yet")
				})
				w.pass(61 * time.Second)
				w.wantState(sb.ID, core.StateRunning)
				if tries.Load() == 0 {
					t.Fatal("it was not tried")
				}
				w.pass(10 * time.Minute)
				if n := tries.Load(); n < 10 || n > 20 {
					t.Errorf("it was tried %d times in 10 minutes", n)
				}
				if name == "age" { // a use of an idle one would begin its time anew
					if _, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID)); err != nil {
						t.Fatal(err)
					}
					_, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "serve"})
					if err != nil {
						t.Fatalf("it can't be used: %v", err)
					}
					_ = stream.Close()
				}
				w.node.stopBy(nil)
				w.pass(time.Minute + control.DefaultGrace)
				w.stoppedBy(sb, name)
				w.wake(sb)
				w.pass(50 * time.Second)
				w.wantState(sb.ID, core.StateRunning)
			})
		})
	}
}

// TestDeleteWinsOverStop: of a stop and a delete that are due at one moment the delete is done.
func TestDeleteWinsOverStop(t *testing.T) {
	inTime(t, func(w *world) {
		sb := w.create(core.SandboxSpec{TTL: time.Minute, Rules: []core.LifecycleRule{{On: core.TriggerAge, After: time.Minute, Action: core.ActionStop}}})
		w.pass(time.Minute)
		if by := w.ended(sb); by != byTTL {
			w.t.Errorf("it was ended by %v", by)
		}
		if got := w.life(sb.ID); got != "creating, running, deleted: ttl" {
			w.t.Errorf("its life was %s", got)
		}
	})
}

// TestOnIdleKept: a change of the time keeps what is done then, and a change of that alone keeps the time.
func TestOnIdleKept(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		sb := w.create(core.SandboxSpec{Idle: time.Hour, OnIdle: core.ActionStop})
		if sb.ExpiresAt.IsZero() {
			t.Fatal("nothing ends it")
		}
		patch := func(p control.SandboxPatch) core.Sandbox {
			t.Helper()
			got, err := w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), p)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := patch(control.SandboxPatch{Idle: new(time.Minute)}); got.OnIdle != core.ActionStop || got.Idle != time.Minute {
			t.Errorf("%s after %v", got.OnIdle, got.Idle)
		}
		// What keeps its files stays with one that becomes persistent.
		if got := patch(control.SandboxPatch{Persistent: new(true), TTL: new(time.Duration(0))}); got.OnIdle != core.ActionStop || !got.ExpiresAt.IsZero() {
			t.Errorf("%s, until %v", got.OnIdle, got.ExpiresAt)
		}
		if got := patch(control.SandboxPatch{OnIdle: core.ActionDelete}); got.OnIdle != core.ActionDelete || got.Idle != time.Minute {
			t.Errorf("%s after %v", got.OnIdle, got.Idle)
		}
		patch(control.SandboxPatch{OnIdle: core.ActionStop})
		w.pass(time.Minute)
		w.stoppedBy(sb, "idle")
		// Asleep it can be changed, and what is said then holds after the wake.
		patch(control.SandboxPatch{Idle: new(2 * time.Minute)})
		w.wake(sb)
		w.pass(119 * time.Second)
		w.wantState(sb.ID, core.StateRunning)
		w.pass(time.Second)
		w.stoppedBy(sb, "idle")
	})
}

// failingView fails one of the store's reads.
type failingView struct {
	store.Store
	mu   sync.Mutex
	left int // reads until the one that fails; below that none does
}

func (f *failingView) View(ctx context.Context, fn func(store.Reader) error) error {
	f.mu.Lock()
	f.left--
	fails := f.left == 0
	f.mu.Unlock()
	if fails {
		return errors.New("the disk is slow")
	}
	return f.Store.View(ctx, fn)
}

// TestOneFailureHoldsNobodyUp: of several that are due at once, one whose record can't be read leaves the others to their rules, and is
// tried again.
func TestOneFailureHoldsNobodyUp(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		var all []core.Sandbox
		at := time.Now().Add(100 * time.Second) // when no other loop looks at anything
		for range 5 {
			all = append(all, w.create(core.SandboxSpec{Rules: []core.LifecycleRule{{On: core.TriggerDeadline, At: at, Action: core.ActionDelete}}}))
		}
		if err := w.svc.Close(); err != nil {
			t.Fatal(err)
		}
		flaky := &failingView{Store: w.store}
		w.store = flaky
		w.start()
		synctest.Wait()
		<-time.After(time.Until(at) - time.Nanosecond)
		synctest.Wait()
		flaky.mu.Lock()
		flaky.left = 3 // the look, the first, and this is the second
		flaky.mu.Unlock()
		w.pass(time.Nanosecond)
		lived := 0
		for _, sb := range all {
			if w.lookUp(sb.ID).State != core.StateDeleted {
				lived++
			}
		}
		if lived != 1 {
			t.Errorf("%d live, one of which could not be read", lived)
		}
		w.pass(time.Second)
		for _, sb := range all {
			w.ended(sb)
		}
	})
}
