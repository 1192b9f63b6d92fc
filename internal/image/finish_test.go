package image

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

// bareTree makes a tree with what a bootstrap leaves behind, owned by the test's own user.
func bareTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"var/lib/dpkg/status": "Package: apt\nStatus: install ok installed\nVersion: 2.6\n",
		"etc/hostname":        "host.corp.example\n", "etc/resolv.conf": "search corp.example\nnameserver 10.1.1.1\n",
		"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "etc/apt/sources.list": "deb http://secret:pw@corp.example x main\n",
		"etc/apt/apt.conf.d/99mmdebstrap": "Acquire::http::Proxy \"http://proxy\";\n", "etc/apt/apt.conf.d/01autoremove": "APT {}\n",
		"etc/apt/sources.list.d/x.list": "deb http://x y z\n", "etc/dpkg/dpkg.cfg.d/.keep": "", "usr/sbin/.keep": "", "etc/default/.keep": "",
		"var/lib/apt/lists/corp_InRelease": "x", "var/cache/apt/archives/a.deb": "x", "tmp/leftover": "x", "run/pid": "1",
		"var/log/apt/history.log": "x",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func testJob() job {
	d, _ := newDistribution("debian", "bookworm")
	return job{distribution: d, arch: "amd64"}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	dir := bareTree(t)
	// Systems link it to a file that the host, not the tree, has.
	if err := relink(filepath.Join(dir, "etc/resolv.conf"), "/run/systemd/resolve/stub-resolv.conf"); err != nil {
		t.Fatal(err)
	}
	packages, err := finish(dir, os.Geteuid(), testJob())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]core.Package{{Name: "apt", Version: "2.6"}}, packages); diff != "" {
		t.Error(diff)
	}
	for _, gone := range []string{
		"etc/apt/sources.list", "etc/apt/apt.conf.d/99mmdebstrap", "etc/apt/sources.list.d/x.list", "var/lib/apt/lists/corp_InRelease",
		"var/cache/apt/archives/a.deb", "tmp/leftover", "run/pid", "var/log/apt/history.log",
	} {
		if _, err := os.Lstat(filepath.Join(dir, gone)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", gone, err)
		}
	}
	for name, want := range map[string]string{
		"etc/hostname": "sandbox\n", "etc/machine-id": "", "etc/resolv.conf": "nameserver 10.88.0.1\n", "etc/apt/apt.conf.d/01autoremove": "APT {}\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "tmp")); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("/tmp is %v, %v", info, err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "etc/apt/sources.list.d/debian.sources")); err != nil || strings.Count(string(data), "Types: deb\n") != 3 {
		t.Errorf("sources are %q, %v", data, err)
	}
}

// TestFinishStaysInside plants symlinks where finish writes and removes.
func TestFinishStaysInside(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"etc", "tmp", "var/lib/dpkg", "etc/apt", "usr/sbin"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, outside := bareTree(t), bareTree(t)
			before := digest(t, outside)
			path := filepath.Join(dir, name)
			if err := errors.Join(os.RemoveAll(path), os.Symlink(filepath.Join(outside, name), path)); err != nil {
				t.Fatal(err)
			}
			if _, err := finish(dir, os.Geteuid(), testJob()); err == nil {
				t.Error("a link out of the tree was followed or passed over")
			}
			if digest(t, outside) != before {
				t.Error("a file outside the tree has changed")
			}
		})
	}
}
