package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Offline is the annotation of a command that talks to no server: its help leaves out the flags that say which one. Its value
// names those flags of every command that mean something to it all the same.
const Offline = "offline"

// helpCommand replaces cobra's own, which answers a mistyped name with success.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND…]",
		Short:   "Show what a command does and how it is used",
		Long:    "Show what a command does and how it is used; the same as COMMAND --help.",
		Example: "  shoal help exec\n  shoal help template ls",
		GroupID: groupServer, Annotations: map[string]string{Offline: ""},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if found, rest := descend(c.Root(), args); len(rest) == 0 {
				for _, sub := range found.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			found, rest := descend(c.Root(), args)
			if len(rest) > 0 {
				return unknownCommand(found, rest[0])
			}
			return found.Help()
		},
	}
}

// descend follows names down the tree of commands and returns those that lead nowhere.
func descend(c *cobra.Command, names []string) (*cobra.Command, []string) {
	for len(names) > 0 {
		var next *cobra.Command
		for _, sub := range c.Commands() {
			if sub.Name() == names[0] || sub.HasAlias(names[0]) {
				next = sub
			}
		}
		if next == nil {
			break
		}
		c, names = next, names[1:]
	}
	return c, names
}

// usageLine is how a command is called.
func usageLine(c *cobra.Command) string {
	if c.HasAvailableSubCommands() {
		return c.CommandPath() + " COMMAND"
	}
	return c.UseLine()
}

// printUsage prints the part of a command's help that follows its description.
func printUsage(c *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", usageLine(c))
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAlso called:\n  %s\n", strings.Join(c.Aliases, ", "))
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableSubCommands() {
		writeCommands(&b, c)
	}
	local := c.LocalFlags()
	if local.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s\n", flagText(local))
	}
	if shared := sharedFlags(c); shared.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags of every command:\n%s\n", flagText(shared))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n'%s COMMAND --help' says more about a command.\n", c.CommandPath())
	}
	_, err := fmt.Fprint(c.OutOrStderr(), b.String())
	return err
}

// writeCommands lists what is below a command, in the groups that it has.
func writeCommands(b *strings.Builder, c *cobra.Command) {
	list := func(title, group string) {
		fmt.Fprintf(b, "\n%s\n", title)
		for _, sub := range c.Commands() {
			if sub.GroupID == group && sub.IsAvailableCommand() {
				fmt.Fprintf(b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	if len(c.Groups()) == 0 {
		list("Commands:", "")
	}
	for _, g := range c.Groups() {
		list(g.Title, g.ID)
	}
}

// sharedFlags returns those flags of every command that mean something to c.
func sharedFlags(c *cobra.Command) *pflag.FlagSet {
	names, offline := c.Annotations[Offline]
	if !offline {
		return c.InheritedFlags()
	}
	var few pflag.FlagSet
	for _, name := range strings.Fields(names) {
		few.AddFlag(c.InheritedFlags().Lookup(name))
	}
	return &few
}

func flagText(f *pflag.FlagSet) string { return strings.TrimRight(f.FlagUsages(), "\n ") }
