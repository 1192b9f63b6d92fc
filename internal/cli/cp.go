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
Permission bits are kept; owners are the template's user in a sandbox and you here.

A directory goes as one stream, with its links, hard links, times, holes and attributes; what can't be kept, such as fifos and
sockets, is named. Here no set-user-ID bits are kept, and nothing is made outside DST whatever a sandbox sends. As - a directory
is a tar archive. A link that is SRC itself is followed here and refused in a sandbox. A terminal is shown how far it is.

When the connection breaks or the server is restarted, the copy of a file, into a sandbox one of at least 8 MiB, goes on where it
was, says so, and gives up after three minutes without a byte more. A directory's stream doesn't: copy it again.

A sandbox that was started by an older release gets file after file, 8 at once, without links and times.`,
		Example: `  shoal cp data.csv lab:/tmp/
  shoal cp lab:/tmp/out ./results
  shoal cp lab:/data other:/data
  shoal cp lab:/root - | gzip >root.tar.gz
  shoal cp - lab:/srv/ <tree.tar.gz
  shoal cp - lab:/tmp/hello.txt <hello.txt
  shoal cp lab:/var/log/dpkg.log - | tail`,
		ValidArgsFunction: a.complete().places(2, cobra.ShellCompDirectiveDefault),
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
			if a.json() && to == (location{path: stdio}) {
				return usage(c, "a file on our output is not printed as json: leave -o json out, or say a DST")
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
			return resultOfCopy(args[0], args[1]).one(a, a.copy(c.Context(), tree(from), from.path, tree(to), to.path))
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
