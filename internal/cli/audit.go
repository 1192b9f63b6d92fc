package cli

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

func auditCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "audit COMMAND",
		Short:   "See who did what",
		GroupID: groupServer,
		Long: `See who did what in your tenant: every call that changed something or tried to, refusals too, with who made it and from where. It takes
the scope audit:read. What became of sandboxes and keys is in 'shoal events', which misses nothing.`,
		Example: `  shoal audit ls
  shoal audit ls --failed`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var opts shoal.AuditOptions
	var most int
	ls := &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List calls that changed something or tried to",
		Long: `List calls that changed something or tried to, newest first. They are written down within a quarter of a second, kept for 90 days and
up to 100,000 of them, and hold no bodies, secrets or environments.`,
		Example: `  shoal audit ls -n 20
  shoal audit ls --failed -o json | jq -r '.[] | .outcome' | sort | uniq -c`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			list := []shoal.AuditEntry{}
			for e, err := range client.Audit(c.Context(), opts) {
				if err != nil {
					return err
				}
				if list = append(list, e); len(list) == most {
					break
				}
			}
			if a.json() {
				return a.printJSON(list)
			}
			return printAudit(a.out, list)
		},
	}
	f := ls.Flags()
	f.StringVar(&opts.Actor, "key", "", "only what this `KEY` did, by its id")
	f.BoolVar(&opts.Failed, "failed", false, "only what was refused or failed")
	f.IntVarP(&most, "number", "n", 100, "at most so many; 0: all there are")
	_ = ls.RegisterFlagCompletionFunc("key", a.complete().keys)
	c.AddCommand(ls)
	return c
}

func printAudit(out io.Writer, list []shoal.AuditEntry) error {
	t := newTable(out, "TIME", "WHO", "FROM", "CALL", "ON", "OUTCOME")
	for _, e := range list {
		who := e.Actor.Kind + " " + e.Actor.ID
		if e.ActorName != "" {
			who += " (" + e.ActorName + ")"
		}
		outcome := e.Outcome
		if e.Detail != "" {
			outcome += " (" + e.Detail + ")"
		}
		t.row(e.At.Local().Format(time.DateTime), who, e.Remote, e.Operation, e.Target, outcome)
	}
	return t.flush()
}
