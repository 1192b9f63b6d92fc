package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/files"
)

// maxStatus bounds how much of a list of packages is read, and maxPackages how many are kept of it: whoever wrote it is a stranger.
const (
	maxStatus   = 64 << 20
	maxPackages = 20_000
	maxPackage  = 256
)

// Clean takes out of a copy of a sandbox's tree what is that machine's own: its identity, its SSH host keys, what lies in /run, /tmp and
// /var/tmp, and files that were just being written by the API. It returns the Debian packages that the tree says it has.
//
// The tree is hostile, and nobody else writes it: no link is followed on the way to what is removed, and nothing outside is reached.
func Clean(ctx context.Context, dir string, ownerUID int) ([]core.Package, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the tree: %w", err)
	}
	defer func() { _ = root.Close() }()
	t := tree{root: root, ownerUID: ownerUID}
	for _, name := range []string{"run", "tmp", "var/tmp"} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !t.plain(name, fs.ModeDir) {
			continue // What is a link elsewhere is not ours to empty.
		}
		if err := t.emptyHostile(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := t.dropHalfWritten(ctx); err != nil {
		return nil, err
	}
	for _, name := range []string{"etc/hostname", "var/lib/dbus/machine-id"} {
		if err := t.drop(name); err != nil {
			return nil, err
		}
	}
	// Empty says "not yet set": each sandbox gets its own.
	if t.plain("etc/machine-id", 0) {
		if err := t.write("etc/machine-id", ""); err != nil {
			return nil, err
		}
	}
	if err := t.dropHostKeys(); err != nil {
		return nil, err
	}
	return t.packages()
}

// plain reports whether there is something of a type at the end of a way without links.
func (t tree) plain(name string, kind fs.FileMode) bool {
	for at := name; at != "."; at = path.Dir(at) {
		info, err := t.root.Lstat(at)
		want := fs.ModeDir
		if at == name {
			want = kind
		}
		if err != nil || info.Mode().Type() != want {
			return false
		}
	}
	return true
}

// emptyHostile removes all that is in a directory that nobody has looked at: it may nest deeper than there are files to open.
func (t tree) emptyHostile(ctx context.Context, name string) error {
	d, err := t.root.Open(name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = d.Close() }()
	if err := removeBelow(ctx, int(d.Fd()), 0); err != nil {
		return fmt.Errorf("empty %s: %w", name, err)
	}
	return nil
}

// removeBelow removes all that is in the directory fd.
func removeBelow(ctx context.Context, fd, depth int) error {
	if depth > maxDepth {
		return tooMuch("the tree's directories nest deeper than %d", maxDepth)
	}
	names, err := readNames(fd)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := unix.Unlinkat(fd, name, 0)
		if err == nil || errors.Is(err, unix.ENOENT) {
			continue
		}
		if !errors.Is(err, unix.EISDIR) {
			return err
		}
		child, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		err = removeBelow(ctx, child, depth+1)
		_ = unix.Close(child)
		if err == nil {
			err = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropHalfWritten removes files that have not come whole, wherever they are.
func (t tree) dropHalfWritten(ctx context.Context) error {
	d, err := t.root.Open(".")
	if err != nil {
		return fmt.Errorf("open the tree: %w", err)
	}
	defer func() { _ = d.Close() }()
	if err := dropHalfWritten(ctx, int(d.Fd()), 0); err != nil {
		return fmt.Errorf("remove files that are not whole: %w", err)
	}
	return nil
}

// dropHalfWritten does so below the directory fd.
func dropHalfWritten(ctx context.Context, fd, depth int) error {
	if depth > maxDepth {
		return tooMuch("the tree's directories nest deeper than %d", maxDepth)
	}
	names, err := readNames(fd)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case kind == unix.S_IFREG && files.Temporary(name):
			if err := unix.Unlinkat(fd, name, 0); err != nil {
				return err
			}
		case kind == unix.S_IFDIR:
			child, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			err = dropHalfWritten(ctx, child, depth+1)
			_ = unix.Close(child)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// drop removes a regular file.
func (t tree) drop(name string) error {
	if !t.plain(name, 0) {
		return nil
	}
	if err := t.root.Remove(name); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// dropHostKeys removes the keys by which an SSH server is known.
func (t tree) dropHostKeys() error {
	const dir = "etc/ssh"
	if !t.plain(dir, fs.ModeDir) {
		return nil
	}
	d, err := t.root.Open(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close()
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, name := range names {
		for _, pattern := range []string{"ssh_host_*_key", "ssh_host_*_key.pub"} {
			if ours, _ := path.Match(pattern, name); ours {
				if err := t.drop(dir + "/" + name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// packages reads dpkg's list, if there is one.
func (t tree) packages() ([]core.Package, error) {
	const name = "var/lib/dpkg/status"
	if !t.plain(name, 0) {
		return nil, nil
	}
	f, err := t.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the list of packages: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxStatus))
	if err != nil {
		return nil, fmt.Errorf("read the list of packages: %w", err)
	}
	return boundedPackages(parseStatus(data)), nil
}

// boundedPackages keeps what can be a package's name and version, and not too many.
func boundedPackages(list []core.Package) []core.Package {
	var out []core.Package
	for _, p := range list {
		if len(out) == maxPackages {
			break
		}
		if isPrintable(p.Name) && isPrintable(p.Version) {
			out = append(out, p)
		}
	}
	return out
}

// isPrintable reports whether s is short and of visible ASCII.
func isPrintable(s string) bool {
	if len(s) > maxPackage {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
