package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

// keyDialects are the vendors whose clients may check what a key looks like.
func keyDialects() (names []string) {
	for _, v := range vendors() {
		names = append(names, v.dialect)
	}
	return names
}

func keyCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:        "key COMMAND",
		Short:      "Make and delete API keys",
		GroupID:    groupServer,
		SuggestFor: []string{"keys", "apikey", "token", "tokens"},
		Long: `Make, list and delete API keys. It takes the operator's key, which the server has made at its first start and keeps in
admin.key below its data directory, or one with the scope keys. A key belongs to one tenant, and may do what its scopes say: an
ordinary one all of a tenant's work, but neither make keys nor see the audit. --tenant makes one for another tenant.`,
		Example: `  shoal key create --name ci --expires 90d
  shoal key create --tenant acme --name acme-admin --scope all
  shoal key ls
  shoal key rm a8s7d6f5g4h3j2k1l0q9we`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(keyCreateCommand(a), keyLsCommand(a), keyRmCommand(a))
	return c
}

func keyCreateCommand(a *app) *cobra.Command {
	var (
		req     shoal.CreateKeyRequest
		expires lifetime
		quiet   bool
		scopes  []string
		labels  []string
	)
	c := &cobra.Command{
		Use:        "create",
		Short:      "Make an API key and print its secret, this once",
		SuggestFor: []string{"new", "add", "make"},
		Long: `Make an API key and print its secret. It is shown this once: the server keeps only a hash of it.

--scope says what it may do, and may be repeated:
` + scopeHelp() + `Without it the key is an ordinary one: all but the last three. --scope all stands for all but admin: who holds it runs the tenant.
A key makes keys that may do no more than it may itself, are for the same sandboxes or fewer, don't outlive it and are deleted with it.
--label restricts the key to the sandboxes that have these labels: it sees no others, and what it creates gets them.

--dialect gives the secret the form of another vendor's keys, since some clients refuse any other: e2b_… or pds_…. It
changes nothing else: every key works with every client and at every address.`,
		Example: `  shoal key create --name ci --expires 90d
  export SHOAL_API_KEY=$(shoal key create -q --name laptop)
  shoal key create --scope sandboxes:read --scope execs --label team=data --expires 12h
  export E2B_API_KEY=$(shoal key create -q --dialect e2b)`,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if req.Labels, err = pairs(labels, "--label", nil); err != nil {
				return usage(c, "%v", err)
			}
			req.Scopes = scopes
			if i := slices.Index(scopes, allScopes); i >= 0 {
				req.Scopes = append(slices.Delete(slices.Clone(scopes), i, i+1), tenantScopes()...)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			req.ExpiresInSeconds = expires.seconds()
			key, err := client.Keys().Create(c.Context(), req)
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(key)
			}
			fmt.Fprintln(a.out, key.Secret)
			if !quiet {
				fmt.Fprintf(a.err, "This is the key %s. Keep it: it is shown only now.\n", key.ID)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&req.Name, "name", "", "a `NAME` for people, to know it by in 'shoal key ls'")
	f.StringVar(&req.Dialect, "dialect", "", "the `VENDOR` whose keys it is to look like: e2b or panda (default: shoal_…)")
	f.Var(&expires, "expires", "how long it is good for, such as 12h or 90d (default: until it is deleted)")
	f.BoolVarP(&quiet, "quiet", "q", false, "print nothing but the secret")
	f.StringArrayVar(&scopes, "scope", nil, "a `SCOPE`, such as sandboxes:read or execs; may be repeated (default: an ordinary key's)")
	f.StringArrayVar(&labels, "label", nil, "only for sandboxes with the label `KEY=VALUE`; may be repeated")
	_ = c.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions(append(tenantScopes(), "admin", allScopes), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("dialect", cobra.FixedCompletions(keyDialects(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func keyLsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short:   "List API keys",
		Long:    `List API keys, newest first. Their secrets are not kept, so they can't be shown.`,
		Example: `  shoal key ls`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			list := []shoal.Key{}
			for k, err := range client.Keys().List(c.Context()) {
				if err != nil {
					return err
				}
				list = append(list, k)
			}
			if a.json() {
				return a.printJSON(list)
			}
			return printKeys(a.out, time.Now(), list)
		},
	}
}

// allScopes stands for all scopes of a tenant.
const allScopes = "all"

// scopeTexts says of each scope what it lets its holder do; those of an ordinary key first.
func scopeTexts() [][2]string {
	return [][2]string{
		{"sandboxes:read", "find sandboxes and see what they use"},
		{"sandboxes:write", "create, change and delete sandboxes"},
		{"execs", "start, follow and end processes"},
		{"files", "read and write files (whoever has execs can do that, too)"},
		{"templates:read", "find templates"},
		{"templates:write", "make and delete the tenant's own templates"},
		{"events:read", "read events"},
		{"usage:read", "see quota and usage"},
		{"keys", "make narrower keys, list and delete them"},
		{"audit:read", "see who did what"},
	}
}

// tenantScopes are all scopes of a tenant.
func tenantScopes() (list []string) {
	for _, s := range scopeTexts() {
		list = append(list, s[0])
	}
	return list
}

func scopeHelp() string {
	var b strings.Builder
	for _, s := range append(scopeTexts(), [2]string{"admin", "the server's operator: all tenants, and all scopes in each"}) {
		fmt.Fprintf(&b, "  %-16s %s\n", s[0], s[1])
	}
	return b.String()
}

// scopesText says in a word or a few what a key may do.
func scopesText(k shoal.Key) string {
	ordinary := tenantScopes()[:len(tenantScopes())-2]
	switch {
	case k.Admin:
		return "admin"
	case slices.Equal(k.Scopes, tenantScopes()):
		return allScopes
	case slices.Equal(k.Scopes, ordinary):
		return "ordinary"
	}
	return strings.Join(k.Scopes, " ")
}

func printKeys(out io.Writer, now time.Time, list []shoal.Key) error {
	t := newTable(out, "ID", "NAME", "SCOPES", "FORM", "AGE", "EXPIRES", "USED", "PARENT", "ONLY FOR")
	for _, k := range list {
		expires, used := "never", "never"
		if !k.LastUsedAt.IsZero() {
			used = age(now, k.LastUsedAt) + " ago"
		}
		switch {
		case k.ExpiresAt.IsZero():
		case k.ExpiresAt.After(now):
			expires = "in " + age(now, k.ExpiresAt)
		default:
			expires = "expired"
		}
		t.row(k.ID, k.Name, scopesText(k), k.Dialect, age(now, k.CreatedAt), expires, used, k.ParentID, joinPairs(k.Labels))
	}
	return t.flush()
}

func keyRmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "rm KEY…", Aliases: []string{"delete"},
		Short:      "Delete API keys",
		SuggestFor: []string{"remove", "revoke"},
		Long: `Delete API keys by their ids, with the keys that were made with them. No call is made with them from then on, and those under way
end: streams with an error, transfers cut off. Processes and sandboxes go on. If one of several isn't there, the others are deleted all the same and the exit code is 125.

The admin key can't be deleted. To have another in its place, delete the file admin.key and restart the server.`,
		Example: `  shoal key rm a8s7d6f5g4h3j2k1l0q9we
  shoal key ls -o json | jq -r '.[] | select(.name == "ci") | .id' | xargs -r shoal key rm`,
		ValidArgsFunction: a.complete().keys,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			return each(a, "key", args, func(id string) error {
				return aboutKey(c.Context(), client, id, client.Keys().Delete(c.Context(), id))
			})
		},
	}
}

// aboutKey says which key isn't there, and what to do if it was a key's name that was typed.
func aboutKey(ctx context.Context, client *shoal.Client, id string, err error) error {
	if !isMissing(err) {
		return err
	}
	for k, lerr := range client.Keys().List(ctx) {
		if lerr != nil {
			break
		}
		if k.Name == id {
			return errors.New(id + " is a name, which several keys may have: say its id, " + k.ID)
		}
	}
	return &notFoundError{"key", id, "'shoal key ls' shows all", err}
}

// keys completes keys by their ids.
func (a completions) keys(c *cobra.Command, _ []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	err := a.askServer(c, func(ctx context.Context, client *shoal.Client) error {
		for k, err := range client.Keys().List(ctx) {
			if err != nil || len(ids) == completionMost {
				return err
			}
			if !k.Admin {
				ids = append(ids, cobra.CompletionWithDesc(k.ID, k.Name))
			}
		}
		return nil
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
