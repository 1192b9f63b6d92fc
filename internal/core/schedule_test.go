package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// has says of each action in which states it leaves a rule something to do: written out, apart from the table of operations.
var has = map[LifecycleAction][]State{
	ActionFreeze:    {StateRunning},
	ActionStandby:   {StateRunning, StateFrozen},
	ActionHibernate: {StateRunning, StateFrozen, StateStandby},
	ActionStop:      {StateRunning, StateFrozen, StateStandby, StateHibernated},
	ActionDelete: {
		StateCreating, StateRunning, StateFrozen, StateStandby, StateHibernated, StateStopped, StateFailed,
	},
}

// TestEveryRule walks on × action × state × persistent × whether the moment has come.
func TestEveryRule(t *testing.T) {
	born := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const after = time.Minute
	for _, on := range RuleTriggers() {
		for _, action := range LifecycleActions() {
			for _, state := range States() {
				for _, persistent := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s %s in %s, persistent %v", on, action, state, persistent), func(t *testing.T) {
						rule := LifecycleRule{On: on, After: after, Action: action}
						// What each trigger counts from is another moment, so that a mix-up shows.
						from := map[RuleTrigger]time.Time{
							TriggerAge: born, TriggerDeadline: born.Add(time.Hour), TriggerIdle: born.Add(2 * time.Hour), TriggerTimeInState: born.Add(3 * time.Hour),
						}[on]
						switch on {
						case TriggerDeadline:
							rule.After, rule.At = 0, from.Add(after)
						case TriggerTimeInState:
							rule.State = state
						case TriggerAge, TriggerIdle:
						}
						sb := Sandbox{
							State: state, Persistent: persistent, CreatedAt: born, ActiveAt: born.Add(2 * time.Hour), StateSince: born.Add(3 * time.Hour),
							Rules: []LifecycleRule{rule},
						}
						want := slices.Contains(has[action], state) && (on != TriggerIdle || state != StateCreating)
						list := Schedule(sb)
						if len(list) != 1 || list[0].DueAt.IsZero() == want || want && !list[0].DueAt.Equal(from.Add(after)) {
							t.Fatalf("it is scheduled as %+v, want due %v", list, want)
						}
						clock, byClock := NextClockRule(sb)
						idle, byUse := NextIdleRule(sb)
						if byClock != (want && on != TriggerIdle) || byUse != (want && on == TriggerIdle) {
							t.Errorf("the clock has %+v, use %+v", clock, idle)
						}
						if on == TriggerTimeInState {
							sb.Rules[0].State = "elsewhere"
							if !Schedule(sb)[0].DueAt.IsZero() {
								t.Error("it counts in another state than its own")
							}
						}
						if on == TriggerAge || on == TriggerDeadline {
							sb.Rules[0].FiredAt = born
							if !Schedule(sb)[0].DueAt.IsZero() {
								t.Error("it acts a second time")
							}
						}
					})
				}
			}
		}
	}
}

func TestOrderOfRules(t *testing.T) {
	born := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(minutes int) time.Time { return born.Add(time.Duration(minutes) * time.Minute) }
	age := func(minutes int, a LifecycleAction) LifecycleRule {
		return LifecycleRule{On: TriggerAge, After: time.Duration(minutes) * time.Minute, Action: a}
	}
	for name, tc := range map[string]struct {
		sb   Sandbox
		want string
	}{
		"none":                  {Sandbox{}, ""},
		"ttl":                   {Sandbox{ExpiresAt: at(3)}, "ttl delete 3"},
		"idle":                  {Sandbox{Idle: time.Minute, OnIdle: ActionStop}, "idle stop 1"},
		"earliest first":        {Sandbox{ExpiresAt: at(3), Idle: 4 * time.Minute, OnIdle: ActionDelete, Rules: []LifecycleRule{age(5, ActionStop), age(2, ActionStop)}}, "age stop 2, ttl delete 3, idle delete 4, age stop 5"},
		"delete wins a tie":     {Sandbox{Rules: []LifecycleRule{age(2, ActionStop), age(2, ActionDelete)}}, "age delete 2, age stop 2"},
		"ttl wins a tie":        {Sandbox{ExpiresAt: at(2), Rules: []LifecycleRule{age(2, ActionDelete), age(2, ActionStop)}}, "ttl delete 2, age delete 2, age stop 2"},
		"what never acts, last": {Sandbox{State: StateStopped, Rules: []LifecycleRule{age(2, ActionStop), age(3, ActionDelete)}}, "age delete 3, age stop -"},
		"two on idle":           {Sandbox{Idle: time.Hour, OnIdle: ActionDelete, Rules: []LifecycleRule{{On: TriggerIdle, After: time.Minute, Action: ActionStop}}}, "idle stop 1, idle delete 60"},
	} {
		t.Run(name, func(t *testing.T) {
			sb := tc.sb
			if sb.State == "" {
				sb.State = StateRunning
			}
			sb.CreatedAt, sb.StateSince, sb.ActiveAt = born, born, born
			var got []string
			for _, r := range Schedule(sb) {
				due := "-"
				if !r.DueAt.IsZero() {
					due = fmt.Sprint(int(r.DueAt.Sub(born) / time.Minute))
				}
				got = append(got, r.Reason()+" "+string(r.Action)+" "+due)
			}
			if all := strings.Join(got, ", "); all != tc.want {
				t.Errorf("got %s\nwant %s", all, tc.want)
			}
		})
	}
}

// TestOnceIsOnce: a rule that acts once does so, or its moment passes; neither a wake nor a failed stop changes that.
func TestOnceIsOnce(t *testing.T) {
	born := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	type step struct {
		after int // minutes
		state State
	}
	for name, tc := range map[string]struct {
		action LifecycleAction
		steps  []step
		due    bool
		fired  int // minutes
	}{
		"not yet":                         {ActionStop, []step{{50, StateStopped}, {55, StateRunning}}, true, 0},
		"stopped by it":                   {ActionStop, []step{{61, StateStopped}}, false, 61},
		"stopped by it, woken":            {ActionStop, []step{{61, StateStopped}, {90, StateRunning}}, false, 61},
		"stopped before, woken after":     {ActionStop, []step{{50, StateStopped}, {90, StateRunning}}, false, 90},
		"failed before":                   {ActionStop, []step{{50, StateFailed}}, false, 0},
		"the stop failed":                 {ActionStop, []step{{61, StateRunning}}, true, 0},
		"a delete is due until it is":     {ActionDelete, []step{{61, StateStopped}, {62, StateRunning}}, true, 0},
		"created for longer than its age": {ActionStop, []step{{0, StateCreating}, {70, StateRunning}}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []LifecycleRule{
				{On: TriggerAge, After: 60 * time.Minute, Action: tc.action}, {On: TriggerDeadline, At: born.Add(60 * time.Minute), Action: tc.action},
			} {
				sb := Sandbox{State: StateRunning, StateSince: born, CreatedAt: born, Rules: []LifecycleRule{r}}
				if tc.steps[0].after == 0 {
					sb.State = tc.steps[0].state
				}
				before := sb
				for _, s := range tc.steps {
					at := born.Add(time.Duration(s.after) * time.Minute)
					since := at
					if sb.State == s.state {
						since = sb.StateSince
					}
					sb.Become(s.state, at)
					if sb.State != s.state || !sb.StateSince.Equal(since) {
						t.Fatalf("it is %s since %v, want %s since %v", sb.State, sb.StateSince, s.state, since)
					}
				}
				if !before.Rules[0].FiredAt.IsZero() {
					t.Fatal("the record of before was changed")
				}
				if _, due := NextClockRule(sb); due != tc.due {
					t.Errorf("%s: due is %v", r.On, due)
				}
				var want time.Time
				if tc.fired > 0 {
					want = born.Add(time.Duration(tc.fired) * time.Minute)
				}
				if !sb.Rules[0].FiredAt.Equal(want) {
					t.Errorf("%s: it was over at %v, want %v", r.On, sb.Rules[0].FiredAt, want)
				}
			}
		})
	}
}

func TestCheckRules(t *testing.T) {
	at := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	many := slices.Repeat([]LifecycleRule{{On: TriggerIdle, After: time.Minute, Action: ActionDelete}}, MaxRules+1)
	if err := CheckRules(many[:MaxRules]); err != nil {
		t.Error(err)
	}
	if err := CheckRules(many); CodeOf(err) != CodeInvalid {
		t.Errorf("too many: %v", err)
	}
	for name, tc := range map[string]struct {
		rule  LifecycleRule
		code  Code
		field string
	}{
		"age":                {LifecycleRule{On: TriggerAge, After: time.Second, Action: ActionDelete}, "", ""},
		"a year":             {LifecycleRule{On: TriggerAge, After: MaxRuleAfter, Action: ActionDelete}, "", ""},
		"deadline":           {LifecycleRule{On: TriggerDeadline, At: at, Action: ActionDelete}, "", ""},
		"failed":             {LifecycleRule{On: TriggerTimeInState, After: time.Hour, State: StateFailed, Action: ActionDelete}, "", ""},
		"no trigger":         {LifecycleRule{After: time.Hour, Action: ActionDelete}, CodeInvalid, "rules[0].on"},
		"unknown trigger":    {LifecycleRule{On: "mood", After: time.Hour, Action: ActionDelete}, CodeInvalid, "rules[0].on"},
		"no action":          {LifecycleRule{On: TriggerAge, After: time.Hour}, CodeInvalid, "rules[0].action"},
		"unknown action":     {LifecycleRule{On: TriggerAge, After: time.Hour, Action: "explode"}, CodeInvalid, "rules[0].action"},
		"freeze":             {LifecycleRule{On: TriggerAge, After: time.Hour, Action: ActionFreeze}, CodeUnsupported, "rules[0].action"},
		"standby":            {LifecycleRule{On: TriggerAge, After: time.Hour, Action: ActionStandby}, CodeUnsupported, "rules[0].action"},
		"hibernate":          {LifecycleRule{On: TriggerAge, After: time.Hour, Action: ActionHibernate}, CodeUnsupported, "rules[0].action"},
		"no time":            {LifecycleRule{On: TriggerAge, Action: ActionDelete}, CodeInvalid, "rules[0].after_seconds"},
		"too soon":           {LifecycleRule{On: TriggerIdle, After: time.Millisecond, Action: ActionDelete}, CodeInvalid, "rules[0].after_seconds"},
		"too late":           {LifecycleRule{On: TriggerIdle, After: MaxRuleAfter + 1, Action: ActionDelete}, CodeInvalid, "rules[0].after_seconds"},
		"negative":           {LifecycleRule{On: TriggerIdle, After: -time.Hour, Action: ActionDelete}, CodeInvalid, "rules[0].after_seconds"},
		"deadline after":     {LifecycleRule{On: TriggerDeadline, After: time.Hour, Action: ActionDelete}, CodeInvalid, "rules[0].after_seconds"},
		"deadline, no time":  {LifecycleRule{On: TriggerDeadline, Action: ActionDelete}, CodeInvalid, "rules[0].at"},
		"age at":             {LifecycleRule{On: TriggerAge, After: time.Hour, At: at, Action: ActionDelete}, CodeInvalid, "rules[0].at"},
		"age in a state":     {LifecycleRule{On: TriggerAge, After: time.Hour, State: StateRunning, Action: ActionDelete}, CodeInvalid, "rules[0].state"},
		"no state":           {LifecycleRule{On: TriggerTimeInState, After: time.Hour, Action: ActionDelete}, CodeInvalid, "rules[0].state"},
		"unknown state":      {LifecycleRule{On: TriggerTimeInState, After: time.Hour, State: "bored", Action: ActionDelete}, CodeInvalid, "rules[0].state"},
		"creating":           {LifecycleRule{On: TriggerTimeInState, After: time.Hour, State: StateCreating, Action: ActionDelete}, CodeInvalid, "rules[0].state"},
		"deleted":            {LifecycleRule{On: TriggerTimeInState, After: time.Hour, State: StateDeleted, Action: ActionDelete}, CodeInvalid, "rules[0].state"},
		"frozen":             {LifecycleRule{On: TriggerTimeInState, After: time.Hour, State: StateFrozen, Action: ActionDelete}, CodeUnsupported, "rules[0].state"},
		"a very long action": {LifecycleRule{On: TriggerAge, After: time.Hour, Action: LifecycleAction(strings.Repeat("x", 1<<20))}, CodeInvalid, "rules[0].action"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckRules([]LifecycleRule{tc.rule})
			if CodeOf(err) != tc.code {
				t.Fatalf("got %v, want %s", err, tc.code)
			}
			if err == nil {
				return
			}
			if e := err.(*Error); e.Field != tc.field || len(e.Message) > 300 { //nolint:errorlint // it is the type itself
				t.Errorf("it blames %q: %s", e.Field, e.Message)
			}
		})
	}
}

// FuzzRules drives a sandbox with any rules through any states, and holds the schedule to what rules promise.
func FuzzRules(f *testing.F) {
	f.Add([]byte{0, 4, 10, 1, 3, 20, 2, 4, 30}, []byte{1, 5, 5, 9, 1, 60})
	f.Add([]byte{3, 3, 5, 3, 4, 50}, []byte{5, 1, 1, 200, 6, 1})
	f.Fuzz(func(t *testing.T, rules, life []byte) {
		born := time.Unix(1_800_000_000, 0).UTC()
		sb := Sandbox{State: StateCreating, StateSince: born, CreatedAt: born}
		for ; len(rules) >= 3 && len(sb.Rules) < MaxRules; rules = rules[3:] {
			r := LifecycleRule{
				On: RuleTriggers()[int(rules[0])%4], Action: LifecycleActions()[int(rules[1])%5], After: time.Duration(rules[2]) * time.Second,
			}
			switch r.On {
			case TriggerDeadline:
				r.At, r.After = born.Add(r.After), 0
			case TriggerTimeInState:
				r.State = States()[int(rules[0]/4)%8]
			case TriggerAge, TriggerIdle:
			}
			sb.Rules = append(sb.Rules, r)
		}
		now := born
		over := map[int]time.Time{}
		for ; len(life) >= 2; life = life[2:] {
			now = now.Add(time.Duration(life[1]) * time.Second)
			sb.Become(States()[int(life[0])%7], now) // any but deleted, which is the end
			if life[0]%3 == 0 {
				sb.ActiveAt = now
			}
			holdSchedule(t, sb, now)
			for i, r := range sb.Rules {
				if was, ok := over[i]; ok && !r.FiredAt.Equal(was) {
					t.Fatalf("rule %d was over at %v, and now at %v", i, was, r.FiredAt)
				}
				if !r.FiredAt.IsZero() {
					over[i] = r.FiredAt
				}
			}
		}
		sb.Become(StateDeleted, now)
		for _, r := range Schedule(sb) {
			if !r.DueAt.IsZero() {
				t.Fatalf("a deleted sandbox has a rule due: %+v", r)
			}
		}
	})
}

// holdSchedule holds a schedule to its promises.
func holdSchedule(t *testing.T, sb Sandbox, now time.Time) {
	t.Helper()
	list := Schedule(sb)
	if len(list) != len(sb.Rules) {
		t.Fatalf("%d rules of %d are scheduled", len(list), len(sb.Rules))
	}
	for i, r := range list {
		if r.DueAt.IsZero() {
			continue
		}
		if !r.Action.AppliesTo(sb.State) || !r.FiredAt.IsZero() || r.On == TriggerTimeInState && r.State != sb.State {
			t.Fatalf("it is %s, and this is to act: %+v", sb.State, r)
		}
		if i > 0 {
			p := list[i-1]
			if p.DueAt.IsZero() || p.DueAt.After(r.DueAt) || p.DueAt.Equal(r.DueAt) && r.Action == ActionDelete && p.Action != ActionDelete {
				t.Fatalf("%+v comes before %+v", p, r)
			}
		}
	}
	for _, r := range sb.Rules { // what acts once and can't act now never will
		once := r.On == TriggerAge || r.On == TriggerDeadline
		if once && sb.State != StateCreating && r.FiredAt.IsZero() && !r.moment(&sb).After(now) && !r.Action.AppliesTo(sb.State) {
			t.Fatalf("its moment has passed, and it is not over: %+v", r)
		}
	}
}
