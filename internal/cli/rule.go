package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

// ruleForm is how a rule is typed.
const ruleForm = "idle=10m:stop, age=8h:delete, deadline@2027-01-31T18:00:00Z:stop or time_in_state=7d,state=stopped:delete"

// triggers are what a rule may count.
func triggers() []string { return []string{"age", "deadline", "idle", "time_in_state"} }

// ruleFlags are rules as they are typed: on[=after|@time][,state=S]:action. none takes those away that there are.
type ruleFlags struct {
	list  []shoal.LifecycleRule
	texts []string
	none  bool
}

// String returns the rules as they are typed.
func (f *ruleFlags) String() string { return strings.Join(f.texts, " ") }

// Type names the value in the help.
func (f *ruleFlags) Type() string { return "rule" }

// Set adds a rule.
func (f *ruleFlags) Set(s string) error {
	if s == "none" {
		f.none = true
		return nil
	}
	r, err := parseRule(s)
	if err != nil {
		return err
	}
	f.list, f.texts = append(f.list, r), append(f.texts, s)
	return nil
}

func (f *ruleFlags) add(c *cobra.Command, usage string) {
	c.Flags().Var(f, "rule", usage)
	_ = c.RegisterFlagCompletionFunc("rule", cobra.FixedCompletions(
		[]string{"age=", "deadline@", "idle=", "time_in_state="}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// create fills in a request.
func (f *ruleFlags) create(req *shoal.CreateSandboxRequest) error {
	req.Rules = f.list
	return f.check()
}

// update fills in a request.
func (f *ruleFlags) update(req *shoal.UpdateSandboxRequest) error {
	if f.none || f.list != nil {
		req.Rules = new(append([]shoal.LifecycleRule{}, f.list...))
	}
	return f.check()
}

// check finds what contradicts itself.
func (f *ruleFlags) check() error {
	if f.none && f.list != nil {
		return errors.New("--rule none takes all rules away: don't say others beside it")
	}
	return nil
}

// parseRule reads a rule.
func parseRule(s string) (r shoal.LifecycleRule, err error) {
	end := strings.LastIndexByte(s, ':') // a time has colons, an action has none
	if end < 0 {
		return r, fmt.Errorf("a rule says what is done after a colon, such as %s", ruleForm)
	}
	r.Action = s[end+1:]
	when, conditions, conditional := strings.Cut(s[:end], ",")
	if conditional {
		state, ok := strings.CutPrefix(conditions, "state=")
		if !ok || state == "" || strings.Contains(state, ",") {
			return r, fmt.Errorf("after the comma a rule says state=STATE, not %q", conditions)
		}
		r.State = state
	}
	on, time, form := cutAny(when, "=@")
	switch r.On = on; {
	case !slices.Contains(triggers(), on):
		return r, fmt.Errorf("a rule counts %s, not %q: it is typed as %s", either(triggers(), "or"), on, ruleForm)
	case on == "deadline":
		if form != "@" {
			return r, errors.New("a deadline is a moment, such as deadline@2027-01-31T18:00:00Z:delete; age=8h:delete is a time from the creation")
		}
		return r, setDeadline(&r, time)
	case form != "=":
		return r, fmt.Errorf("a rule on %s says after how long, such as %s=10m:stop", on, on)
	}
	var after lifetime
	if err := after.Set(time); err != nil {
		return r, err
	}
	r.AfterSeconds = *after.seconds()
	return r, nil
}

func setDeadline(r *shoal.LifecycleRule, text string) error {
	var at moment
	if err := at.Set(text); err != nil || at.ago {
		return fmt.Errorf("a deadline is a moment such as 2027-01-31T18:00:00Z, not %q", text)
	}
	r.At = at.at
	return nil
}

// cutAny cuts s at the first of some characters, which it returns too.
func cutAny(s, chars string) (before, after, at string) {
	i := strings.IndexAny(s, chars)
	if i < 0 {
		return s, "", ""
	}
	return s[:i], s[i+1:], s[i : i+1]
}

// ruleText says a rule in words.
func ruleText(r shoal.SandboxRule) string {
	after := duration(time.Duration(r.AfterSeconds) * time.Second)
	text := r.Action
	switch r.On {
	case "deadline":
		text += " at " + r.At.Local().Format(time.DateTime)
	case "age":
		text += " at the age of " + after
	case "idle":
		text += " after " + after + " without use"
	case "time_in_state":
		text += " after " + after + " " + r.State
	default:
		text += " by " + r.On
	}
	if !r.FiredAt.IsZero() {
		text += "; over since " + r.FiredAt.Local().Format(time.DateTime)
	}
	return text
}

// rulesText says a sandbox's rules in words; empty if it has none.
func rulesText(sb shoal.Sandbox) string {
	var list []string
	for _, r := range sb.Rules {
		list = append(list, ruleText(r))
	}
	return strings.Join(list, "; ")
}

// endByRule is when a rule deletes a sandbox if nobody uses it any more; zero if it doesn't.
func endByRule(sb shoal.Sandbox, r shoal.SandboxRule) time.Time {
	from := time.Time{}
	switch {
	case r.Action != "delete" || !r.FiredAt.IsZero():
	case r.On == "deadline":
		return r.At
	case r.On == "age":
		from = sb.CreatedAt
	case r.On == "idle":
		from = sb.ActiveAt
	case r.On == "time_in_state" && r.State == string(sb.State):
		from = sb.StateSince
	}
	if from.IsZero() {
		return from
	}
	return from.Add(time.Duration(r.AfterSeconds) * time.Second)
}
