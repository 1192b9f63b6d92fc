package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// fileCommands are the commands below 'shoal files'.
type fileCommands struct{ *app }

func filesCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:        "files COMMAND",
		Short:      "Look at, change and watch files in a sandbox",
		GroupID:    groupInside,
		Aliases:    []string{"file", "fs"},
		SuggestFor: []string{"stat", "mv", "mkdir", "chmod", "chown", "ln", "watch", "cat"},
		Long: `Look at, change and watch files in a sandbox, without starting a process. Paths are absolute. 'shoal cp' copies what is in
them; with - as its SRC or DST it writes or shows a file. If one of several paths can't be had, the others are dealt with all the
same and the exit code is 125.

The files of a sandbox that has failed can be looked at, summed up and copied out, and not changed.`,
		Example: `  shoal files ls lab /home/user --depth 3
  shoal files sum lab /home/user/data.csv
  shoal files watch -r lab /home/user`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	f := fileCommands{a}
	c.AddCommand(f.ls(), f.stat(), f.rm(), f.mkdir(), f.mv(), f.chmod(), f.chown(), f.ln(), f.sum(), f.xattr(), f.append(), f.watch())
	for _, sub := range c.Commands() {
		sub.ValidArgsFunction = a.complete().sandboxes(1)
	}
	return c
}

// on runs something on the files of a sandbox and says which sandbox isn't there, if that is what is wrong.
func (f fileCommands) on(c *cobra.Command, sandbox string, do func(ctx context.Context, files shoal.Files) error) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	return withinSandbox(c.Context(), client, sandbox, do(c.Context(), client.Files(sandbox)))
}

// every does something to each path, and reports all failures, by path if there are several.
func (f fileCommands) every(c *cobra.Command, sandbox string, paths []string, do func(ctx context.Context, files shoal.Files, path string) error) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	var (
		failed []string
		last   error
	)
	for _, p := range paths {
		last = withinSandbox(c.Context(), client, sandbox, do(c.Context(), client.Files(sandbox), p))
		switch {
		case last == nil:
		case len(paths) == 1, unreachable(last) != "", errors.As(last, new(*notFoundError)), errors.As(last, new(*exitError)):
			return last // So it would be for the others.
		default:
			failed = append(failed, printable(p)+": "+explain(last))
		}
	}
	if len(failed) > 0 {
		return severalError(failed)
	}
	return nil
}

// each is every for what returns a file, and prints those.
func (f fileCommands) each(c *cobra.Command, sandbox string, paths []string, do func(ctx context.Context, files shoal.Files, path string) (shoal.FileInfo, error)) error {
	list := []shoal.FileInfo{}
	err := f.every(c, sandbox, paths, func(ctx context.Context, files shoal.Files, p string) error {
		info, err := do(ctx, files, p)
		if err == nil {
			list = append(list, info)
		}
		return err
	})
	if f.json() && (err == nil || len(list) > 0) {
		return errors.Join(f.printJSON(list), err)
	}
	return err
}

// done does something to each path that returns nothing, and prints of each what came of it with -o json.
func (f fileCommands) done(c *cobra.Command, sandbox string, paths []string, do func(ctx context.Context, files shoal.Files, path string) error) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	return each(f.app, "path", paths, func(p string) error {
		return withinSandbox(c.Context(), client, sandbox, do(c.Context(), client.Files(sandbox), p))
	})
}

func (f fileCommands) ls() *cobra.Command {
	depth := 1
	c := &cobra.Command{
		Use:   "ls SANDBOX PATH",
		Short: "List a directory",
		Long: `List a directory in the byte order of its names, and with --depth what is below it. Links are not gone into. Owners are names
where the sandbox has them. With -o json each line is one file.`,
		Example: `  shoal files ls lab /home/user
  shoal files ls lab / --depth 2 -o json | jq -r .path`,
		RunE: func(c *cobra.Command, args []string) error {
			if depth < 1 || depth > 1000 {
				return usage(c, "--depth is 1 to 1000")
			}
			return f.on(c, args[0], func(ctx context.Context, files shoal.Files) error {
				list := files.List(ctx, args[1])
				if depth > 1 {
					list = files.Walk(ctx, args[1], depth)
				}
				t := newTable(f.out, "MODE", "OWNER", "GROUP", "SIZE", "MODIFIED", "NAME")
				shown := false
				for info, err := range list {
					if err == nil && f.json() {
						err = f.printLine(info)
					}
					if err != nil && !shown {
						return err // A heading alone would look like an empty directory.
					}
					if err != nil {
						return errors.Join(err, t.flush())
					}
					shown = true
					if !f.json() {
						t.row(fileRow(info, strings.TrimPrefix(strings.TrimPrefix(info.PathBytes(), strings.TrimRight(args[1], "/")), "/"))...)
					}
				}
				if f.json() {
					return nil
				}
				return t.flush()
			})
		},
	}
	c.Flags().IntVarP(&depth, "depth", "d", depth, "list so many `levels`")
	return c
}

// fileRow is a file as a line of a table.
func fileRow(info shoal.FileInfo, name string) []string {
	if info.Type == api.FileTypeSymlink {
		name += " -> " + info.TargetBytes()
	}
	return []string{
		fileKind(info.Type) + info.Mode, orID(info.Owner, info.UID), orID(info.Group, info.GID), bytesText(info.Size),
		info.ModifiedAt.Local().Format("2006-01-02 15:04"), name,
	}
}

// fileKind is the letter that ls has for a type.
func fileKind(t shoal.FileType) string {
	switch t {
	case api.FileTypeDirectory:
		return "d"
	case api.FileTypeSymlink:
		return "l"
	case api.FileTypeOther:
		return "o"
	case api.FileTypeFile:
	}
	return "-"
}

func orID(name string, id int) string {
	if name != "" {
		return name
	}
	return fmt.Sprint(id)
}

func (f fileCommands) stat() *cobra.Command {
	var xattrs bool
	c := &cobra.Command{
		Use:   "stat SANDBOX PATH…",
		Short: "Describe files",
		Long:  `Describe files: type, size, mode, owner, time. A symbolic link is described itself; --xattrs shows the attributes of what it leads to.`,
		Example: `  shoal files stat lab /etc/passwd
  shoal files stat lab /home/user/data.csv --xattrs -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			list := []shoal.FileInfo{}
			err := f.each(c, args[0], args[1:], func(ctx context.Context, files shoal.Files, p string) (shoal.FileInfo, error) {
				stat := files.Stat
				if xattrs {
					stat = files.StatXattrs
				}
				info, err := stat(ctx, p)
				if err == nil {
					list = append(list, info)
				}
				return info, err
			})
			if f.json() {
				return err
			}
			return errors.Join(f.printFiles(list), err)
		},
	}
	c.Flags().BoolVar(&xattrs, "xattrs", false, "show the extended attributes that begin with user., too")
	return c
}

func (f fileCommands) printFiles(list []shoal.FileInfo) error {
	t := newTable(f.out)
	for i, info := range list {
		if i > 0 {
			t.row("")
		}
		rows := [][2]string{
			{"path", info.PathBytes()},
			{"type", string(info.Type)},
			{"target", info.TargetBytes()},
			{"size", fmt.Sprintf("%d", info.Size)},
			{"mode", info.Mode},
			{"owner", fmt.Sprintf("%s (%d)", orID(info.Owner, info.UID), info.UID)},
			{"group", fmt.Sprintf("%s (%d)", orID(info.Group, info.GID), info.GID)},
			{"modified", info.ModifiedAt.Local().Format(time.RFC3339Nano)},
		}
		for _, x := range info.Xattrs {
			rows = append(rows, [2]string{string(api.Join(x.Name, x.NameRaw)), fmt.Sprintf("%q", x.Value)})
		}
		for _, r := range rows {
			if r[1] != "" {
				t.row(r[0], r[1])
			}
		}
	}
	return t.flush()
}

func (f fileCommands) rm() *cobra.Command {
	var recursive bool
	c := &cobra.Command{
		Use: "rm SANDBOX PATH…", Aliases: []string{"remove", "delete"},
		Short:   "Remove files",
		Long:    `Remove files, links themselves and empty directories; with -r directories with all that is in them.`,
		Example: `  shoal files rm -r lab /home/user/build`,
		RunE: func(c *cobra.Command, args []string) error {
			return f.done(c, args[0], args[1:], func(ctx context.Context, files shoal.Files, p string) error {
				return files.Remove(ctx, p, recursive)
			})
		},
	}
	c.Flags().BoolVarP(&recursive, "recursive", "r", false, "remove directories with what is in them")
	return c
}

func (f fileCommands) mkdir() *cobra.Command {
	var (
		o    shoal.WriteOptions
		mode fileMode
	)
	c := &cobra.Command{
		Use:   "mkdir SANDBOX PATH…",
		Short: "Make directories",
		Long:  `Make directories; with -p also those above them, and one that is there already is fine then.`,
		Example: `  shoal files mkdir -p lab /home/user/out/charts
  shoal files mkdir --mode 0700 --user root lab /srv/keys`,
		RunE: func(c *cobra.Command, args []string) error {
			if mode.set {
				o.Mode = mode.bits
			}
			return f.done(c, args[0], args[1:], func(ctx context.Context, files shoal.Files, p string) error {
				return files.Mkdir(ctx, p, o)
			})
		},
	}
	c.Flags().BoolVarP(&o.Parents, "parents", "p", false, "make those above that are missing")
	c.Flags().StringVarP(&o.User, "user", "u", "", "the `USER` who owns them: name or number, optionally :group (default: the template's)")
	c.Flags().VarP(&mode, "mode", "m", "permission bits in `OCTAL` (default 0755)")
	return c
}

func (f fileCommands) mv() *cobra.Command {
	return &cobra.Command{
		Use: "mv SANDBOX FROM TO", Aliases: []string{"move", "rename"},
		Short:   "Move or rename a file",
		Long:    `Move or rename a file or directory inside a sandbox. TO is its new path, also if there is a directory; a file at TO is replaced.`,
		Example: `  shoal files mv lab /home/user/a.txt /home/user/b.txt`,
		RunE: func(c *cobra.Command, args []string) error {
			return resultOfCopy(args[1], args[2]).one(f.app, f.on(c, args[0], func(ctx context.Context, files shoal.Files) error {
				return files.Move(ctx, args[1], args[2])
			}))
		},
	}
}

func (f fileCommands) sum() *cobra.Command {
	algorithm := "sha256"
	c := &cobra.Command{
		Use: "sum SANDBOX PATH…", Aliases: []string{"checksum"},
		Short:      "Print checksums of files",
		SuggestFor: []string{"sha256sum", "md5sum"},
		Long:       `Print checksums of files, made where the files are, as sha256sum does. Links are followed.`,
		Example: `  shoal files sum lab /home/user/data.csv
  shoal files sum --algorithm md5 lab /etc/passwd /etc/group`,
		RunE: func(c *cobra.Command, args []string) error {
			return f.every(c, args[0], args[1:], func(ctx context.Context, files shoal.Files, p string) error {
				sum, err := files.Checksum(ctx, p, algorithm)
				switch {
				case err != nil:
					return err
				case f.json():
					return f.printLine(sum)
				}
				_, err = fmt.Fprintf(f.out, "%s  %s\n", sum.Digest, printable(p))
				return err
			})
		},
	}
	c.Flags().StringVarP(&algorithm, "algorithm", "a", algorithm, "`NAME`: sha256, sha512, sha1 or md5")
	_ = c.RegisterFlagCompletionFunc("algorithm", cobra.FixedCompletions([]string{"sha256", "sha512", "sha1", "md5"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (f fileCommands) append() *cobra.Command {
	var o shoal.WriteOptions
	c := &cobra.Command{
		Use:   "append SANDBOX PATH",
		Short: "Add our input to the end of a file",
		Long: `Add our input to the end of a file, which stays the same file. One that isn't there is made. All of it is added, or nothing
if it breaks off.`,
		Example: `  date | shoal files append lab /home/user/log.txt`,
		RunE: func(c *cobra.Command, args []string) error {
			o.Append = true
			return f.each(c, args[0], args[1:], func(ctx context.Context, files shoal.Files, p string) (shoal.FileInfo, error) {
				return files.Write(ctx, p, struct{ io.Reader }{f.in}, o)
			})
		},
	}
	c.Flags().BoolVarP(&o.Parents, "parents", "p", false, "make directories above that are missing")
	c.Flags().StringVarP(&o.User, "user", "u", "", "the `USER` who owns a file that is made: name or number, optionally :group (default: the template's)")
	return c
}
