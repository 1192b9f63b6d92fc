package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// stdio stands for our input or output where a path is wanted.
const stdio = "-"

func (a *app) cpCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "cp SRC DST",
		Short:      "Copy files and directories into, out of or between sandboxes",
		GroupID:    groupInside,
		SuggestFor: []string{"copy", "put", "upload", "download", "push", "pull"},
		Long: `Copy a file or a directory with all that is in it. SANDBOX:/PATH is a path in a sandbox, - is our input or output, and
anything else is a path here; write ./a:b for a name with a colon.

If DST is a directory, the copy gets SRC's name in it; if it ends with / and isn't there, a file gets its name in a new
directory DST. Missing directories above DST are made in a sandbox and not here. A file appears whole or not at all.
Permission bits are kept; owners are the template's user in a sandbox and you here. Of a directory, 8 files are copied at
once, up to the first that fails; a terminal is shown how far it is.

Symbolic links inside a directory are left out and named, of 10 or more the first few; a link that is SRC itself is
followed here and refused in a sandbox. To keep links and owners copy an archive, as in the third example.`,
		Example: `  shoal cp data.csv lab:/tmp/
  shoal cp lab:/tmp/out ./results
  tar c src | shoal exec -i lab -- tar x -C /tmp
  shoal cp - lab:/tmp/hello.txt <hello.txt
  shoal cp lab:/var/log/dpkg.log - | tail
  shoal cp lab:/data other:/data`,
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 || strings.Contains(typed, "/") {
				return nil, cobra.ShellCompDirectiveDefault
			}
			names, _ := a.complete().sandboxNames(c)
			for i := range names {
				names[i] += ":/"
			}
			return names, cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(c *cobra.Command, args []string) error {
			from, to := parseLocation(args[0]), parseLocation(args[1])
			if from.sandbox == "" && to.sandbox == "" {
				return usage(c, "neither %s nor %s is in a sandbox: write SANDBOX:/PATH", args[0], args[1])
			}
			for _, l := range []location{from, to} {
				if err := l.check(); err != nil {
					return usage(c, "%v", err)
				}
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			tree := func(l location) tree {
				if l.sandbox == "" {
					return a.local()
				}
				return remote(client, l.sandbox)
			}
			return a.copy(c.Context(), tree(from), from.path, tree(to), to.path)
		},
	}
}

// location is a path here or in a sandbox.
type location struct{ sandbox, path string }

// parseLocation reads SANDBOX:/PATH, where what is before the colon has no slash.
func parseLocation(s string) location {
	if name, p, ok := strings.Cut(s, ":"); ok && name != "" && !strings.Contains(name, "/") {
		return location{name, p}
	}
	return location{"", s}
}

func (l location) check() error {
	switch {
	case l.path == "":
		return errors.New("a path is missing")
	case l.sandbox != "" && !strings.HasPrefix(l.path, "/"):
		return errors.New("a path in a sandbox starts with /: " + l.sandbox + ":/" + l.path)
	}
	return nil
}
