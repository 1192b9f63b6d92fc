package disktest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
)

func (s *suite) create(t *testing.T, e *env) {
	t.Helper()
	for _, ref := range []disk.Ref{template("abc"), sandbox("abc"), checkpoint("abc"), sandbox("z" + strings.Repeat("9", 62))} {
		path := e.create(ref)
		if !filepath.IsAbs(path) {
			t.Errorf("path %q is not absolute", path)
		}
		e.wantFiles(path, map[string]string{})
		if st, err := os.Stat(path); err != nil || st.Mode() != fs.ModeDir|0o755 {
			t.Errorf("the root of a new tree has mode %v, %v", st.Mode(), err)
		}
		e.write(path, map[string]string{"a/b": "c"})
		if got := e.path(ref); got != path {
			t.Errorf("Path is %q, Create returned %q", got, path)
		}
		_, err := e.d.Create(t.Context(), ref)
		e.code(err, core.CodeExists)
		e.wantFiles(path, map[string]string{"a/b": "c"})
	}
}

func (s *suite) incomplete(t *testing.T, e *env) {
	t.Helper()
	ref := template("abc")
	e.wantList()
	path := e.create(ref)
	e.wantList(half(ref))
	e.write(path, map[string]string{"f": "text"})
	e.ok(e.d.Freeze(t.Context(), ref))
	e.wantList(frozen(ref))
	e.wantFiles(e.path(ref), map[string]string{"f": "text"})
	e.ok(e.d.Freeze(t.Context(), ref))
	e.wantList(frozen(ref))
	_, err := e.d.Create(t.Context(), ref)
	e.code(err, core.CodeExists)
}

func (s *suite) immutable(t *testing.T, e *env) {
	t.Helper()
	ref := template("abc")
	made := e.create(ref)
	e.write(made, map[string]string{"f": "text", "d/g": "text"})
	e.ok(os.Chmod(filepath.Join(made, "f"), 0o666))
	e.ok(e.d.Freeze(t.Context(), ref))
	root := e.path(ref)
	in := func(name string) string { return filepath.Join(root, name) }
	attempts := map[string]func() error{
		"write":         func() error { return os.WriteFile(in("f"), []byte("changed"), 0o644) },
		"write deep":    func() error { return os.WriteFile(in("d/g"), []byte("changed"), 0o644) },
		"append":        func() error { _, err := os.OpenFile(in("f"), os.O_WRONLY|os.O_APPEND, 0); return err },
		"truncate":      func() error { return os.Truncate(in("f"), 1) },
		"new file":      func() error { return os.WriteFile(in("new"), nil, 0o644) },
		"new deep file": func() error { return os.WriteFile(in("d/new"), nil, 0o644) },
		"mkdir":         func() error { return os.Mkdir(in("newdir"), 0o755) },
		"symlink":       func() error { return os.Symlink("f", in("d/link")) },
		"rename":        func() error { return os.Rename(in("f"), in("h")) },
		"remove":        func() error { return os.Remove(in("f")) },
		"remove deep":   func() error { return os.Remove(in("d/g")) },
	}
	s.attempt(t, func() {
		for name, try := range attempts {
			if try() == nil {
				t.Errorf("%s succeeded in a frozen tree", name)
			}
		}
	})
	e.wantFiles(root, map[string]string{"f": "text", "d/g": "text"})
}

// cloneFiles compares a tree with all that a file system has and its clone.
func (s *suite) cloneFiles(t *testing.T, e *env) {
	t.Helper()
	ref := template("abc")
	root := e.create(ref)
	fill(e, root)
	before := listing(e, root)
	e.ok(e.d.Freeze(t.Context(), ref))
	clone := e.clone(ref, sandbox("abc"))
	if diff := cmp.Diff(before, listing(e, clone)); diff != "" {
		t.Errorf("clone (-source +clone):\n%s", diff)
	}
	if got := e.path(sandbox("abc")); got != clone {
		t.Errorf("Path is %q, Clone returned %q", got, clone)
	}
	e.wantList(frozen(ref), writable(sandbox("abc")))
}

func fill(e *env, root string) {
	e.t.Helper()
	in := func(name string) string { return filepath.Join(root, name) }
	deep := strings.TrimSuffix(strings.Repeat("d/", 200), "/")
	e.write(root, map[string]string{
		"plain": "text", "empty": "", "with space": "1", "new\nline": "2", "not utf-8 \xff\xfe": "3",
		strings.Repeat("n", 255): "4", deep + "/leaf": "5", "big": strings.Repeat("0123456789abcdef", 1<<16),
	})
	e.ok(os.Mkdir(in("empty dir"), 0o750))
	e.ok(os.Symlink("plain", in("link")))
	e.ok(os.Symlink("/nowhere/at all", in("dangling")))
	e.ok(os.Link(in("plain"), in("hard")))
	e.ok(os.WriteFile(in("read only"), []byte("6"), 0o400))
	e.ok(os.WriteFile(in("setuid"), []byte("7"), 0o755))
	e.ok(os.Chmod(in("setuid"), 0o755|fs.ModeSetuid))
	e.ok(os.Mkdir(in("sticky"), 0o777))
	e.ok(os.Chmod(in("sticky"), 0o777|fs.ModeSticky))
	e.ok(unix.Mkfifo(in("fifo"), 0o600))
	e.ok(os.Truncate(in("empty"), 5<<30)) // sparse
	if err := unix.Setxattr(in("plain"), "user.test", []byte("value"), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
		e.t.Fatalf("setxattr: %v", err)
	}
	e.ok(os.Chtimes(in("plain"), time.Unix(1e9, 5), time.Unix(1e9, 7)))
	if os.Geteuid() == 0 {
		e.ok(os.Lchown(in("link"), 1_000_000, 1_000_001))
		e.ok(os.Lchown(in("with space"), 1_001_000, 1_001_000))
	}
	e.ok(os.Chmod(root, 0o751))
}

// listing describes every file below root, root itself included.
func listing(e *env, root string) map[string]string {
	e.t.Helper()
	list := map[string]string{}
	e.ok(filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("mode %o owner %d:%d", st.Mode, st.Uid, st.Gid)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			line += fmt.Sprintf(" size %d links %d mtime %d.%09d", st.Size, st.Nlink, st.Mtim.Sec, st.Mtim.Nsec)
			if st.Size < 1<<21 {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				line += " text " + string(b)
			}
			value := make([]byte, 16)
			if n, err := unix.Getxattr(path, "user.test", value); err == nil {
				line += " xattr " + string(value[:n])
			}
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " target " + target
		}
		list[strings.TrimPrefix(path, root)] = line
		return nil
	}))
	return list
}

func (s *suite) independent(t *testing.T, e *env) {
	t.Helper()
	base := map[string]string{"f": "old", "d/g": "old", "gone": "old"}
	ref := e.template("abc", base)
	a, b := e.clone(ref, sandbox("a")), e.clone(ref, sandbox("b"))
	e.write(a, map[string]string{"f": "new in a", "only": "a"})
	e.ok(os.Remove(filepath.Join(a, "gone")))
	e.write(b, map[string]string{"d/g": "new in b"})
	e.wantFiles(e.path(ref), base)
	e.wantFiles(a, map[string]string{"f": "new in a", "d/g": "old", "only": "a"})
	e.wantFiles(b, map[string]string{"f": "old", "d/g": "new in b", "gone": "old"})
	e.wantFiles(e.clone(ref, sandbox("c")), base)
}

func (s *suite) cloneRefusals(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	ref := e.template("abc", map[string]string{"f": "x"})
	half := template("half")
	e.create(half)
	taken := e.clone(ref, sandbox("taken"))
	e.write(taken, map[string]string{"mine": "y"})

	_, err := e.d.Clone(ctx, half, sandbox("a"), disk.CloneOptions{})
	e.code(err, core.CodeConflict)
	_, err = e.d.Clone(ctx, sandbox("taken"), sandbox("a"), disk.CloneOptions{})
	e.code(err, core.CodeConflict)
	_, err = e.d.Clone(ctx, template("none"), sandbox("a"), disk.CloneOptions{})
	e.code(err, core.CodeNotFound)
	_, err = e.d.Clone(ctx, ref, sandbox("a"), disk.CloneOptions{LimitBytes: -1})
	e.code(err, core.CodeInvalid)
	_, err = e.d.Path(sandbox("a"))
	e.code(err, core.CodeNotFound)
	_, err = e.d.Clone(ctx, ref, sandbox("taken"), disk.CloneOptions{})
	e.code(err, core.CodeExists)
	_, err = e.d.Clone(ctx, ref, ref, disk.CloneOptions{})
	e.code(err, core.CodeExists)
	e.wantFiles(taken, map[string]string{"f": "x", "mine": "y"})
}

func (s *suite) chain(t *testing.T, e *env) {
	t.Helper()
	from := e.template("abc", map[string]string{"0": "0"})
	want := map[string]string{"0": "0"}
	for i := range 8 {
		ref := checkpoint(fmt.Sprintf("c%d", i))
		name := fmt.Sprintf("step%d", i)
		e.write(e.clone(from, ref), map[string]string{name: name})
		e.ok(e.d.Freeze(t.Context(), ref))
		want[name] = name
		from = ref
	}
	e.wantFiles(e.clone(from, sandbox("end")), want)
}

func (s *suite) malformed(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	good := e.template("abc", nil)
	for _, bad := range []disk.Ref{
		{Kind: disk.KindSandbox, ID: ""},
		{Kind: disk.KindSandbox, ID: "."},
		{Kind: disk.KindSandbox, ID: ".."},
		{Kind: disk.KindSandbox, ID: "../template/abc"},
		{Kind: disk.KindSandbox, ID: "a/b"},
		{Kind: disk.KindSandbox, ID: "a.1"},
		{Kind: disk.KindSandbox, ID: "A"},
		{Kind: disk.KindSandbox, ID: "1a"},
		{Kind: disk.KindSandbox, ID: "a\x00"},
		{Kind: disk.KindSandbox, ID: "a\n"},
		{Kind: disk.KindSandbox, ID: strings.Repeat("a", 64)},
		{Kind: "", ID: "abc"},
		{Kind: "..", ID: "abc"},
		{Kind: "Template", ID: "abc"},
	} {
		calls := map[string]func() error{
			"Create":     func() error { _, err := e.d.Create(ctx, bad); return err },
			"Freeze":     func() error { return e.d.Freeze(ctx, bad) },
			"Clone from": func() error { _, err := e.d.Clone(ctx, bad, sandbox("a"), disk.CloneOptions{}); return err },
			"Clone to":   func() error { _, err := e.d.Clone(ctx, good, bad, disk.CloneOptions{}); return err },
			"Path":       func() error { _, err := e.d.Path(bad); return err },
			"Delete":     func() error { return e.d.Delete(ctx, bad) },
			"Quarantine": func() error { return e.d.Quarantine(ctx, bad) },
			"Usage":      func() error { _, err := e.d.Usage(ctx, bad); return err },
			"Limit":      func() error { return e.d.Limit(ctx, bad, 1<<30) },
		}
		for name, call := range calls {
			if err := call(); core.CodeOf(err) != core.CodeInvalid {
				t.Errorf("%s of %q: got %v, want invalid", name, bad, err)
			}
		}
	}
	e.wantList(frozen(good))
}

func (s *suite) missing(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	_, err := e.d.Path(sandbox("none"))
	e.code(err, core.CodeNotFound)
	e.code(e.d.Freeze(ctx, sandbox("none")), core.CodeNotFound)
	e.code(e.d.Quarantine(ctx, sandbox("none")), core.CodeNotFound)
	_, err = e.d.Usage(ctx, sandbox("none"))
	e.code(err, core.CodeNotFound)
	e.code(e.d.Limit(ctx, sandbox("none"), 1<<30), core.CodeNotFound)
	e.ok(e.d.Delete(ctx, sandbox("none")))
	e.wantList()
}
