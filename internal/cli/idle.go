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
	f.StringVar(&i.then, "on-idle", "", "what to do then: `ACTION` delete (default; to be said for a persistent one)")
	_ = c.RegisterFlagCompletionFunc("idle", cobra.NoFileCompletions)
	_ = c.RegisterFlagCompletionFunc("on-idle", cobra.FixedCompletions([]string{"delete"}, cobra.ShellCompDirectiveNoFileComp))
}

// check finds what contradicts itself.
func (i *idleFlags) check() error {
	if i.then != "" && i.after.seconds() == nil {
		return errors.New("--on-idle says what happens after --idle: give that too")
	}
	return nil
}

// create fills in a request.
func (i *idleFlags) create(req *shoal.CreateSandboxRequest) error {
	if i.after.none {
		i.after.none = false // what a new sandbox has anyway
	}
	if req.Persistent && i.after.seconds() != nil && i.then == "" {
		return errors.New("a persistent sandbox is kept, and --idle would delete it: say --on-idle delete if that is meant")
	}
	req.IdleSeconds, req.OnIdle = i.after.seconds(), i.then
	return i.check()
}

// update fills in a request.
func (i *idleFlags) update(req *shoal.UpdateSandboxRequest) error {
	req.IdleSeconds, req.OnIdle = i.after.seconds(), i.then
	return i.check()
}

// endOf is when a sandbox ends if nobody uses it any more: by its ttl, or before that by its idle rule. It is zero if never.
func endOf(sb shoal.Sandbox) time.Time {
	end := sb.ExpiresAt
	if sb.IdleSeconds > 0 && !sb.ActiveAt.IsZero() { // else it is being created, which is use
		idle := sb.ActiveAt.Add(time.Duration(sb.IdleSeconds * float64(time.Second)))
		if end.IsZero() || idle.Before(end) {
			end = idle
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
