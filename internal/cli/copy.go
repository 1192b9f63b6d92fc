package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// copy copies a file or directory from one tree to another.
func (a *app) copy(ctx context.Context, src tree, from string, dst tree, to string) error {
	if _, local := src.(localTree); local && from == stdio {
		return a.copyStdin(ctx, dst, to)
	}
	e, err := src.stat(ctx, from)
	if err != nil {
		return notThere(src, from, err)
	}
	if err := copyable(src.label(from), e); err != nil {
		return err
	}
	if _, local := dst.(localTree); !local || to != stdio {
		if to, err = target(ctx, dst, to, path.Base(filepath.ToSlash(filepath.Clean(from))), e); err != nil {
			return err
		}
	}
	if e.kind == api.FileTypeDirectory && sameTree(src, dst) && within(to, from) {
		return fmt.Errorf("%s can't be copied into itself, %s", src.label(from), dst.label(to))
	}
	c := copier{src: src, dst: dst, transfers: newTransfers(), pace: newPace(), err: a.err}
	stop := func() {}
	if to != stdio {
		stop = c.meter.show(newProgress(a.err))
	}
	err = c.all(ctx, from, to, e, a.out)
	if terr := c.transfers.wait(); terr != nil {
		err = terr // It was begun before the walk has come to its own end.
	}
	stop()
	c.left.report(a.err)
	return err
}

// all copies what was asked for. A directory goes as one stream, if the sandbox's guest agent is new enough for that.
func (c *copier) all(ctx context.Context, from, to string, e entry, out io.Writer) error {
	if e.kind == api.FileTypeDirectory {
		src, remote := c.src.(remoteTree)
		if remote && to == stdio {
			return c.copyTarOut(ctx, src, from, out)
		}
		if err := c.copyTree(ctx, from, to); shoal.ErrorCode(err) != shoal.CodeUnsupported {
			return err
		}
	}
	return c.entry(ctx, from, to, e)
}

// copyable refuses what is asked for by name and can't be copied; in a directory it would only be left out.
func copyable(label string, e entry) error {
	switch e.kind {
	case api.FileTypeSymlink:
		if e.target == "" {
			return fmt.Errorf("%s is a symbolic link, which isn't followed in a sandbox: name what it points to", label)
		}
		return fmt.Errorf("%s is a symbolic link to %s, which isn't followed in a sandbox: name that file", label, e.target)
	case api.FileTypeOther:
		return fmt.Errorf("%s is neither a file nor a directory; what a pipe brings is copied with - as SRC", label)
	case api.FileTypeFile, api.FileTypeDirectory:
	}
	return nil
}

// copier copies from one tree to another and remembers what it left out.
type copier struct {
	src, dst  tree
	left      leftOut
	transfers *transfers
	pace      pace
	meter     meter

	telling sync.Mutex // guards err
	err     io.Writer
}

// errStopped ends a walk once a transfer has failed, whose error is the one to report.
var errStopped = errors.New("a file could not be copied")

// sameTree reports whether two trees are the same files.
func sameTree(a, b tree) bool {
	switch a := a.(type) {
	case localTree:
		_, same := b.(localTree)
		return same
	case remoteTree:
		other, same := b.(remoteTree)
		return same && a.sandbox == other.sandbox
	}
	return false
}

// within reports whether a path is a directory or below it, by their names.
func within(name, dir string) bool {
	name, dir = path.Clean(filepath.ToSlash(name)), path.Clean(filepath.ToSlash(dir))
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// defaultMode is the mode of a file that comes from our input.
const defaultMode = 0o644

func (a *app) copyStdin(ctx context.Context, dst tree, to string) error {
	e, err := dst.stat(ctx, to)
	if remote, ok := dst.(remoteTree); ok && (err == nil && e.kind == api.FileTypeDirectory || strings.HasSuffix(to, "/")) {
		c := copier{dst: dst}
		err := c.copyTarIn(ctx, a.in, remote, to)
		c.left.report(a.err)
		return err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return dst.write(ctx, to, defaultMode, a.in)
}

// target returns where the copy goes: into a directory under the source's name, or the path itself.
func target(ctx context.Context, dst tree, to, name string, e entry) (string, error) {
	there, err := dst.stat(ctx, to)
	switch {
	case err == nil && there.kind == api.FileTypeDirectory, err == nil && there.kind == api.FileTypeSymlink && strings.HasSuffix(to, "/"):
		if name == "." || name == ".." || name == "/" {
			return to, nil
		}
		return dst.join(to, name), nil
	case err == nil && e.kind == api.FileTypeDirectory:
		return "", fmt.Errorf("%s is not a directory", dst.label(to))
	case err == nil:
		return to, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case strings.HasSuffix(to, "/") && e.kind != api.FileTypeDirectory:
		if err := dst.mkdir(ctx, to, 0o755); err != nil {
			return "", err
		}
		return dst.join(to, name), nil
	}
	return strings.TrimSuffix(to, "/"), nil
}

// entry begins to copy one file, or a directory with what is in it.
func (c *copier) entry(ctx context.Context, from, to string, e entry) error {
	src, dst := c.src, c.dst
	switch e.kind {
	case api.FileTypeFile:
		if !c.transfers.begin(ctx, func(ctx context.Context) error { return c.file(ctx, from, to, e) }) {
			return errStopped
		}
		return nil
	case api.FileTypeSymlink:
		c.left.add(src.label(from), "it is a symbolic link")
		return nil
	case api.FileTypeOther:
		c.left.add(src.label(from), "it is neither a file nor a directory")
		return nil
	case api.FileTypeDirectory:
	}
	// The list comes first: a directory that is copied below itself by another name must not grow while it is read.
	list, err := src.list(ctx, from)
	if err != nil {
		return labelled(src.label(from), err)
	}
	if err := c.pace.call(ctx, func() error { return dst.mkdir(ctx, to, e.mode) }); err != nil {
		return labelled(dst.label(to), err)
	}
	for _, child := range list {
		if err := checkName(child.name); err != nil {
			return fmt.Errorf("%s: %w", src.label(from), err)
		}
		if err := c.entry(ctx, src.join(from, child.name), dst.join(to, child.name), child); err != nil {
			return err
		}
	}
	return nil
}

// checkName refuses names that would lead out of the directory they are in: a sandbox may answer anything.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("the directory has an entry with the impossible name %q", name)
	}
	return nil
}

// file copies one file. It is read again from its beginning where the server only wants fewer calls.
func (c *copier) file(ctx context.Context, from, to string, e entry) error {
	what := c.src.label(from)
	err := c.pace.call(ctx, func() error {
		r, err := c.src.open(ctx, from, c.resume(from, e.size))
		if err != nil {
			return err
		}
		what = c.dst.label(to)
		if err := c.write(ctx, r, from, to, e); err != nil {
			return errors.Join(err, r.Close())
		}
		return r.Close()
	})
	switch {
	case err == nil:
		c.meter.files.Add(1)
		return nil
	case what == c.src.label(from):
		return notThere(c.src, from, err)
	}
	return labelled(what, err)
}

// largeFile is from which size on a file goes up so that it can go on if it breaks off; a smaller one is sent again as quickly.
const largeFile = 8 << 20

// write writes one file from r.
func (c *copier) write(ctx context.Context, r io.Reader, from, to string, e entry) error {
	dst, remote := c.dst.(remoteTree)
	f, local := r.(*os.File)
	if remote && local && e.size >= largeFile {
		return dst.upload(ctx, to, e, c.meter.countAt(f), c.resume(from, e.size))
	}
	return c.dst.write(ctx, to, e.mode, c.meter.count(r))
}

// resume has a transfer that breaks off go on, and says so.
func (c *copier) resume(from string, size int64) shoal.Resume {
	return shoal.Resume{Resumed: func(at int64, _ error) {
		line := fmt.Sprintf("shoal: %s: the connection broke, going on at %s of %s", printable(c.src.label(from)), bytesText(at), bytesText(size))
		if isTerminal(c.err) {
			line = "\r\x1b[K" + line // over how far it is
		}
		c.telling.Lock()
		defer c.telling.Unlock()
		fmt.Fprintln(c.err, line)
	}}
}

func notThere(t tree, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: there is no such file or directory", t.label(name))
	}
	return labelled(t.label(name), err)
}

// labelled says what an error is about, in the words that explain has for it.
func labelled(label string, err error) error {
	if unreachable(err) != "" || errors.As(err, new(*notFoundError)) {
		return err
	}
	return fmt.Errorf("%s: %s", label, explain(bare(err)))
}

// bare takes the system call and the path off an error of this machine's files: the label names the one that people know,
// and the path may be that of a temporary file.
func bare(err error) error {
	var (
		at   *fs.PathError
		link *os.LinkError
	)
	switch {
	case errors.As(err, &at):
		return at.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

const (
	// leftOutFull is how many files that are left out are all named; of more only the first few are.
	leftOutFull = 9
	leftOutFew  = 3
)

// leftOut is what a copy can't hold.
type leftOut struct {
	lines []string
	more  int
}

func (l *leftOut) add(label, why string) {
	if len(l.lines) >= leftOutFull {
		l.more++
		return
	}
	l.lines = append(l.lines, fmt.Sprintf("shoal: left out %s: %s\n", printable(label), why))
}

// uncounted adds what is left out and has no name.
func (l *leftOut) uncounted(n int64) { l.more += int(n) }

func (l *leftOut) report(w io.Writer) {
	if l.more > 0 {
		few := min(leftOutFew, len(l.lines))
		l.more += len(l.lines) - few
		l.lines = append(l.lines[:few], fmt.Sprintf("shoal: left out %d more that can't be kept there\n", l.more))
	}
	for _, line := range l.lines {
		_, _ = io.WriteString(w, line)
	}
}
