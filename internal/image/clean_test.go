package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

// used makes a tree as a sandbox leaves it.
func used(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// names lists a tree: links with where they point to, files with their content.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		if e.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			got[name] = "-> " + target
			return err
		}
		b, err := os.ReadFile(path)
		got[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestClean(t *testing.T) {
	t.Parallel()
	const half = "abcdefghijklmnopqrstuvwxyz" // as the guest agent ends the name of a file that is not whole
	status := "Package: apt\nStatus: install ok installed\nVersion: 2.6\n\nPackage: evil\x1b[2J\nStatus: install ok installed\nVersion: 1\n"
	dir := used(t, map[string]string{
		"etc/hostname": "lab\n", "etc/hosts": "127.0.0.1 localhost\n", "etc/machine-id": "0123\n", "var/lib/dbus/machine-id": "0123\n",
		"etc/ssh/ssh_host_rsa_key": "secret", "etc/ssh/ssh_host_rsa_key.pub": "public", "etc/ssh/sshd_config": "Port 22\n",
		"run/x/pid": "1", "tmp/a/b/c": "x", "var/tmp/y": "x", "home/user/work": "kept", "root/.ssh/id_rsa": "the user's own",
		"var/lib/dpkg/status": status, "home/user/.shoal-new-" + half: "0123", "srv/a/b/.shoal-old-" + half: "0123",
		"srv/a/b/.shoal-new-notes": "kept", "srv/.shoal-new-" + half + "/x": "kept",
	})
	packages, err := Clean(t.Context(), dir, os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"etc/hosts": "127.0.0.1 localhost\n", "etc/machine-id": "", "etc/ssh/sshd_config": "Port 22\n", "home/user/work": "kept",
		"root/.ssh/id_rsa": "the user's own", "var/lib/dpkg/status": status, "srv/a/b/.shoal-new-notes": "kept", "srv/.shoal-new-" + half + "/x": "kept",
	}
	if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]core.Package{{Name: "apt", Version: "2.6"}}, packages); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"run", "tmp", "var/tmp"} {
		if entries, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(entries) != 0 {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
}

// TestCleanHostile gives it trees that want it to reach elsewhere.
func TestCleanHostile(t *testing.T) {
	t.Parallel()
	outside := used(t, map[string]string{"hostname": "ours", "machine-id": "ours", "ssh_host_x_key": "ours", "status": "ours", "file": "ours"})
	for name, links := range map[string]map[string]string{
		"absolute": {"tmp": outside, "run": outside, "etc": outside, "var": outside},
		"upward":   {"tmp": "../../../../../../../../.." + outside, "etc": "../../../../../../.." + outside},
		"inside":   {"tmp": "home", "var/tmp": "../home", "run": "home", "etc/machine-id": "../home/file", "etc/ssh": "../home", "var/lib/dpkg/status": "/home/file"},
		"loops":    {"tmp": "tmp", "etc": "etc", "var": "var"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := used(t, map[string]string{"home/file": "kept", "home/ssh_host_x_key": "kept"})
			want := map[string]string{"home/file": "kept", "home/ssh_host_x_key": "kept"}
			for at, target := range links {
				want[at] = "-> " + target
				path := filepath.Join(dir, at)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
					t.Fatal(err)
				}
			}
			packages, err := Clean(t.Context(), dir, os.Geteuid())
			if err != nil || packages != nil {
				t.Fatal(packages, err)
			}
			if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := contents(t, outside); len(got) != 5 || got["file"] != "ours" || got["machine-id"] != "ours" {
		t.Errorf("outside there is %v", got)
	}
}

// TestCleanDeep empties a directory that nests deeper than is bearable: it is refused, and no file stays open.
func TestCleanDeep(t *testing.T) {
	t.Parallel()
	deep := filepath.Join(t.TempDir(), strings.Repeat("/d", maxDepth+5))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := used(t, map[string]string{"tmp/x": ""})
	if err := os.Rename(filepath.Join(strings.TrimSuffix(deep, strings.Repeat("/d", maxDepth+5)), "d"), filepath.Join(dir, "tmp/d")); err != nil {
		t.Fatal(err)
	}
	if _, err := Clean(t.Context(), dir, os.Geteuid()); !core.IsCode(err, core.CodeInvalid) {
		t.Fatalf("got %v, want invalid", err)
	}
}

func TestDigestRefusesTooMuch(t *testing.T) {
	t.Parallel()
	dir := used(t, map[string]string{"f": ""})
	if err := os.Truncate(filepath.Join(dir, "f"), maxTreeBytes+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Digest(t.Context(), dir, os.Geteuid()); !core.IsCode(err, core.CodeInvalid) {
		t.Fatalf("got %v, want invalid", err)
	}
}
