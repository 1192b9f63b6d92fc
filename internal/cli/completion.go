package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	shoal "shoal/sdk/go"
)

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "completion bash|zsh|fish",
		Short:   "Print a script that completes commands in your shell",
		GroupID: groupServer, Annotations: map[string]string{Offline: ""},
		Long: `Print a script that lets your shell complete commands, flags, and the names of sandboxes, execs and templates, which it
asks the server for.

bash needs the package bash-completion, and a shell that has loaded it: on Debian, apt install bash-completion and log in
anew.`,
		Example: `  source <(shoal completion bash)
  shoal completion zsh >"${fpath[1]}/_shoal"
  shoal completion fish >~/.config/fish/completions/shoal.fish`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(a.out, true)
			case "zsh":
				return c.Root().GenZshCompletion(a.out)
			}
			return c.Root().GenFishCompletion(a.out, true)
		},
	}
}

// plainFlags takes the marks of values out of what is said of flags: a shell shows that as it is.
func plainFlags(c *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	c.Flags().VisitAll(plain)
	c.PersistentFlags().VisitAll(plain)
	for _, sub := range c.Commands() {
		plainFlags(sub)
	}
}

const (
	// completionTime bounds how long a shell is kept waiting for names.
	completionTime = 2 * time.Second
	// completionMost bounds how many names are offered.
	completionMost = 200
)

// completions answer the shell that asks for names.
type completions struct{ *app }

func (a *app) complete() completions { return completions{a} }

// askServer makes a client and a context for a completion, and says nothing if that fails: the shell has no place for it.
func (a completions) askServer(c *cobra.Command, ask func(context.Context, *shoal.Client) error) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	client.MaxRetries = -1
	base := c.Context()
	if base == nil {
		base = context.Background()
	}
	ctx, cancel := context.WithTimeout(base, completionTime)
	defer cancel()
	return ask(ctx, client)
}

// sandboxNames returns a name, or else the id, of each sandbox.
func (a completions) sandboxNames(c *cobra.Command) (names []string, err error) {
	err = a.askServer(c, func(ctx context.Context, client *shoal.Client) error {
		for sb, err := range client.Sandboxes().List(ctx, shoal.ListSandboxesOptions{}) {
			if err != nil || len(names) == completionMost {
				return err
			}
			if sb.Name != "" {
				names = append(names, sb.Name)
			} else {
				names = append(names, sb.ID)
			}
		}
		return nil
	})
	return names, err
}

type completer = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// sandboxes completes up to most sandboxes; -1 means any number.
func (a completions) sandboxes(most int) completer {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, err := a.sandboxNames(c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// places completes up to so many of SANDBOX:/PATH, as far as the colon; otherwise is what may stand there besides.
func (a completions) places(most int, otherwise cobra.ShellCompDirective) completer {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most || strings.Contains(typed, "/") {
			return nil, otherwise
		}
		names, _ := a.sandboxNames(c)
		for i := range names {
			names[i] += ":/"
		}
		return names, cobra.ShellCompDirectiveNoSpace
	}
}

// execs completes a sandbox and then its execs, for kill those that run.
func (a completions) execs() completer {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return a.sandboxes(1)(c, args, typed)
		}
		var ids []string
		err := a.askServer(c, func(ctx context.Context, client *shoal.Client) error {
			for e, err := range client.Execs(args[0]).Select(ctx, shoal.ListExecsOptions{Running: c.Name() == "kill"}) {
				if err != nil || len(ids) == completionMost {
					return err
				}
				ids = append(ids, e.ID)
			}
			return nil
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// templates completes one template.
func (a completions) templates(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if c.Name() == "get" && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	seen := map[string]bool{}
	var names []string
	err := a.askServer(c, func(ctx context.Context, client *shoal.Client) error {
		for t, err := range client.Templates().List(ctx) {
			if err != nil {
				return err
			}
			if !seen[t.Name] {
				seen[t.Name] = true
				names = append(names, t.Name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
