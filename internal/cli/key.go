package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		Long: `Make, list and delete API keys. It takes the admin key, which the server has made at its first start and keeps in
admin.key below its data directory. The keys made here may do all that it may, on the same sandboxes, but for this.`,
		Example: `  shoal key create --name ci --expires 90d
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
	)
	c := &cobra.Command{
		Use:        "create",
		Short:      "Make an API key and print its secret, this once",
		SuggestFor: []string{"new", "add", "make"},
		Long: `Make an API key and print its secret. It is shown this once: the server keeps only a hash of it.

--dialect gives the secret the form of another vendor's keys, since some clients refuse any other: e2b_… or pds_…. It
changes nothing else: every key works with every client and at every address.`,
		Example: `  shoal key create --name ci --expires 90d
  export SHOAL_API_KEY=$(shoal key create -q --name laptop)
  export E2B_API_KEY=$(shoal key create -q --dialect e2b)`,
		RunE: func(c *cobra.Command, _ []string) error {
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

func printKeys(out io.Writer, now time.Time, list []shoal.Key) error {
	t := newTable(out, "ID", "NAME", "KIND", "AGE", "EXPIRES")
	for _, k := range list {
		kind, expires := "", "never"
		if k.Admin {
			kind = "admin"
		}
		switch {
		case k.ExpiresAt.IsZero():
		case k.ExpiresAt.After(now):
			expires = "in " + age(now, k.ExpiresAt)
		default:
			expires = "expired"
		}
		t.row(k.ID, k.Name, kind, age(now, k.CreatedAt), expires)
	}
	return t.flush()
}

func keyRmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "rm KEY…", Aliases: []string{"delete"},
		Short:      "Delete API keys",
		SuggestFor: []string{"remove", "revoke"},
		Long: `Delete API keys by their ids. No call is made with them from then on; an open stream goes on to its end. If one of several
isn't there, the others are deleted all the same and the exit code is 125.

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
	if shoal.ErrorCode(err) != shoal.CodeNotFound {
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
