package hostfiles_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/files/hostfiles"
	"shoal/test/filestest"
)

func everyone() hostfiles.Owners { return hostfiles.Owners{Count: 1 << 31} }

func TestContract(t *testing.T) {
	filestest.Run(t, func(t *testing.T) filestest.Box {
		t.Helper()
		root := t.TempDir()
		if err := os.Mkdir(root+"/home", 0o700); err != nil {
			t.Fatal(err)
		}
		return filestest.Box{Reader: hostfiles.New(root, everyone()), Host: root + "/home", Inside: "/home"}
	})
}

func TestContractAtTheRoot(t *testing.T) {
	filestest.Run(t, func(t *testing.T) filestest.Box {
		t.Helper()
		root := t.TempDir()
		return filestest.Box{Reader: hostfiles.New(root, everyone()), Host: root, Inside: "/"}
	})
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// secret makes a tree beside a file that is not in it, and returns both.
func secret(t *testing.T) (root, outside string) {
	t.Helper()
	dir := t.TempDir()
	root, outside = dir+"/root", dir+"/secret"
	must(t, os.MkdirAll(root+"/etc", 0o755), os.WriteFile(outside, []byte("secret"), 0o644))
	return root, outside
}

// text reads a file, or tells why it can't be.
func text(t *testing.T, tree *hostfiles.Tree, name string) (string, error) {
	t.Helper()
	_, r, err := tree.ReadFile(t.Context(), name, 0, -1)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	return string(b), err
}

// TestNothingLeadsOut: whatever links a guest makes, they lead to its own files or nowhere.
func TestNothingLeadsOut(t *testing.T) {
	root, outside := secret(t)
	tree := hostfiles.New(root, everyone())
	must(t, os.WriteFile(root+"/etc/shadow", []byte("own"), 0o600))
	for name, target := range map[string]string{
		"absolute": outside, "up": "../secret", "far up": strings.Repeat("../", 50) + outside[1:], "here": "/proc/self/root" + outside,
		"fd": "/proc/self/fd/0", "cwd": "/proc/self/cwd", "pw": "/etc/shadow", "dir": strings.Repeat("../", 50) + "etc", "root": "/..",
	} {
		must(t, os.Symlink(target, root+"/"+name))
	}
	for name, want := range map[string]string{
		"/absolute": "", "/up": "", "/far up": "", "/here": "", "/fd": "", "/cwd": "", "/pw": "own", "/dir/shadow": "own", "/root/etc/shadow": "own",
		"/../secret": "", "/etc/../../secret": "", "/absolute/../secret": "", "/root/../../etc/shadow": "own",
	} {
		got, err := text(t, tree, name)
		switch {
		case got == "secret" || strings.Contains(got, "root:"):
			t.Errorf("%s leads out: %q", name, got)
		case want == "own" && (err != nil || got != "own"):
			t.Errorf("%s: %q, %v", name, got, err)
		case want == "" && err == nil:
			t.Errorf("%s can be read: %q", name, got)
		}
		if _, err := tree.Checksum(t.Context(), name, core.ChecksumMD5); want == "" && err == nil {
			t.Errorf("%s has a checksum", name)
		}
		if _, err := tree.Xattrs(t.Context(), name); want == "" && err == nil {
			t.Errorf("%s has attributes", name)
		}
		if a, err := tree.Pack(t.Context(), name, core.PackOptions{}); want == "" && err == nil {
			t.Errorf("%s can be packed: %v", name, a.Close())
		}
		if list, _, err := tree.ListFiles(t.Context(), name, "", 10); err == nil && want == "" {
			t.Errorf("%s can be listed: %+v", name, list)
		}
	}
	list, _, err := tree.Walk(t.Context(), "/", core.WalkOptions{Depth: 5, Limit: 100})
	must(t, err)
	for _, f := range list {
		if f.Final == nil {
			continue
		}
		if st, err := os.Lstat(root + f.Final.Path); err != nil || st.Mode()&os.ModeSymlink != 0 {
			t.Errorf("%s is said to lead to %s: %v", f.Name, f.Final.Path, err)
		}
	}
}

// TestNothingIsOpenedButFiles: a fifo doesn't hold anybody up, and a device is not touched.
func TestNothingIsOpenedButFiles(t *testing.T) {
	root, _ := secret(t)
	tree := hostfiles.New(root, everyone())
	must(t, unix.Mkfifo(root+"/fifo", 0o666), os.Symlink("fifo", root+"/link"))
	kinds := []string{"/fifo", "/link"}
	if unix.Mknod(root+"/zero", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) == nil {
		kinds = append(kinds, "/zero")
	}
	for _, name := range kinds {
		if _, err := text(t, tree, name); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("read %s: %v", name, err)
		}
		if _, _, err := tree.ListFiles(t.Context(), name, "", 10); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("list %s: %v", name, err)
		}
	}
	// One in place of the users' names is no reason to wait either.
	must(t, unix.Mkfifo(root+"/etc/passwd", 0o666), os.Symlink("/proc/self/environ", root+"/etc/group"))
	if f, err := tree.Stat(t.Context(), "/fifo"); err != nil || f.Owner != "" || f.Group != "" {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestMountsAreNotCrossed: what is mounted in a tree is not the sandbox's.
func TestMountsAreNotCrossed(t *testing.T) {
	root, outside := secret(t)
	must(t, os.Mkdir(root+"/mnt", 0o755))
	if err := unix.Mount(filepath.Dir(outside), root+"/mnt", "", unix.MS_BIND, ""); err != nil {
		if os.Getenv("SHOAL_REQUIRE_ROOT") == "1" {
			t.Fatal(err)
		}
		t.Skipf("needs root: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(root+"/mnt", unix.MNT_DETACH) })
	if got, err := text(t, hostfiles.New(root, everyone()), "/mnt/secret"); err == nil {
		t.Errorf("read %q", got)
	}
}

// TestOwners: ids are as inside, and names are those of the tree.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: files of other users")
	}
	root, _ := secret(t)
	tree := hostfiles.New(root, hostfiles.Owners{First: 100_000, Count: 65536})
	must(t, os.WriteFile(root+"/etc/passwd", []byte("broken\n::::::\nann:x:7:8::/:/bin/sh\nann2:x:7:9::/:\n"+strings.Repeat("x", 2<<20)), 0o644))
	must(t, os.WriteFile(root+"/etc/group", []byte("staff:x:8:\n"), 0o644))
	for _, c := range []struct {
		host, uid, gid int
		owner, group   string
	}{
		{100_000, 0, 0, "", ""}, {100_007, 7, 7, "ann", ""}, {165_535, 65535, 65535, "", ""}, {165_536, 65534, 65534, "", ""}, {0, 65534, 65534, "", ""},
	} {
		must(t, os.WriteFile(root+"/f", nil, 0o600), os.Chown(root+"/f", c.host, c.host))
		if f, err := tree.Stat(t.Context(), "/f"); err != nil || f.UID != c.uid || f.GID != c.gid || f.Owner != c.owner || f.Group != c.group {
			t.Errorf("%d: %+v, %v", c.host, f, err)
		}
	}
	must(t, os.Chown(root+"/f", 100_007, 100_008))
	a, err := tree.Pack(t.Context(), "/f", core.PackOptions{})
	must(t, err)
	h, err := tar.NewReader(a).Next()
	must(t, err, a.Close())
	if h.Uid != 7 || h.Gid != 8 || h.Uname != "ann" || h.Gname != "staff" {
		t.Errorf("in an archive: %+v", h)
	}
	if f, err := tree.Stat(t.Context(), "/f"); err != nil || f.Owner != "ann" || f.Group != "staff" {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestRenamesWhileReading: directories and links that change places all the time never show what is outside.
func TestRenamesWhileReading(t *testing.T) {
	root, outside := secret(t)
	tree := hostfiles.New(root, everyone())
	must(t, os.MkdirAll(root+"/a/b", 0o755), os.WriteFile(root+"/a/b/secret", []byte("own"), 0o644), os.Symlink(filepath.Dir(outside), root+"/l"))
	ctx, cancel := context.WithCancel(t.Context())
	var renames sync.WaitGroup
	defer renames.Wait()
	defer cancel()
	for _, pair := range [][2]string{{"a", "l"}, {"a/b", "b"}} {
		renames.Go(func() {
			for ctx.Err() == nil {
				_ = unix.Renameat2(unix.AT_FDCWD, root+"/"+pair[0], unix.AT_FDCWD, root+"/"+pair[1], unix.RENAME_EXCHANGE)
				_ = os.Rename(root+"/"+pair[0], root+"/"+pair[1])
				_ = os.Rename(root+"/"+pair[1], root+"/"+pair[0])
			}
		})
	}
	own := 0
	for range 3000 {
		for _, name := range []string{"/a/b/secret", "/a/secret", "/a/b/../../a/../secret", "/b/../secret", "/l/secret"} {
			got, err := text(t, tree, name)
			if got == "secret" {
				t.Fatalf("%s leads out", name)
			}
			if err == nil && got == "own" {
				own++
			}
		}
	}
	if own == 0 {
		t.Error("nothing could be read at all")
	}
}

// TestCanceled: a caller that goes ends what it asked for.
func TestCanceled(t *testing.T) {
	root, _ := secret(t)
	tree := hostfiles.New(root, everyone())
	must(t, os.WriteFile(root+"/f", make([]byte, 1<<20), 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	_, r, err := tree.ReadFile(ctx, "/f", 0, -1)
	must(t, err)
	defer func() { _ = r.Close() }()
	cancel()
	if _, err := io.ReadAll(r); !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("read: %v", err)
	}
	if _, _, err := tree.ListFiles(ctx, "/", "", 10); !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("list: %v", err)
	}
	if _, _, err := tree.Walk(ctx, "/", core.WalkOptions{Depth: 1, Limit: 10}); !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("walk: %v", err)
	}
	if _, err := tree.Checksum(ctx, "/f", core.ChecksumMD5); !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("checksum: %v", err)
	}
}
