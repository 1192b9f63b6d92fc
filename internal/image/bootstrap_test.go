package image

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/image/jail"
)

// needMirror skips a test that downloads packages under -short.
func needMirror(t *testing.T) {
	t.Helper()
	needRoot(t)
	if testing.Short() {
		t.Skip("needs a package mirror and a minute")
	}
	if _, _, err := findTool(exec.LookPath); err != nil {
		if os.Getenv("SHOAL_REQUIRE_ROOT") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// emptyDir makes a new directory for a tree. The cache of packages beside it belongs to the test.
func emptyDir(t *testing.T) (dir, work string) {
	t.Helper()
	top := t.TempDir()
	dir = filepath.Join(top, "tree")
	if err := errors.Join(os.Chmod(top, 0o700), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(top, "work")
}

func TestBootstrapMinimal(t *testing.T) {
	needMirror(t)
	const owner = testOwner + 3*jail.IDs
	dir, work := emptyDir(t)
	last := -1
	result, err := Bootstrap(t.Context(), BootstrapConfig{
		Recipe: Minimal, Dir: dir, WorkDir: work, OwnerUID: owner, Logger: slog.New(slog.DiscardHandler),
		Progress: func(step string, percent int) {
			if percent < last || step == "" {
				t.Errorf("progress goes from %d to %d %q", last, percent, step)
			}
			last = percent
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != 100 {
		t.Errorf("progress ends at %d", last)
	}
	if !regexp.MustCompile(`^(debian|ubuntu) \w+, (mmdebstrap|debootstrap)$`).MatchString(result.Source) {
		t.Errorf("source is %q", result.Source)
	}
	if result.Config.User != "root" || result.Config.Workdir != "/root" || result.Config.Env["LANG"] != "C.UTF-8" {
		t.Errorf("config is %+v", result.Config)
	}
	for _, want := range []string{"apt", "bash", "ca-certificates", "dpkg", "procps", "python3"} {
		if !slices.ContainsFunc(result.Packages, func(p core.Package) bool { return p.Name == want && p.Version != "" }) {
			t.Errorf("package %s is missing", want)
		}
	}
	checkFiles(t, dir, owner)
	checkNothingOfHost(t, dir)
	checkPrograms(t, dir, owner)
	if left := processesOf(owner); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	noMounts(t, dir)
	debs, _ := filepath.Glob(filepath.Join(work, archivesName, "*.deb"))
	if len(debs) < 50 {
		t.Errorf("the cache keeps %d packages", len(debs))
	}
	info, err := Digest(t.Context(), dir, owner)
	if err != nil || info.SizeBytes < 50<<20 || info.Files < 2000 {
		t.Errorf("the tree is %+v, %v", info, err)
	}
}

// checkFiles checks owners, types and the few files that make a tree a sandbox's.
func checkFiles(t *testing.T, dir string, owner uint32) {
	t.Helper()
	setuid := 0
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		if st.Uid < owner || st.Uid >= owner+jail.IDs || st.Gid < owner || st.Gid >= owner+jail.IDs {
			t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK:
		default:
			t.Errorf("%s is a special file: %o", path, st.Mode)
		}
		if st.Mode&unix.S_ISUID != 0 {
			setuid++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if setuid < 5 {
		t.Errorf("%d setuid programs: su, mount, passwd and more have lost theirs", setuid)
	}
	for name, want := range map[string]string{
		"etc/machine-id": "", "etc/resolv.conf": "nameserver 10.88.0.1\n", "etc/hostname": "sandbox\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]uint32{".": 0o755, "tmp": 0o1777, "var/tmp": 0o1777, "root": 0o700, "dev": 0o755} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, name), &st); err != nil || st.Mode&0o7777 != want {
			t.Errorf("mode of %s is %o, %v, want %o", name, st.Mode&0o7777, err, want)
		}
	}
}

// checkNothingOfHost looks for traces of this machine in the tree's settings.
func checkNothingOfHost(t *testing.T, dir string) {
	t.Helper()
	traces := []string{dir, jail.Dir + "/" + targetName, "mmdebstrap", "Acquire::http", "Check-Valid-Until"}
	if host, err := os.Hostname(); err == nil && len(host) > 4 {
		traces = append(traces, host)
	}
	for _, sub := range []string{"etc", "var/lib/dpkg", "var/lib/apt", "var/log", "var/cache"} {
		err := filepath.WalkDir(filepath.Join(dir, sub), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			for _, trace := range traces {
				if bytes.Contains(data, []byte(trace)) {
					t.Errorf("%s says %q", strings.TrimPrefix(path, dir), trace)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sources, err := filepath.Glob(filepath.Join(dir, "etc/apt/sources.list.d/*"))
	if err != nil || len(sources) != 1 {
		t.Errorf("sources are %v, %v", sources, err)
	}
}

// checkPrograms runs programs of the tree in a jail.
func checkPrograms(t *testing.T, dir string, owner int) {
	t.Helper()
	var out bytes.Buffer
	j := jail.Jail{OwnerUID: owner, Binds: map[string]string{"target": dir}}
	err := j.Run(t.Context(), []string{"/usr/sbin/chroot", jail.Dir + "/target", "/bin/sh", "-euc", `
		python3 -c 'import ssl, json, sqlite3; print("python", len(ssl.create_default_context().get_ca_certs()) > 50)'
		apt-cache policy >/dev/null && echo apt; dpkg --audit && echo audit
		getent hosts "$(hostname)" >/dev/null && echo hostname
		getent hosts localhost | grep -q localhost && echo localhost
		command -v ps >/dev/null && echo ps`}, environmentFor(os.Getenv), &out)
	if want := "python True\napt\naudit\nhostname\nlocalhost\nps\n"; err != nil || out.String() != want {
		t.Errorf("the tree's programs say %q, %v, want %q", out.String(), err, want)
	}
}

func TestBootstrapCancelLeavesNothing(t *testing.T) {
	t.Parallel()
	needMirror(t)
	const owner = testOwner + 4*jail.IDs
	dir, work := emptyDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var once sync.Once
	_, err := Bootstrap(ctx, BootstrapConfig{
		Recipe: Minimal, Dir: dir, WorkDir: work, OwnerUID: owner, Logger: slog.New(slog.DiscardHandler),
		// From here on mmdebstrap runs with mounts in the tree.
		Progress: func(_ string, percent int) {
			if percent >= 2 {
				once.Do(cancel)
			}
		},
	})
	if !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if left := processesOf(owner); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	noMounts(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Errorf("the directory can't be removed: %v", err)
	}
}

func TestBootstrapRefusesTheHostsIDs(t *testing.T) {
	t.Parallel()
	_, err := Bootstrap(t.Context(), BootstrapConfig{Recipe: Minimal, Dir: t.TempDir(), WorkDir: t.TempDir(), OwnerUID: 1000})
	if !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("got %v, want invalid", err)
	}
}

func TestBootstrapRefusesAFullDirectory(t *testing.T) {
	t.Parallel()
	needMirror(t)
	dir, work := emptyDir(t)
	if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Bootstrap(t.Context(), BootstrapConfig{
		Recipe: Minimal, Dir: dir, WorkDir: work, OwnerUID: testOwner, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "precious")); err != nil {
		t.Error(err)
	}
}

func TestBootstrapOfADeadMirror(t *testing.T) {
	t.Parallel()
	needMirror(t)
	dir, work := emptyDir(t)
	_, err := Bootstrap(t.Context(), BootstrapConfig{
		Recipe: Minimal, Dir: dir, WorkDir: work, OwnerUID: testOwner + 5*jail.IDs, Logger: slog.New(slog.DiscardHandler),
		Mirror: "http://127.0.0.1:9/debian", Suite: "bookworm",
	})
	var e *core.Error
	if !errors.As(err, &e) || e.Code != core.CodeUnavailable || !strings.Contains(e.Message, "mirror can't be reached") {
		t.Errorf("got %v", err)
	}
	if e != nil && !strings.Contains(e.Err.Error(), "127.0.0.1") {
		t.Errorf("the cause lacks the tool's words: %v", e.Err)
	}
}
