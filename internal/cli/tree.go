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
	"strconv"
	"strings"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// entry is one file of a tree.
type entry struct {
	name string
	kind shoal.FileType
	mode uint32
}

// tree is a place that files are copied from or to: this machine or a sandbox.
type tree interface {
	// stat describes what a path names; fs.ErrNotExist if nothing.
	stat(ctx context.Context, path string) (entry, error)
	// list returns the entries of a directory. Their names may come from a sandbox: see checkName.
	list(ctx context.Context, path string) ([]entry, error)
	open(ctx context.Context, path string) (io.ReadCloser, error)
	// write makes or replaces a whole file.
	write(ctx context.Context, path string, mode uint32, r io.Reader) error
	// mkdir makes a directory; one that exists is no error.
	mkdir(ctx context.Context, path string, mode uint32) error
	join(dir, name string) string
	// label says what a path is in words.
	label(path string) string
}

// localTree is this machine's files, as the user who runs us.
type localTree struct{ a *app }

func (a *app) local() tree { return localTree{a} }

func (t localTree) stat(_ context.Context, name string) (entry, error) {
	info, err := os.Stat(name)
	if err != nil {
		return entry{}, err
	}
	return localEntry(info), nil
}

func localEntry(info fs.FileInfo) entry {
	e := entry{name: info.Name(), mode: uint32(info.Mode().Perm()), kind: api.FileTypeOther}
	switch {
	case info.Mode().IsRegular():
		e.kind = api.FileTypeFile
	case info.IsDir():
		e.kind = api.FileTypeDirectory
	case info.Mode().Type() == fs.ModeSymlink:
		e.kind = api.FileTypeSymlink
	}
	return e
}

func (t localTree) list(_ context.Context, name string) ([]entry, error) {
	found, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var list []entry
	for _, f := range found {
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // It went away meanwhile.
		}
		if err != nil {
			return nil, err
		}
		list = append(list, localEntry(info))
	}
	return list, nil
}

func (t localTree) open(_ context.Context, name string) (io.ReadCloser, error) {
	if name == stdio {
		return io.NopCloser(t.a.in), nil
	}
	return os.Open(name)
}

func (t localTree) write(_ context.Context, name string, mode uint32, r io.Reader) (err error) {
	if name == stdio {
		_, err := io.Copy(t.a.out, r)
		return err
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0) // A device or pipe, such as /dev/null.
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		return errors.Join(err, f.Close())
	}
	// Written beside its place and renamed, so that a broken copy leaves the old file.
	f, err := os.CreateTemp(filepath.Dir(name), ".shoal-cp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = io.Copy(f, r)
	err = errors.Join(err, f.Chmod(fs.FileMode(mode).Perm()), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func (t localTree) mkdir(_ context.Context, name string, mode uint32) error {
	err := os.Mkdir(name, fs.FileMode(mode).Perm()|0o700)
	if info, serr := os.Lstat(name); errors.Is(err, fs.ErrExist) && serr == nil && info.IsDir() {
		return nil
	}
	return err
}

func (t localTree) join(dir, name string) string { return filepath.Join(dir, name) }
func (t localTree) label(name string) string     { return name }

// remoteTree is a sandbox's files.
type remoteTree struct {
	files   shoal.Files
	sandbox string
}

func remote(c *shoal.Client, sandbox string) tree {
	return remoteTree{c.Files(sandbox), sandbox}
}

func (t remoteTree) stat(ctx context.Context, name string) (entry, error) {
	info, err := t.files.Stat(ctx, path.Clean(name))
	var e *shoal.Error
	if errors.As(err, &e) && e.Code == shoal.CodeNotFound && e.Field == "path" {
		return entry{}, fs.ErrNotExist
	}
	if err != nil {
		return entry{}, err
	}
	return remoteEntry(info)
}

func remoteEntry(info shoal.FileInfo) (entry, error) {
	mode, err := strconv.ParseUint(info.Mode, 8, 32)
	if err != nil {
		return entry{}, fmt.Errorf("the server reports the mode %q", info.Mode)
	}
	return entry{name: info.NameBytes(), kind: info.Type, mode: uint32(mode) & 0o777}, nil
}

func (t remoteTree) list(ctx context.Context, name string) ([]entry, error) {
	var list []entry
	for info, err := range t.files.List(ctx, path.Clean(name)) {
		if err != nil {
			return nil, err
		}
		e, err := remoteEntry(info)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func (t remoteTree) open(ctx context.Context, name string) (io.ReadCloser, error) {
	return t.files.Read(ctx, path.Clean(name))
}

func (t remoteTree) write(ctx context.Context, name string, mode uint32, r io.Reader) error {
	// Only a reader: the HTTP client would close what can be closed, and that is its opener's.
	_, err := t.files.Write(ctx, path.Clean(name), struct{ io.Reader }{r}, shoal.WriteOptions{Mode: mode, Parents: true})
	return err
}

func (t remoteTree) mkdir(ctx context.Context, name string, mode uint32) error {
	return t.files.Mkdir(ctx, path.Clean(name), shoal.WriteOptions{Mode: mode | 0o700, Parents: true})
}

func (t remoteTree) join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }
func (t remoteTree) label(name string) string     { return t.sandbox + ":" + name }

// copy copies a file or directory from one tree to another.
func (a *app) copy(ctx context.Context, src tree, from string, dst tree, to string) error {
	if _, local := src.(localTree); local && from == stdio {
		return a.copyStdin(ctx, dst, to)
	}
	e, err := src.stat(ctx, from)
	if err != nil {
		return notThere(src, from, err)
	}
	if _, local := dst.(localTree); !local || to != stdio {
		if to, err = target(ctx, dst, to, path.Base(filepath.ToSlash(filepath.Clean(from))), e); err != nil {
			return err
		}
	} else if e.kind == api.FileTypeDirectory {
		return fmt.Errorf("%s is a directory and can't be written to our output", src.label(from))
	}
	if e.kind == api.FileTypeDirectory && sameTree(src, dst) && within(to, from) {
		return fmt.Errorf("%s can't be copied into itself, %s", src.label(from), dst.label(to))
	}
	return a.copyEntry(ctx, src, from, dst, to, e)
}

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
	if err == nil && e.kind == api.FileTypeDirectory || strings.HasSuffix(to, "/") {
		return fmt.Errorf("%s is a directory: our input has no name, so give the file one", dst.label(to))
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

// copyEntry copies one file, or a directory with what is in it.
func (a *app) copyEntry(ctx context.Context, src tree, from string, dst tree, to string, e entry) error {
	switch e.kind {
	case api.FileTypeFile:
		return copyFile(ctx, src, from, dst, to, e.mode)
	case api.FileTypeSymlink:
		fmt.Fprintf(a.err, "shoal: left out %s: it is a symbolic link\n", printable(src.label(from)))
		return nil
	case api.FileTypeOther:
		fmt.Fprintf(a.err, "shoal: left out %s: it is neither a file nor a directory\n", printable(src.label(from)))
		return nil
	case api.FileTypeDirectory:
	}
	// The list comes first: a directory that is copied below itself by another name must not grow while it is read.
	list, err := src.list(ctx, from)
	if err != nil {
		return labelled(src.label(from), err)
	}
	if err := dst.mkdir(ctx, to, e.mode); err != nil {
		return labelled(dst.label(to), err)
	}
	for _, child := range list {
		if err := checkName(child.name); err != nil {
			return fmt.Errorf("%s: %w", src.label(from), err)
		}
		if err := a.copyEntry(ctx, src, src.join(from, child.name), dst, dst.join(to, child.name), child); err != nil {
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

func copyFile(ctx context.Context, src tree, from string, dst tree, to string, mode uint32) error {
	r, err := src.open(ctx, from)
	if err != nil {
		return notThere(src, from, err)
	}
	if err := dst.write(ctx, to, mode, r); err != nil {
		return errors.Join(labelled(dst.label(to), err), r.Close())
	}
	return r.Close()
}

func notThere(t tree, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: there is no such file or directory", t.label(name))
	}
	return labelled(t.label(name), err)
}

// labelled says what an error is about, in the words that explain has for it.
func labelled(label string, err error) error {
	if unreachable(err) != "" {
		return err
	}
	return fmt.Errorf("%s: %s", label, explain(err))
}
