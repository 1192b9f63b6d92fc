package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// fileMode is permission bits in octal, as a flag.
type fileMode struct {
	bits uint32
	set  bool
}

// String returns the bits in octal.
func (m *fileMode) String() string {
	if !m.set {
		return ""
	}
	return fmt.Sprintf("%04o", m.bits)
}

// Set reads them.
func (m *fileMode) Set(s string) error {
	bits, err := parseFileMode(s)
	m.bits, m.set = bits, true
	return err
}

// Type is what the help calls it.
func (m *fileMode) Type() string { return "OCTAL" }

func parseFileMode(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n > 0o7777 {
		return 0, fmt.Errorf("a mode is permission bits in octal, such as 0644, and not %q", s)
	}
	return uint32(n), nil
}

func (f fileCommands) chmod() *cobra.Command {
	var change shoal.FileChange
	c := &cobra.Command{
		Use:   "chmod SANDBOX MODE PATH…",
		Short: "Change permission bits",
		Long:  `Change the permission bits of files to MODE, in octal. Links are followed; with -R, those below a directory are not.`,
		Example: `  shoal files chmod lab 0755 /home/user/run.sh
  shoal files chmod -R lab 0700 /home/user/private`,
		RunE: func(c *cobra.Command, args []string) error {
			mode, err := parseFileMode(args[1])
			if err != nil {
				return usage(c, "%v", err)
			}
			change.Mode = &mode
			return f.each(c, args[0], args[2:], func(ctx context.Context, files shoal.Files, p string) (shoal.FileInfo, error) {
				return files.Change(ctx, p, change)
			})
		},
	}
	c.Flags().BoolVarP(&change.Recursive, "recursive", "R", false, "change everything below directories, too")
	return c
}

func (f fileCommands) chown() *cobra.Command {
	var change shoal.FileChange
	c := &cobra.Command{
		Use:   "chown SANDBOX OWNER PATH…",
		Short: "Change owner and group",
		Long: `Change the owner of files: OWNER is a name or number, optionally with :GROUP, or :GROUP alone. Links are followed unless
--no-follow is given; with -R, those below a directory are changed themselves.`,
		Example: `  shoal files chown lab user:user /home/user/data.csv
  shoal files chown -R lab 1000 /srv`,
		RunE: func(c *cobra.Command, args []string) error {
			change.Owner, change.Group, _ = strings.Cut(args[1], ":")
			if change.Owner == "" && change.Group == "" {
				return usage(c, "OWNER is a name or number, optionally with :GROUP")
			}
			return f.each(c, args[0], args[2:], func(ctx context.Context, files shoal.Files, p string) (shoal.FileInfo, error) {
				return files.Change(ctx, p, change)
			})
		},
	}
	c.Flags().BoolVar(&change.NoFollow, "no-follow", false, "change a link itself")
	c.Flags().BoolVarP(&change.Recursive, "recursive", "R", false, "change everything below directories, too")
	return c
}

func (f fileCommands) ln() *cobra.Command {
	var (
		o        shoal.LinkOptions
		symbolic bool
	)
	c := &cobra.Command{
		Use: "ln SANDBOX TARGET PATH", Aliases: []string{"link"},
		Short: "Make a hard or symbolic link",
		Long: `Make another name, PATH, of the file at TARGET; with -s a symbolic link at PATH that says TARGET, which may be anything and
is looked up from where the link is.`,
		Example: `  shoal files ln -s lab data-2.csv /home/user/latest.csv
  shoal files ln -sf lab data-3.csv /home/user/latest.csv`,
		RunE: func(c *cobra.Command, args []string) error {
			o.Hard = !symbolic
			return f.each(c, args[0], args[2:], func(ctx context.Context, files shoal.Files, p string) (shoal.FileInfo, error) {
				return files.Link(ctx, p, args[1], o)
			})
		},
	}
	c.Flags().BoolVarP(&symbolic, "symbolic", "s", false, "make a symbolic link")
	c.Flags().BoolVarP(&o.Replace, "force", "f", false, "take the place of a file that is there")
	c.Flags().BoolVarP(&o.Parents, "parents", "p", false, "make directories above that are missing")
	c.Flags().StringVarP(&o.User, "user", "u", "", "the `USER` who owns a symbolic link: name or number, optionally :group (default: the template's)")
	return c
}

func (f fileCommands) xattr() *cobra.Command {
	var remove []string
	c := &cobra.Command{
		Use:   "xattr SANDBOX PATH [NAME=VALUE…]",
		Short: "Show, set and remove extended attributes",
		Long: `Show a file's extended attributes, or set and remove some. Their names begin with user.; all others are a kernel's. Links are
followed.`,
		Example: `  shoal files xattr lab /home/user/data.csv user.origin=survey
  shoal files xattr lab /home/user/data.csv --rm user.origin
  shoal files xattr lab /home/user/data.csv`,
		RunE: func(c *cobra.Command, args []string) error {
			change := shoal.FileChange{RemoveXattrs: remove, SetXattrs: map[string][]byte{}}
			for _, pair := range args[2:] {
				name, value, ok := strings.Cut(pair, "=")
				if !ok {
					return usage(c, "an attribute is set by NAME=VALUE, and not by %q", pair)
				}
				change.SetXattrs[name] = []byte(value)
			}
			return f.on(c, args[0], func(ctx context.Context, files shoal.Files) error {
				if len(remove)+len(change.SetXattrs) > 0 {
					info, err := files.Change(ctx, args[1], change)
					if err == nil && f.json() {
						err = f.printJSON([]shoal.FileInfo{info})
					}
					return err
				}
				info, err := files.StatXattrs(ctx, args[1])
				if err != nil {
					return err
				}
				if f.json() {
					return f.printJSON(info.Xattrs)
				}
				for _, x := range info.Xattrs {
					fmt.Fprintf(f.out, "%s=%q\n", printable(string(api.Join(x.Name, x.NameRaw))), x.Value)
				}
				return nil
			})
		},
	}
	c.Flags().StringArrayVar(&remove, "rm", nil, "remove the attribute `NAME`; may be repeated")
	return c
}

func (f fileCommands) watch() *cobra.Command {
	var recursive bool
	c := &cobra.Command{
		Use:   "watch SANDBOX PATH",
		Short: "Show what happens to files",
		Long: `Show what happens to the files in a directory, with -r also below it, until it is interrupted or the directory goes: create,
write, remove, rename, chmod. A line overflow says that so much has happened that not all of it is shown. With -o json each
line is one event.

When the server is restarted, the watch is over and the exit code is 125: what happens from then on is not known. Start it again, and
look at what is there then.`,
		Example: `  shoal files watch -r lab /home/user
  shoal files watch lab /tmp -o json | jq -r 'select(.type == "create").path'`,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), unix.SIGINT, unix.SIGTERM)
			defer stop()
			watching := false
			err := f.on(c, args[0], func(_ context.Context, files shoal.Files) error {
				w, err := files.Watch(ctx, args[1], recursive)
				if err != nil {
					return err
				}
				watching = true
				return errors.Join(f.events(w), w.Close())
			})
			switch {
			case ctx.Err() != nil:
				return nil // Being interrupted is how this ends.
			case watching && shoal.ErrorCode(err) == shoal.CodeUnavailable:
				return watchOver(err)
			}
			return err
		},
	}
	c.Flags().BoolVarP(&recursive, "recursive", "r", false, "watch everything below, too")
	return c
}

// watchOver says what the end of a watch means that the server or the connection to it has ended.
func watchOver(err error) error {
	return &exitError{exitOurs, fmt.Errorf("the watch is over, and what has changed since is not known: start it again and look at what is there (%s)", explain(err))}
}

// events prints what happens until the directory goes.
func (f fileCommands) events(w *shoal.FileWatch) error {
	for {
		e, err := w.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && f.json() {
			err = f.printLine(e)
		} else if err == nil {
			line := fmt.Sprintf("%-8s %s", e.Type, printable(e.PathBytes()))
			if to := e.ToBytes(); to != "" {
				line += " -> " + printable(to)
			}
			_, err = fmt.Fprintln(f.out, line)
		}
		if err != nil {
			return err
		}
	}
}
