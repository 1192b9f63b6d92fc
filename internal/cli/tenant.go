package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

func tenantCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:        "tenant COMMAND",
		Short:      "Make tenants, give them quotas, suspend and delete them",
		GroupID:    groupServer,
		SuggestFor: []string{"tenants", "org", "project", "customer"},
		Long: `Make, list, change and delete tenants: owners of sandboxes, templates and keys, who see nothing of each other. It takes the
operator's key. Give the first key of a tenant out with 'shoal key create --tenant NAME'; what it lets its holder do is for that
command to say.`,
		Example: `  shoal tenant create acme --quota sandboxes=50 --quota memory=32G
  shoal key create --tenant acme --name ci --expires 90d
  shoal tenant set acme --suspend
  shoal tenant rm acme --force`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(tenantCreateCommand(a), tenantLsCommand(a), tenantGetCommand(a), tenantSetCommand(a), tenantRmCommand(a))
	return c
}

func quotaHelp() string {
	return "a bound `NAME=VALUE`, such as sandboxes=50, memory=32G or max-ttl=8h; none: no limit; default: the server's; may be repeated"
}

// completeQuota offers the names of a quota's bounds.
func completeQuota(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	for _, n := range quotaNames() {
		names = append(names, n+"=")
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func tenantCreateCommand(a *app) *cobra.Command {
	var quota, labels []string
	c := &cobra.Command{
		Use:        "create NAME",
		Short:      "Make a tenant and print its id",
		SuggestFor: []string{"new", "add", "make"},
		Long: `Make a tenant and print its id. It has no key yet. What is not said of its quota is as the server's settings (quota.*) have it for
every tenant. The names of the bounds are ` + strings.Join(quotaNames(), ", ") + `.`,
		Example: `  shoal tenant create acme
  shoal tenant create acme --quota sandboxes=50 --quota creates-per-minute=60 --label plan=pro`,
		RunE: func(c *cobra.Command, args []string) error {
			req := shoal.CreateTenantRequest{Name: args[0]}
			var err error
			if req.Labels, err = pairs(labels, "--label", nil); err == nil {
				err = setQuota(&req.Quota, quota)
			}
			if err != nil {
				return usage(c, "%v", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			made, err := client.Tenants().Create(c.Context(), req)
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(made)
			}
			_, err = fmt.Fprintln(a.out, made.ID)
			return err
		},
	}
	c.Flags().StringArrayVar(&quota, "quota", nil, quotaHelp())
	c.Flags().StringArrayVar(&labels, "label", nil, "a label `KEY=VALUE`; may be repeated")
	_ = c.RegisterFlagCompletionFunc("quota", completeQuota)
	return c
}

func tenantLsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short:   "List tenants",
		Long:    `List all tenants, newest first, with what they have.`,
		Example: `  shoal tenant ls`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			list := []shoal.Tenant{}
			for t, err := range client.Tenants().List(c.Context()) {
				if err != nil {
					return err
				}
				list = append(list, t)
			}
			if a.json() {
				return a.printJSON(list)
			}
			return printTenants(a.out, time.Now(), list)
		},
	}
}

func tenantState(x shoal.Tenant) string {
	if x.Suspended {
		return "suspended"
	}
	return "active"
}

func printTenants(out io.Writer, now time.Time, list []shoal.Tenant) error {
	t := newTable(out, "ID", "NAME", "STATE", "SANDBOXES", "MEMORY", "KEYS", "AGE", "LABELS")
	for _, x := range list {
		t.row(x.ID, x.Name, tenantState(x), strconv.FormatInt(x.Use.Sandboxes, 10), bytesText(x.Use.MemoryBytes),
			strconv.FormatInt(x.Use.Keys, 10), age(now, x.CreatedAt), joinPairs(x.Labels))
	}
	return t.flush()
}

func tenantGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "get TENANT",
		Short:             "Show a tenant with its quota and what it uses of it",
		Long:              `Show a tenant, by id or name, with what it may have and what it has.`,
		Example:           `  shoal tenant get acme`,
		ValidArgsFunction: a.complete().tenants(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			got, err := client.Tenants().Get(c.Context(), args[0])
			if err != nil {
				return aboutTenant(args[0], err)
			}
			return printTenant(a, got)
		},
	}
}

func printTenant(a *app, x shoal.Tenant) error {
	if a.json() {
		return a.printJSON(x)
	}
	t := newTable(a.out)
	t.row("id", x.ID)
	t.row("name", x.Name)
	t.row("state", tenantState(x))
	if len(x.Labels) > 0 {
		t.row("labels", joinPairs(x.Labels))
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	return printQuota(a.out, x)
}

func tenantSetCommand(a *app) *cobra.Command {
	var (
		quota, labels, unlabels []string
		name                    string
		suspend, resume         bool
	)
	c := &cobra.Command{
		Use:        "set TENANT",
		Short:      "Change a tenant's quota, name and labels; suspend it, or let it go on",
		SuggestFor: []string{"update", "edit", "suspend", "resume"},
		Long: `Change a tenant. What isn't named stays as it is. A suspended tenant's keys are turned away and its calls end; its sandboxes go on and
end by their own rules, and --resume lets it go on. A quota below what the tenant has takes nothing away.
Quota and labels are read, changed and written back as a whole: do it from one place at a time.`,
		Example: `  shoal tenant set acme --quota sandboxes=100 --quota memory=default
  shoal tenant set acme --suspend`,
		ValidArgsFunction: a.complete().tenants(1),
		RunE: func(c *cobra.Command, args []string) error {
			if suspend && resume {
				return usage(c, "give either --suspend or --resume")
			}
			add, err := pairs(labels, "--label", nil)
			if err == nil {
				err = setQuota(&shoal.TenantQuota{}, quota)
			}
			if err != nil {
				return usage(c, "%v", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			var req shoal.UpdateTenantRequest
			if c.Flags().Changed("name") {
				req.Name = &name
			}
			if suspend || resume {
				req.Suspended = &suspend
			}
			if len(quota)+len(add)+len(unlabels) > 0 {
				if err := readTenant(c.Context(), client, args[0], &req, tenantChange{quota, add, unlabels}); err != nil {
					return aboutTenant(args[0], err)
				}
			}
			if req == (shoal.UpdateTenantRequest{}) {
				return usage(c, "say what to change: --quota, --name, --label, --suspend or --resume")
			}
			changed, err := client.Tenants().Update(c.Context(), args[0], req)
			if err != nil {
				return aboutTenant(args[0], err)
			}
			return printTenant(a, changed)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&quota, "quota", nil, quotaHelp())
	f.StringVar(&name, "name", "", "its new `NAME`")
	f.StringArrayVar(&labels, "label", nil, "add or replace the label `KEY=VALUE`; may be repeated")
	f.StringArrayVar(&unlabels, "unlabel", nil, "take the label `KEY` away; may be repeated")
	f.BoolVar(&suspend, "suspend", false, "turn its keys away")
	f.BoolVar(&resume, "resume", false, "let it go on")
	_ = c.RegisterFlagCompletionFunc("quota", completeQuota)
	return c
}

// tenantChange is what is changed in what a tenant has.
type tenantChange struct {
	quota    []string
	add      map[string]string
	unlabels []string
}

// readTenant fills in what is replaced as a whole, from what the tenant has.
func readTenant(ctx context.Context, client *shoal.Client, ref string, req *shoal.UpdateTenantRequest, change tenantChange) error {
	now, err := client.Tenants().Get(ctx, ref)
	if err != nil {
		return err
	}
	if len(change.quota) > 0 {
		if err := setQuota(&now.Quota, change.quota); err != nil {
			return err
		}
		req.Quota = &now.Quota
	}
	if len(change.add)+len(change.unlabels) > 0 {
		all := maps.Clone(now.Labels)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, change.add)
		for _, k := range change.unlabels {
			delete(all, k)
		}
		req.Labels = &all
	}
	return nil
}

func tenantRmCommand(a *app) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm TENANT", Aliases: []string{"delete"},
		Short: "Delete a tenant with its keys, templates and events",
		Long: `Delete a tenant. Its keys stop at once, and what it had is removed in the background. One that has sandboxes is only deleted with
--force, and they with it. This can't be undone, and the id is never used again.`,
		Example: `  shoal tenant rm acme
  shoal tenant rm acme --force`,
		ValidArgsFunction: a.complete().tenants(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			return each(a, "tenant", args, func(ref string) error {
				return aboutTenant(ref, client.Tenants().Delete(c.Context(), ref, force))
			})
		},
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "also if it has sandboxes, and they with it")
	return c
}

func aboutTenant(ref string, err error) error {
	if isMissing(err) {
		return &notFoundError{"tenant", ref, "'shoal tenant ls' shows all", err}
	}
	return err
}

// tenants completes tenants by their names.
func (a completions) tenants(most int) completer {
	return func(c *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		err := a.askServer(c, func(ctx context.Context, client *shoal.Client) error {
			for t, err := range client.Tenants().List(ctx) {
				if err != nil || len(names) == completionMost {
					return err
				}
				names = append(names, cobra.CompletionWithDesc(t.Name, t.ID))
			}
			return nil
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
