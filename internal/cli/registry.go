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

// registryPassword is the environment variable that may have the password of a registry.
const registryPassword = "SHOAL_REGISTRY_PASSWORD" //nolint:gosec // It is its name.

func registryCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:        "registry COMMAND",
		Short:      "Keep logins for registries that templates are imported from",
		GroupID:    groupServer,
		SuggestFor: []string{"registries", "login", "credentials", "docker"},
		Long: `Keep logins for registries, so that 'shoal template import' needs none. A login is the tenant's: its imports from that registry use
it, whoever begins them, and no other tenant's do. The server keeps the password encrypted and shows it to nobody.`,
		Example: `  pass registry | shoal registry login ghcr.io --username ci --password-stdin
  shoal template import app ghcr.io/owner/private:1.2
  shoal registry ls
  shoal registry rm ghcr.io`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(registryLoginCommand(a), registryLsCommand(a), registryRmCommand(a))
	return c
}

// readLogin reads the password that goes with a user, or a token without one.
func readLogin(a *app, username string, fromInput bool) (string, error) {
	if fromInput {
		return readPassword(a.in)
	}
	password := a.getenv(registryPassword)
	if password == "" && username != "" {
		return "", errors.New("--username needs a password: set " + registryPassword + ", or pipe it in with --password-stdin")
	}
	return password, nil
}

func registryLoginCommand(a *app) *cobra.Command {
	var (
		req       shoal.PutRegistryRequest
		fromInput bool
	)
	c := &cobra.Command{
		Use:        "login HOST",
		Short:      "Keep a login for a registry",
		SuggestFor: []string{"add", "set", "put", "create"},
		Long: `Keep a login for a registry, in place of the one that is kept for it. HOST is as in the names of images: ghcr.io,
registry.example:5000, or docker.io for Docker Hub. The password is taken from SHOAL_REGISTRY_PASSWORD or our input; without
--username it is a bearer token. Give it no more rights than to read the images: an access token instead of a person's password.

Whether the registry takes the login is seen at the next import.`,
		Example: `  pass registry | shoal registry login ghcr.io --username ci --password-stdin
  shoal registry login registry.example:5000 --password-stdin <token`,
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if req.Password, err = readLogin(a, req.Username, fromInput); err == nil && req.Password == "" {
				err = errors.New("say with which password: set " + registryPassword + ", or pipe it in with --password-stdin")
			}
			if err != nil {
				return usage(c, "%v", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			kept, err := client.Registries().Put(c.Context(), args[0], req)
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(kept)
			}
			fmt.Fprintln(a.out, kept.Host)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&req.Username, "username", "", "a `USER` of the registry (default: none, the password is a bearer token)")
	f.BoolVar(&fromInput, "password-stdin", false, "take the password from our input (default: from "+registryPassword+")")
	return c
}

func registryLsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short:   "List the registries that a login is kept for",
		Long:    `List the registries that a login is kept for, with their users. No command shows a password.`,
		Example: `  shoal registry ls`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			list := []shoal.Registry{}
			for r, err := range client.Registries().List(c.Context()) {
				if err != nil {
					return err
				}
				list = append(list, r)
			}
			if a.json() {
				return a.printJSON(list)
			}
			return printRegistries(a.out, time.Now(), list)
		},
	}
}

func printRegistries(out io.Writer, now time.Time, list []shoal.Registry) error {
	t := newTable(out, "HOST", "USERNAME", "AGE")
	for _, r := range list {
		user := r.Username
		if user == "" {
			user = "(token)"
		}
		t.row(r.Host, user, age(now, r.UpdatedAt))
	}
	return t.flush()
}

func registryRmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "rm HOST…", Aliases: []string{"delete", "logout"},
		Short:      "Delete kept logins",
		SuggestFor: []string{"remove"},
		Long: `Delete the logins that are kept for registries. Imports from there are anonymous from then on, unless they bring a login. If one of
several isn't there, the others are deleted all the same and the exit code is 125.`,
		Example:           `  shoal registry rm ghcr.io`,
		ValidArgsFunction: a.complete().registries,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			return each(a, "registry", args, func(host string) error {
				err := client.Registries().Delete(c.Context(), host)
				if isMissing(err) {
					return &notFoundError{"login for the registry", host, "'shoal registry ls' shows all", err}
				}
				return err
			})
		},
	}
}

// registries completes the registries that a login is kept for.
func (a completions) registries(c *cobra.Command, _ []string, _ string) (hosts []string, _ cobra.ShellCompDirective) {
	err := a.askServer(c, func(ctx context.Context, client *shoal.Client) error {
		for r, err := range client.Registries().List(ctx) {
			if err != nil || len(hosts) == completionMost {
				return err
			}
			hosts = append(hosts, cobra.CompletionWithDesc(r.Host, r.Username))
		}
		return nil
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return hosts, cobra.ShellCompDirectiveNoFileComp
}
