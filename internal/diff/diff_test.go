package diff_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/diff"
	"shoal/internal/files/hostfiles"
)

// trees are two trees of a test: what was and what is.
type trees struct {
	t        *testing.T
	was, now string
}

func newTrees(t *testing.T) trees {
	t.Helper()
	dir := t.TempDir()
	s := trees{t, dir + "/was", dir + "/now"}
	s.must(os.Mkdir(s.was, 0o755), os.Mkdir(s.now, 0o755))
	return s
}

func (s trees) must(errs ...error) {
	s.t.Helper()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
}

// put writes a file into one of the trees.
func (s trees) put(tree, name, text string) {
	s.t.Helper()
	full := tree + name
	s.must(os.MkdirAll(path.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o644))
}

// both writes a file into both.
func (s trees) both(name, text string) {
	s.t.Helper()
	s.put(s.was, name, text)
	s.put(s.now, name, text)
}

func tree(dir string) *hostfiles.Tree { return hostfiles.New(dir, hostfiles.Owners{Count: 1 << 31}) }

func (s trees) compare(q core.TreeDiffQuery) (core.TreeDiff, error) {
	s.t.Helper()
	if q.Path == "" {
		q.Path = "/"
	}
	if q.Limit == 0 {
		q.Limit = core.MaxDiffFiles
	}
	return diff.Compare(s.t.Context(), tree(s.was), tree(s.now), q)
}

func (s trees) diff(q core.TreeDiffQuery) core.TreeDiff {
	s.t.Helper()
	d, err := s.compare(q)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// brief says each file in a word or two.
func brief(list []core.FileDiff) (out []string) {
	for _, f := range list {
		line := string(f.Change[:1]) + " " + f.Path
		for _, a := range f.Aspects {
			line += " " + string(a)
		}
		if f.Unsure {
			line += " unsure"
		}
		if f.Below != nil {
			line += fmt.Sprintf(" +%d files %d bytes", f.Below.Files, f.Below.Bytes)
		}
		out = append(out, line)
	}
	return out
}

func (s trees) want(d core.TreeDiff, want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, brief(d.Files)); diff != "" {
		s.t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	s := newTrees(t)
	s.both("/same", "1")
	s.both("/content", "1234")
	s.put(s.now, "/content", "1235")
	s.both("/longer", "1")
	s.put(s.now, "/longer", "12")
	s.both("/mode", "1")
	s.put(s.was, "/gone/a/b", "12")
	s.put(s.now, "/fresh/a", "1")
	s.put(s.now, "/fresh/b/c", "123")
	s.both("/type", "1")
	s.both("/dirtype/in", "123")
	s.both("/a.b/x", "1")
	s.put(s.now, "/a/x", "1")
	s.put(s.now, "/a.b/y", "1")
	s.must(
		os.Chmod(s.now+"/mode", 0o600), os.Remove(s.now+"/type"), os.Symlink("same", s.now+"/type"),
		os.Symlink("one", s.was+"/link"), os.Symlink("two", s.now+"/link"),
		os.RemoveAll(s.now+"/dirtype"), os.WriteFile(s.now+"/dirtype", nil, 0o644),
		os.WriteFile(s.was+"/xattr", nil, 0o644), os.WriteFile(s.now+"/xattr", nil, 0o644), unix.Setxattr(s.now+"/xattr", "user.a", []byte("1"), 0),
	)
	// What only touches a file is no difference.
	s.both("/touched", "1")
	s.must(os.Chtimes(s.now+"/touched", time.Unix(1, 0), time.Unix(1, 0)))

	d := s.diff(core.TreeDiffQuery{})
	s.want(d,
		"a /a +1 files 1 bytes", "a /a.b/y", "c /content content", "c /dirtype type +1 files 3 bytes", "a /fresh +3 files 4 bytes",
		"r /gone +2 files 2 bytes", "c /link target", "c /longer content", "c /mode mode", "c /type type", "c /xattr xattrs",
	)
	want := core.DiffSummary{Added: core.DiffCount{Files: 7, Bytes: 6}, Removed: core.DiffCount{Files: 4, Bytes: 5}}
	got := d.Summary
	got.Changed = core.DiffCount{}
	if got != want {
		t.Errorf("summary: %+v", got)
	}
	f := d.Files[slices.IndexFunc(d.Files, func(f core.FileDiff) bool { return f.Path == "/link" })]
	if f.Before.Target != "one" || f.After.Target != "two" || f.After.Type != core.FileSymlink {
		t.Errorf("the link: %+v %+v", f.Before, f.After)
	}

	s.want(s.diff(core.TreeDiffQuery{Path: "/fresh", Expand: true}), "a /fresh", "a /fresh/a", "a /fresh/b", "a /fresh/b/c")
	s.want(s.diff(core.TreeDiffQuery{Path: "/mode"}), "c /mode mode")
	s.want(s.diff(core.TreeDiffQuery{Path: "/same"}))
	for name, code := range map[string]core.Code{
		"/nothing": core.CodeNotFound, "/same/x": core.CodeNotFound, "/link/x": core.CodeInvalid, "relative": core.CodeInvalid, "/\x00": core.CodeInvalid,
		"/" + strings.Repeat("a", 5000): core.CodeInvalid,
	} {
		if _, err := s.compare(core.TreeDiffQuery{Path: name}); !core.IsCode(err, code) {
			t.Errorf("%.20q: %v, want %s", name, err, code)
		}
	}
}

// TestPages: the pages together are the whole, whatever their size, collapsed or not.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newTrees(t)
	for _, name := range []string{"/a/b/c", "/a/b.d", "/a!", "/a/b/c!/x", "/z/y/x", "/z/y.y", "/m"} {
		s.put(s.now, name, "1")
	}
	for _, name := range []string{"/k/1", "/k/2/3", "/k.", "/both/old"} {
		s.put(s.was, name, "1")
	}
	s.put(s.now, "/both/new", "1")
	s.put(s.now, "/both/sub/deep", "1")
	for _, expand := range []bool{false, true} {
		all := s.diff(core.TreeDiffQuery{Expand: expand})
		for limit := 1; limit <= len(all.Files)+1; limit++ {
			var got []core.FileDiff
			for after := ""; ; {
				page := s.diff(core.TreeDiffQuery{Expand: expand, Limit: limit, After: after})
				got = append(got, page.Files...)
				if after == "" && page.Summary != all.Summary {
					t.Errorf("the first page counts %+v, want %+v", page.Summary, all.Summary)
				}
				if !page.More {
					break
				}
				if len(page.Files) != limit {
					t.Fatalf("a page of %d, limit %d", len(page.Files), limit)
				}
				after = page.Files[len(page.Files)-1].Path
			}
			if d := cmp.Diff(all.Files, got); d != "" {
				t.Fatalf("expand %v, limit %d (-whole +pages):\n%s", expand, limit, d)
			}
		}
	}
	if _, err := s.compare(core.TreeDiffQuery{Path: "/z", After: "/a"}); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("a cursor of elsewhere: %v", err)
	}
}

// TestSharedFilesAreNotRead: what both have by one inode, unchanged since they parted, is one file; what changed later is compared.
func TestSharedFilesAreNotRead(t *testing.T) {
	t.Parallel()
	s := newTrees(t)
	s.put(s.was, "/one", "1")
	s.must(os.Link(s.was+"/one", s.now+"/one"), os.Chmod(s.was+"/one", 0))
	if os.Geteuid() == 0 {
		s.must(os.Truncate(s.was+"/one", 1<<42)) // nobody reads this
	}
	began := time.Now()
	if d := s.diff(core.TreeDiffQuery{SharedBefore: time.Now().Add(time.Hour)}); len(d.Files)+len(d.Notes) > 0 {
		t.Errorf("told: %v %v", brief(d.Files), d.Notes)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestHunks(t *testing.T) {
	t.Parallel()
	s := newTrees(t)
	s.both("/a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	s.put(s.now, "/a", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n")
	s.put(s.now, "/new", "line\nno end")
	s.put(s.was, "/old", "line\n")
	s.put(s.now, "/bin", "a\x00b")
	s.put(s.now, "/latin", "caf\xe9\n")
	s.put(s.now, "/large", strings.Repeat("0123456789\n", 200_000))
	s.put(s.now, "/long", strings.Repeat("0123456789\n", 10_000))
	s.put(s.now, "/srv/.env", "DB_PASSWORD=u7Hk2VxN9bRt\n")
	s.both("/secret", "ghp_q7Zk2VxN9bRt4WmPc8LdYs6HjFg3TnAe5UyKw\n")
	s.put(s.now, "/secret", "none any more\n")
	for i := range 30 {
		s.put(s.now, fmt.Sprintf("/m/%02d", i), strings.Repeat("0123456789\n", 5000))
	}
	d := s.diff(core.TreeDiffQuery{Hunks: true, Expand: true})
	hunks := map[string]string{}
	for _, f := range d.Files {
		hunks[f.Path] = f.Hunks
		if f.NoHunks != "" {
			hunks[f.Path] = string(f.NoHunks)
		}
	}
	for name, want := range map[string]string{
		"/a":   "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
		"/new": "@@ -0,0 +1,2 @@\n+line\n+no end\n\\ No newline at end of file\n", "/old": "@@ -1,1 +0,0 @@\n-line\n",
		"/bin": "binary", "/latin": "binary", "/large": "too_large", "/long": "too_large", "/srv/.env": "credential", "/secret": "credential",
		"/m/29": "page_full", "/srv": "",
	} {
		if hunks[name] != want {
			t.Errorf("%s: %.200q, want %q", name, hunks[name], want)
		}
	}
	for _, f := range s.diff(core.TreeDiffQuery{}).Files {
		if f.Hunks != "" || f.NoHunks != "" {
			t.Errorf("%s has hunks that nobody asked for", f.Path)
		}
	}
}

func TestPackages(t *testing.T) {
	t.Parallel()
	s := newTrees(t)
	const site, modules = "/usr/lib/python3/dist-packages", "/usr/lib/node_modules"
	status := func(list ...string) (text string) {
		for _, p := range list {
			name, version, _ := strings.Cut(p, " ")
			text += "Package: " + name + "\nStatus: install ok installed\nVersion: " + version + "\n\n"
		}
		return text
	}
	s.put(s.was, "/var/lib/dpkg/status", status("libc6 1", "jq 1", "vim 3"))
	s.put(s.now, "/var/lib/dpkg/status", status("libc6 1", "jq 2", "curl 8"))
	s.put(s.was, site+"/six-1.0.dist-info/METADATA", "Name: six\nVersion: 1.0\n\n")
	s.put(s.now, site+"/six-2.0.dist-info/METADATA", "Name: six\nVersion: 2.0\n\n")
	s.put(s.now, "/srv/venv/lib/python3/site-packages/six-2.0.dist-info/METADATA", "Name: six\nVersion: 2.0\n\n")
	s.both(site+"/same-1.dist-info/METADATA", "Name: same\nVersion: 1\n\n")
	s.put(s.now, site+"/same-1.dist-info/METADATA", "Name: same\nVersion: 1\nLicense: x\n\n")
	s.put(s.was, modules+"/npm/package.json", `{"name": "npm", "version": "1.0.0"}`)
	s.put(s.now, modules+"/@x/y/package.json", `{"name": "@x/y", "version": "3.0.0"}`)
	s.put(s.now, "/root/.cargo/.crates.toml", "[v1]\n\"rg 14.0.0 (x)\" = [\"rg\"]\n")
	exe, err := os.ReadFile("/proc/self/exe")
	s.must(err, os.MkdirAll(s.now+"/usr/local/bin", 0o755), os.WriteFile(s.now+"/usr/local/bin/tool", exe, 0o755))
	var got []string
	for _, p := range s.diff(core.TreeDiffQuery{}).Packages {
		if p.Manager == core.PackageGo {
			p.After = "v"
		}
		got = append(got, fmt.Sprintf("%s %s %s %s: %s -> %s", p.Change, p.Manager, p.Path, p.Name, p.Before, p.After))
	}
	want := []string{
		"added cargo /root/.cargo rg:  -> 14.0.0",
		"added dpkg / curl:  -> 8", "changed dpkg / jq: 1 -> 2", "removed dpkg / vim: 3 -> ",
		"added go /usr/local/bin/tool shoal/internal/diff.test:  -> v",
		"removed npm " + modules + " npm: 1.0.0 -> ",
		"added npm " + modules + " @x/y:  -> 3.0.0",
		"added pip /srv/venv/lib/python3/site-packages six:  -> 2.0", "changed pip " + site + " six: 1.0 -> 2.0",
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	s := newTrees(t)
	const token = "ghp_q7Zk2VxN9bRt4WmPc8LdYs6HjFg3TnAe5UyKw"
	s.both("/root/notes", "old "+token+"\n")
	s.put(s.now, "/root/notes", "old "+token+"\nand "+token[:20]+"AbCdEfGhIjKlMnOpQrSt\n")
	s.put(s.was, "/root/gone", token)
	s.both("/root/unchanged", token)
	s.put(s.now, "/home/u/.netrc", "machine m login l password p\n")
	d := s.diff(core.TreeDiffQuery{Hunks: true})
	want := []core.CredentialFinding{{Kind: "netrc", Path: "/home/u/.netrc", Line: 1}, {Kind: "github_token", Path: "/root/notes", Line: 2}}
	if diff := cmp.Diff(want, d.Credentials); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all := fmt.Sprintf("%+v", d); strings.Contains(all, token) || strings.Contains(all, token[:20]) {
		t.Errorf("the value is told: %s", all)
	}
	for i := range core.MaxDiffCredentials + 5 {
		s.put(s.now, fmt.Sprintf("/many/%04d", i), "x "+token)
	}
	if d := s.diff(core.TreeDiffQuery{}); len(d.Credentials) != core.MaxDiffCredentials || d.MoreCredentials != 7 {
		t.Errorf("%d told, %d more", len(d.Credentials), d.MoreCredentials)
	}
}

// TestOwn: what makes a machine this one is no difference, and what else is in such files is.
func TestOwn(t *testing.T) {
	t.Parallel()
	s := newTrees(t)
	s.put(s.was, "/etc/machine-id", "")
	s.put(s.now, "/etc/machine-id", "0123\n")
	s.put(s.now, "/etc/hostname", "box\n")
	s.put(s.was, "/etc/hosts", "127.0.0.1 localhost\n")
	s.put(s.now, "/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 box # this sandbox\n")
	s.put(s.now, "/srv/.shoal-new-"+strings.Repeat("a", 26), "half")
	s.must(os.MkdirAll(s.was+"/srv", 0o755))
	s.want(s.diff(core.TreeDiffQuery{}))
	s.put(s.now, "/etc/hosts", "127.0.0.1 localhost\n10.0.0.1 db\n127.0.1.1 box # this sandbox\n")
	s.want(s.diff(core.TreeDiffQuery{}), "c /etc/hosts content")
	s.must(os.Remove(s.was + "/etc/hosts"))
	s.want(s.diff(core.TreeDiffQuery{}), "a /etc/hosts")
	s.put(s.now, "/etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 box # this sandbox\n")
	s.want(s.diff(core.TreeDiffQuery{}))
}

// TestHostile: whatever a guest makes, the walk ends, reads nothing outside, waits for nobody, and says what it left out.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := newTrees(t)
	const bait = "ghp_q7Zk2VxN9bRt4WmPc8LdYs6HjFg3TnAe5UyKw"
	outside := filepath.Dir(s.now) + "/outside"
	s.must(
		os.WriteFile(outside, []byte(bait), 0o644),
		os.Symlink(outside, s.now+"/absolute"), os.Symlink("../outside", s.now+"/up"), os.Symlink("/proc/self/root"+outside, s.now+"/proc"),
		os.Symlink("loop", s.now+"/loop"), os.Symlink("/", s.now+"/top"), os.Symlink("..", s.now+"/dots"),
		unix.Mkfifo(s.now+"/fifo", 0o644), unix.Mkfifo(s.was+"/fifo", 0o600),
	)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	s.must(err)
	defer func() { _ = unix.Close(fd) }()
	s.must(os.Symlink(s.now, "/tmp/shoal-diff-test-"+fmt.Sprint(os.Getpid())))
	defer os.Remove("/tmp/shoal-diff-test-" + fmt.Sprint(os.Getpid()))
	s.must(unix.Bind(fd, &unix.SockaddrUnix{Name: "/tmp/shoal-diff-test-" + fmt.Sprint(os.Getpid()) + "/socket"}))
	if os.Geteuid() == 0 {
		s.must(unix.Mknod(s.now+"/device", unix.S_IFCHR|0o644, int(unix.Mkdev(1, 8)))) // random, without an end
	}
	// A TiB of nothing, on both sides, and a little of something at the end of one.
	for i, dir := range []string{s.was, s.now} {
		f, err := os.Create(dir + "/sparse")
		s.must(err, f.Truncate(1<<40))
		_, err = f.WriteAt([]byte{1}, 1<<40-1)
		s.must(err)
		if i == 1 {
			_, err = f.WriteAt([]byte{1}, 1<<39)
		}
		s.must(err, f.Close())
	}
	s.put(s.now, "/name-\xff\xfe\n", "1")
	s.put(s.now, "/\x1b[31m", "1")
	s.deep(s.now+"/deep", 5000)

	began := time.Now()
	if d := s.diff(core.TreeDiffQuery{Expand: true, Hunks: true}); !d.More || len(d.Files) < 100 {
		t.Errorf("each one: %d, more %v", len(d.Files), d.More)
	}
	d := s.diff(core.TreeDiffQuery{Hunks: true})
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("it took %s", took)
	}
	got := brief(d.Files)
	for _, want := range []string{"a /absolute", "a /up", "a /proc", "a /loop", "a /top", "a /dots", "c /fifo mode", "a /socket", "c /sparse content", "a /name-\xff\xfe\n", "a /\x1b[31m"} {
		if !slices.Contains(got, want) {
			t.Errorf("missing: %q in %.500q", want, got)
		}
	}
	if len(d.Credentials) > 0 {
		t.Errorf("it looked outside: %+v", d.Credentials)
	}
	if len(d.Notes) != 1 || !strings.HasPrefix(d.Notes[0].Path, "/deep/d") {
		t.Errorf("notes: %.300q", fmt.Sprint(d.Notes))
	}
	if d.Summary.Added.Files < 1000 {
		t.Errorf("summary: %+v", d.Summary)
	}
}

// deep makes directories that nest further than any path reaches (4095 bytes).
func (s trees) deep(dir string, levels int) {
	s.t.Helper()
	s.must(os.Mkdir(dir, 0o755))
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for range levels {
		s.must(err, unix.Mkdirat(fd, "d", 0o755))
		var next int
		next, err = unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		_ = unix.Close(fd)
		fd = next
	}
	s.must(err, unix.Close(fd))
	s.t.Cleanup(func() { _ = exec.Command("rm", "-rf", dir).Run() }) // RemoveAll takes minutes for it
}

// TestChanging: files that are changed while they are read are no danger.
func TestChanging(t *testing.T) {
	t.Parallel()
	s := newTrees(t)
	for i := range 50 {
		s.both(fmt.Sprintf("/d/%02d", i), strings.Repeat("x", 300_000))
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			name := fmt.Sprintf("%s/d/%02d", s.now, i%50)
			switch i % 5 {
			case 0:
				_ = os.Truncate(name, int64(i%300_000))
			case 1:
				_ = os.WriteFile(name, make([]byte, 300_000), 0o644)
			case 2:
				_ = os.Remove(name)
				_ = os.Symlink("/etc/passwd", name)
			case 3:
				_ = os.Rename(s.now+"/d", s.now+"/e")
				_ = os.Rename(s.now+"/e", s.now+"/d")
			case 4:
				_ = os.Remove(name)
				_ = os.WriteFile(name, make([]byte, 300_000), 0o644)
			}
		}
	}()
	for range 20 {
		if _, err := s.compare(core.TreeDiffQuery{Hunks: true}); err != nil && !core.IsCode(err, core.CodeNotFound) {
			t.Errorf("compare: %v", err)
		}
	}
	close(done)
	<-stopped
}

func TestCanceled(t *testing.T) {
	t.Parallel()
	s := newTrees(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := diff.Compare(ctx, tree(s.was), tree(s.now), core.TreeDiffQuery{Path: "/", Limit: 1})
	if !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkUnchanged compares 100,000 files that both sides share.
func BenchmarkUnchanged(b *testing.B) {
	dir := b.TempDir()
	for i := range 100_000 {
		d := fmt.Sprintf("%s/was/%03d", dir, i/200)
		if i%200 == 0 {
			if err := errors.Join(os.MkdirAll(d, 0o755), os.MkdirAll(strings.Replace(d, "/was/", "/now/", 1), 0o755)); err != nil {
				b.Fatal(err)
			}
		}
		name := fmt.Sprintf("%s/%d", d, i)
		if err := errors.Join(os.WriteFile(name, []byte("1"), 0o644), os.Link(name, strings.Replace(name, "/was/", "/now/", 1))); err != nil {
			b.Fatal(err)
		}
	}
	q := core.TreeDiffQuery{Path: "/", Limit: 1000, SharedBefore: time.Now().Add(time.Hour)}
	for b.Loop() {
		d, err := diff.Compare(b.Context(), tree(dir+"/was"), tree(dir+"/now"), q)
		if err != nil || len(d.Files) > 0 {
			b.Fatal(err, brief(d.Files))
		}
	}
}
