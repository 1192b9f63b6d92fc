package image

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// makeTree fills a new directory with one of everything that an ordinary user can make.
func makeTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(os.Chmod(dir, 0o755))
	do(os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
	do(os.WriteFile(filepath.Join(dir, "a/file"), []byte("content"), 0o644))
	do(os.WriteFile(filepath.Join(dir, "a/empty"), nil, 0o600))
	do(os.WriteFile(filepath.Join(dir, "a/z-link"), []byte("linked"), 0o644))
	do(os.Link(filepath.Join(dir, "a/z-link"), filepath.Join(dir, "a/b/link")))
	do(os.WriteFile(filepath.Join(dir, "name\xff\n with all"), []byte("x"), 0o644))
	do(os.Symlink("/etc/passwd", filepath.Join(dir, "outward")))
	do(os.Symlink("loop", filepath.Join(dir, "loop")))
	do(os.Symlink("..", filepath.Join(dir, "a/up")))
	do(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	return dir
}

// digest returns a tree's info, its owners counted from the test's own user.
func digest(t *testing.T, dir string) core.TreeInfo {
	t.Helper()
	info, err := Digest(t.Context(), dir, os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestDigestIsStable(t *testing.T) {
	t.Parallel()
	first, second := digest(t, makeTree(t)), digest(t, makeTree(t))
	if first != second {
		t.Errorf("two trees that are alike have %+v and %+v", first, second)
	}
	// 7 "content" + 6 "linked", counted once + 1 "x".
	if first.SizeBytes != 14 || first.Files != 12 || !strings.HasPrefix(first.Digest, "sha256:") || len(first.Digest) != 71 {
		t.Errorf("got %+v, want 14 bytes and 12 entries", first)
	}
}

func TestDigestIsSensitive(t *testing.T) {
	t.Parallel()
	base := digest(t, makeTree(t)).Digest
	seen := map[string]string{base: "the tree itself"}
	changes := map[string]func(dir string) error{
		"content":      func(d string) error { return os.WriteFile(filepath.Join(d, "a/file"), []byte("cOntent"), 0o644) },
		"longer":       func(d string) error { return os.Truncate(filepath.Join(d, "a/file"), 8) },
		"mode":         func(d string) error { return os.Chmod(filepath.Join(d, "a/file"), 0o755) },
		"setuid":       func(d string) error { return os.Chmod(filepath.Join(d, "a/file"), 0o644|os.ModeSetuid) },
		"mode of dir":  func(d string) error { return os.Chmod(filepath.Join(d, "a/b"), 0o700) },
		"mode of root": func(d string) error { return os.Chmod(d, 0o700) },
		"new file":     func(d string) error { return os.WriteFile(filepath.Join(d, "a/b/c"), nil, 0o644) },
		"empty dir":    func(d string) error { return os.Mkdir(filepath.Join(d, "a/b/c"), 0o755) },
		"removed":      func(d string) error { return os.Remove(filepath.Join(d, "a/empty")) },
		"renamed":      func(d string) error { return os.Rename(filepath.Join(d, "a/empty"), filepath.Join(d, "a/void")) },
		"other target": func(d string) error { return relink(filepath.Join(d, "outward"), "/etc/shadow") },
		"link to file": func(d string) error { return relink(filepath.Join(d, "fifo"), "fifo") },
		"link is a copy": func(d string) error {
			name := filepath.Join(d, "a/b/link")
			return errors.Join(os.Remove(name), os.WriteFile(name, []byte("linked"), 0o644))
		},
	}
	for name, change := range changes {
		dir := makeTree(t)
		if err := change(dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := digest(t, dir).Digest
		if other, ok := seen[got]; ok {
			t.Errorf("%q has the digest of %q", name, other)
		}
		seen[got] = name
	}
	same := makeTree(t)
	if err := os.Chtimes(filepath.Join(same, "a/file"), time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if digest(t, same).Digest != base {
		t.Error("a time changes the digest")
	}
	shifted, err := Digest(t.Context(), same, os.Geteuid()-1)
	if err != nil || shifted.Digest == base {
		t.Errorf("another owner has the same digest, %v", err)
	}
}

func relink(name, target string) error { return errors.Join(os.Remove(name), os.Symlink(target, name)) }

func TestDigestOfHostileTrees(t *testing.T) {
	t.Parallel()
	t.Run("a socket and a pipe are not opened", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		if info := digest(t, dir); info.Files != 2 || info.SizeBytes != 0 {
			t.Errorf("got %+v", info)
		}
	})
	t.Run("the root is no symlink", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.Symlink("/", filepath.Join(dir, "root")); err != nil {
			t.Fatal(err)
		}
		if _, err := Digest(t.Context(), filepath.Join(dir, "root"), 0); err == nil {
			t.Error("a symlink was followed")
		}
	})
	t.Run("endless nesting is refused", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", maxDepth+2)), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := Digest(t.Context(), dir, 0); err == nil || !strings.Contains(err.Error(), "deep") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("sparse and many files", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, "sparse"), 64<<20); err != nil {
			t.Fatal(err)
		}
		for i := range 500 {
			if err := os.WriteFile(filepath.Join(dir, strings.Repeat("n", 200)+string(rune('a'+i))), []byte{byte(i)}, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if info := digest(t, dir); info.Files != 502 || info.SizeBytes != 64<<20+500 {
			t.Errorf("got %+v", info)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Digest(ctx, makeTree(t), 0); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
	})
}

func TestDigestLeavesNoDescriptor(t *testing.T) {
	dir := makeTree(t)
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	_ = digest(t, dir)
	before := count()
	for range 20 {
		_ = digest(t, dir)
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
