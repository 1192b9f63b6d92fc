package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

// newTTL is a flag like lifetime that can also take the ttl away.
type newTTL struct {
	lifetime
	none bool
}

// String returns the value as it is typed.
func (t *newTTL) String() string {
	if t.none {
		return "none"
	}
	return t.lifetime.String()
}

// Set reads a duration or none.
func (t *newTTL) Set(s string) error {
	if t.none = s == "none"; t.none {
		t.lifetime = 0
		return nil
	}
	return t.lifetime.Set(s)
}

// seconds is what the API takes; nil if the flag wasn't given.
func (t *newTTL) seconds() *int64 {
	if t.none {
		return new(int64(0))
	}
	return t.lifetime.seconds()
}

func (a *app) setCommand() *cobra.Command {
	var f setFlags
	c := &cobra.Command{
		Use:        "set SANDBOX",
		Short:      "Change how long a sandbox lives, its limits, and its labels",
		GroupID:    groupSandbox,
		SuggestFor: []string{"update", "edit", "label", "extend", "ttl", "renew", "resize", "limit"},
		Long: `Change when a sandbox is deleted, its limits, and its labels. What isn't named stays as it is, and processes go on undisturbed.

Labels are read, changed and written back as a whole: of two sets of labels on one sandbox at the same time, one may lose what
it has changed. Set them one after the other.

--ttl counts from now, whatever was left before; --extend does too, and never shortens what is left. A persistent sandbox may be
given a ttl, and --ttl none takes it away again; one that isn't persistent always has a ttl, up to the
server's greatest, or another rule that deletes it.
--persistent keeps a sandbox beyond that, until the ttl that it still has: say --ttl none too to have none.
--persistent=false makes it ephemeral again. What becomes persistent loses an idle rule that deletes it, unless --idle and --on-idle are given.

--rule replaces all rules that 'shoal create --rule' or it made, and --rule none takes them away: 'shoal create --help' has their form, 'shoal why'
shows them. What isn't persistent and has nothing left that deletes it gets the server's default ttl.

--vcpus, --memory, --disk, --pids, --open-files and --cpu-weight change limits while it runs, all of them or none. Less memory or disk
than it uses now is refused. Programs inside go on to see as many processors and as much memory as when it was started, and one program alone
uses no more processors than that.
Nothing else can be changed: for another name or template make another
sandbox.`,
		Example: `  shoal set lab --ttl 8h
  shoal set lab --extend 30m
  shoal set lab --idle 15m
  shoal set lab --on-idle stop
  shoal set lab --rule age=8h:stop --rule time_in_state=7d,state=stopped:delete
  shoal set lab --rule none
  shoal set lab --persistent --ttl none
  shoal set notes --ttl none
  shoal set lab --memory 1G --vcpus 2
  shoal set lab --label team=data --label stage=review --unlabel draft
  shoal set lab --ttl 30m -o json | jq -r .expires_at`,
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			req, add, err := f.request(c)
			if err != nil {
				return usage(c, "%v", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if len(add)+len(f.unlabels) > 0 {
				if req.Labels, err = relabeled(c.Context(), client, args[0], add, f.unlabels); err != nil {
					return aboutSandbox(args[0], err)
				}
			}
			sb, err := client.Sandboxes().Update(c.Context(), args[0], req)
			if err != nil {
				return aboutSandbox(args[0], err)
			}
			if a.json() {
				return a.printJSON(sb)
			}
			return printChanged(a.out, time.Now(), sb)
		},
	}
	f.add(a, c)
	return c
}

// setFlags say what of a sandbox is changed.
type setFlags struct {
	ttl              newTTL
	extend           lifetime
	idle             idleFlags
	rules            ruleFlags
	persistent       bool
	labels, unlabels []string
	resize           resizeFlags
}

func (f *setFlags) add(a *app, c *cobra.Command) {
	flags := c.Flags()
	flags.Var(&f.ttl, "ttl", "delete it after this `duration` from now, such as 30m, 2h or 7d; none: never (persistent ones, and those that a rule deletes)")
	flags.Var(&f.extend, "extend", "let it live at least this `duration` from now, such as 30m; never less than it would anyway")
	f.idle.add(c, "delete it, or do --on-idle, when nobody has used it for this `duration` from now, such as 15m; none: whether it is used or not")
	f.rules.add(c, "replace its other rules by this `RULE`, such as idle=10m:stop; may be repeated; none takes them away")
	flags.BoolVar(&f.persistent, "persistent", false, "keep it until it is deleted or its ttl passes; --persistent=false makes it ephemeral")
	f.resize.add(flags)
	flags.StringArrayVar(&f.labels, "label", nil, "add or replace the label `KEY=VALUE`; may be repeated")
	flags.StringArrayVar(&f.unlabels, "unlabel", nil, "take the label `KEY` away; may be repeated")
	_ = c.RegisterFlagCompletionFunc("unlabel", a.complete().labels)
	_ = c.RegisterFlagCompletionFunc("extend", cobra.NoFileCompletions)
	_ = c.RegisterFlagCompletionFunc("ttl", cobra.NoFileCompletions)
	_ = c.RegisterFlagCompletionFunc("label", cobra.NoFileCompletions)
}

// request makes the API's request, but for the labels, of which it returns those to add.
func (f *setFlags) request(c *cobra.Command) (req shoal.UpdateSandboxRequest, add map[string]string, err error) {
	if add, err = pairs(f.labels, "--label", nil); err != nil {
		return req, nil, err
	}
	for _, key := range f.unlabels {
		if _, both := add[key]; both {
			return req, nil, fmt.Errorf("the label %s can't be both set and taken away", key)
		}
	}
	req = shoal.UpdateSandboxRequest{TTLSeconds: f.ttl.seconds(), ExtendTTLSeconds: f.extend.seconds()}
	if req.TTLSeconds != nil && req.ExtendTTLSeconds != nil {
		return req, nil, errors.New("give either --ttl or --extend")
	}
	if c.Flags().Changed("persistent") {
		req.Persistent = &f.persistent
	}
	f.idle.update(&req)
	if err := f.rules.update(&req); err != nil {
		return req, nil, err
	}
	if err := f.resize.update(c.Flags(), &req); err != nil {
		return req, nil, err
	}
	if req == (shoal.UpdateSandboxRequest{}) && len(add)+len(f.unlabels) == 0 {
		return req, nil, errors.New("nothing to change: say --ttl, --extend, --idle, --rule, --persistent, --label, --unlabel or a limit such as --memory")
	}
	return req, add, nil
}

// relabeled returns a sandbox's labels as they are to become: the API replaces all of them.
func relabeled(ctx context.Context, c *shoal.Client, ref string, add map[string]string, remove []string) (*map[string]string, error) {
	sb, err := c.Sandboxes().Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	maps.Copy(labels, sb.Labels)
	maps.Copy(labels, add)
	for _, key := range remove {
		delete(labels, key)
	}
	return &labels, nil
}

// printChanged prints what set can change.
func printChanged(out io.Writer, now time.Time, sb shoal.Sandbox) error {
	ends := "never"
	if end := endOf(sb); !end.IsZero() {
		// To the second, so that what was just asked for is what is read.
		ends = "in " + duration(end.Sub(now).Round(time.Second)) + ", " + end.Local().Format(time.DateTime)
	}
	t := newTable(out)
	t.row("id", sb.ID)
	t.row("name", sb.Name)
	t.row("persistent", strconv.FormatBool(sb.Persistent))
	t.row("ends", ends)
	if sb.IdleSeconds > 0 {
		t.row("idle", idleText(sb))
	}
	if len(sb.Rules) > 0 {
		t.row("rules", rulesText(sb))
	}
	t.row("vcpus", strconv.FormatFloat(sb.VCPUs, 'g', -1, 64))
	t.row("memory", bytesText(sb.MemoryBytes))
	for _, l := range otherLimits(sb) {
		t.row(l[0], l[1])
	}
	t.row("labels", joinPairs(sb.Labels))
	return t.flush()
}

// labels completes the labels of the sandbox that is typed already.
func (a completions) labels(c *cobra.Command, args []string, _ string) (keys []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	err := a.askServer(c, func(ctx context.Context, client *shoal.Client) error {
		sb, err := client.Sandboxes().Get(ctx, args[0])
		keys = slices.Sorted(maps.Keys(sb.Labels))
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}
