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
	// target is what a symbolic link points to, if that is known.
	target string
	size   int64
}

// tree is a place that files are copied from or to: this machine or a sandbox.
type tree interface {
	// stat describes what a path names; fs.ErrNotExist if nothing.
	stat(ctx context.Context, path string) (entry, error)
	// list returns the entries of a directory. Their names may come from a sandbox: see checkName.
	list(ctx context.Context, path string) ([]entry, error)
	// open returns what a file holds. What breaks off goes on as resume says, where that can be.
	open(ctx context.Context, path string, resume shoal.Resume) (io.ReadCloser, error)
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
	e := entry{name: info.Name(), mode: uint32(info.Mode().Perm()), kind: api.FileTypeOther, size: info.Size()}
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

func (t localTree) open(_ context.Context, name string, _ shoal.Resume) (io.ReadCloser, error) {
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
		return cantMake(filepath.Dir(name), err)
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

// cantMake says why no file can be made in a directory; err names a temporary file that nobody knows.
func cantMake(dir string, err error) error {
	if _, serr := os.Stat(dir); errors.Is(serr, fs.ErrNotExist) {
		return fmt.Errorf("the directory %s doesn't exist", dir)
	}
	return fmt.Errorf("no file can be made in %s: %w", dir, bare(err))
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
	c       *shoal.Client
	files   shoal.Files
	sandbox string
	// prefix and suffix are around a path in words.
	prefix, suffix string
}

func remote(c *shoal.Client, sandbox string) tree {
	return remoteTree{c, c.Files(sandbox), sandbox, sandbox + ":", ""}
}

// unnamed is a sandbox whose id nobody has seen.
func unnamed(c *shoal.Client, sandbox string) tree {
	return remoteTree{c, c.Files(sandbox), sandbox, "", " in the sandbox"}
}

func (t remoteTree) stat(ctx context.Context, name string) (entry, error) {
	info, err := t.files.Stat(ctx, path.Clean(name))
	var e *shoal.Error
	if errors.As(err, &e) && e.Code == shoal.CodeNotFound && e.Field == "path" {
		return entry{}, fs.ErrNotExist
	}
	if err != nil {
		return entry{}, withinSandbox(ctx, t.c, t.sandbox, err) // Each copy begins with this.
	}
	return remoteEntry(info)
}

func remoteEntry(info shoal.FileInfo) (entry, error) {
	mode, err := strconv.ParseUint(info.Mode, 8, 32)
	if err != nil {
		return entry{}, fmt.Errorf("the server reports the mode %q", info.Mode)
	}
	return entry{name: info.NameBytes(), kind: info.Type, mode: uint32(mode) & 0o777, target: info.Target, size: info.Size}, nil
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

func (t remoteTree) open(ctx context.Context, name string, resume shoal.Resume) (io.ReadCloser, error) {
	return t.files.Download(ctx, path.Clean(name), resume)
}

func (t remoteTree) write(ctx context.Context, name string, mode uint32, r io.Reader) error {
	// Only a reader: the HTTP client would close what can be closed, and that is its opener's.
	_, err := t.files.Write(ctx, path.Clean(name), struct{ io.Reader }{r}, shoal.WriteOptions{Mode: mode, Parents: true})
	return err
}

// upload makes or replaces a whole file, and goes on if it breaks off.
func (t remoteTree) upload(ctx context.Context, name string, e entry, r io.ReaderAt, resume shoal.Resume) error {
	o := shoal.WriteOptions{Mode: e.mode, Parents: true}
	_, err := t.files.Upload(ctx, path.Clean(name), r, e.size, o, resume)
	return err
}

func (t remoteTree) mkdir(ctx context.Context, name string, mode uint32) error {
	return t.files.Mkdir(ctx, path.Clean(name), shoal.WriteOptions{Mode: mode | 0o700, Parents: true})
}

func (t remoteTree) join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }
func (t remoteTree) label(name string) string     { return t.prefix + name + t.suffix }
