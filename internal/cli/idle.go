package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

// idleFlags say what happens to a sandbox that nobody uses: the flags that create and set share.
type idleFlags struct {
	after newTTL
	then  string
}

func (i *idleFlags) add(c *cobra.Command, usage string) {
	f := c.Flags()
	f.Var(&i.after, "idle", usage)
	f.StringVar(&i.then, "on-idle", "", "what to do then: `ACTION` delete (default) or stop, which keeps its files; to be said for a persistent one")
	_ = c.RegisterFlagCompletionFunc("idle", cobra.NoFileCompletions)
	_ = c.RegisterFlagCompletionFunc("on-idle", cobra.FixedCompletions([]string{"delete", "stop"}, cobra.ShellCompDirectiveNoFileComp))
}

// create fills in a request.
func (i *idleFlags) create(req *shoal.CreateSandboxRequest) error {
	if i.after.none {
		i.after.none = false // what a new sandbox has anyway
	}
	if req.Persistent && i.after.seconds() != nil && i.then == "" {
		return errors.New("a persistent sandbox is kept, and --idle would delete it: say --on-idle stop, which keeps its files, or --on-idle delete if that is meant")
	}
	if i.then != "" && i.after.seconds() == nil {
		return errors.New("--on-idle says what happens after --idle: give that too")
	}
	req.IdleSeconds, req.OnIdle = i.after.seconds(), i.then
	return nil
}

// update fills in a request.
func (i *idleFlags) update(req *shoal.UpdateSandboxRequest) {
	req.IdleSeconds, req.OnIdle = i.after.seconds(), i.then
}

// endOf is when a sandbox ends if nobody uses it any more: by its ttl, or before that by another rule. It is zero if never.
func endOf(sb shoal.Sandbox) time.Time {
	end := sb.ExpiresAt
	rules := sb.Rules
	if sb.IdleSeconds > 0 && (sb.OnIdle == "delete" || sb.OnIdle == "") {
		rules = append([]shoal.SandboxRule{{On: "idle", AfterSeconds: int64(sb.IdleSeconds), Action: "delete"}}, rules...)
	}
	for _, r := range rules {
		if at := endByRule(sb, r); !at.IsZero() && (end.IsZero() || at.Before(end)) {
			end = at
		}
	}
	return end
}

// idleText says a sandbox's idle rule; empty if it has none.
func idleText(sb shoal.Sandbox) string {
	if sb.IdleSeconds == 0 {
		return ""
	}
	text := sb.OnIdle + " after " + duration(time.Duration(sb.IdleSeconds*float64(time.Second))) + " without use"
	if !sb.ActiveAt.IsZero() {
		text += "; last used " + sb.ActiveAt.Local().Format(time.DateTime)
	}
	return text
}
