// Package filestest is the contract of core.FileReader as tests: what the guest agent answers about files inside a running sandbox,
// and what is answered about the same files from the tree of one that doesn't run, must be the same. It knows neither of them.
// Start reading at Run.
package filestest

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// Box is a reader and where its files are.
type Box struct {
	Reader core.FileReader
	// Host is a directory of this machine, empty at first, and Inside the same one as the reader knows it.
	Host, Inside string
}

// Run holds a reader to the contract. open is called once for each test.
func Run(t *testing.T, open func(t *testing.T) Box) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Box){
		"stat": stat, "list": list, "list long": listLong, "walk": walk, "walk in pages": walkPages, "links": links, "read": read, "checksum": checksum, "xattrs": xattrs,
		"errors": failures, "deep": deep, "pack": pack,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (b Box) host(name string) string { return b.Host + "/" + name }

func (b Box) in(name string) string { return strings.TrimSuffix(b.Inside, "/") + "/" + name }

func (b Box) file(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(b.host(name), []byte(text), 0o600))
}

func wantCode(t *testing.T, what string, err error, code core.Code, field string) {
	t.Helper()
	var e *core.Error
	if !errors.As(err, &e) || e.Code != code || field != "" && e.Field != field {
		t.Errorf("%s: %v, want %s of %q", what, err, code, field)
	}
}

func stat(t *testing.T, b Box) {
	t.Helper()
	at := time.Date(2020, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	name := "not utf-8 \xff\n"
	b.file(t, name, "12345")
	must(t, os.Chmod(b.host(name), 0o751|os.ModeSetuid), os.Chtimes(b.host(name), at, at))
	got, err := b.Reader.Stat(t.Context(), b.in(name))
	must(t, err)
	own := core.FileInfo{
		Name: name, Path: b.in(name), Type: core.FileRegular, Size: 5, Mode: 0o4751, UID: os.Getuid(), GID: os.Getgid(),
		Owner: got.Owner, Group: got.Group, MTime: at, Version: got.Version,
	}
	if diff := cmp.Diff(own, got); diff != "" || got.Version == "" {
		t.Errorf("a file of version %q:\n%s", got.Version, diff)
	}
	// Other content of the same length and time is another version all the same.
	b.file(t, "other", "54321")
	must(t, os.Rename(b.host("other"), b.host(name)), os.Chtimes(b.host(name), at, at))
	if now, err := b.Reader.Stat(t.Context(), b.in(name)); err != nil || now.Version == got.Version {
		t.Errorf("other content has the same version %q, %v", now.Version, err)
	}
	must(t, os.Mkdir(b.host("d"), 0o711), os.Symlink("no\xffwhere", b.host("l")), unix.Mkfifo(b.host("p"), 0o600))
	for path, want := range map[string]core.FileInfo{
		"d/": {Name: "d", Path: b.in("d"), Type: core.FileDirectory, Mode: 0o711},
		"l":  {Name: "l", Path: b.in("l"), Type: core.FileSymlink, Mode: 0o777, Target: "no\xffwhere"},
		"p":  {Name: "p", Path: b.in("p"), Type: core.FileOther, Mode: 0o600},
	} {
		got, err := b.Reader.Stat(t.Context(), b.in(path))
		if err != nil || got.Name != want.Name || got.Path != want.Path || got.Type != want.Type || got.Mode != want.Mode || got.Target != want.Target {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
}

func names(list []core.FileInfo) string {
	var b strings.Builder
	for _, f := range list {
		b.WriteString(f.Name + " ")
	}
	return strings.TrimSpace(b.String())
}

func list(t *testing.T, b Box) {
	t.Helper()
	for _, n := range []string{"b", "a", "\xff", "B", "aa"} {
		b.file(t, n, "")
	}
	must(t, os.Symlink("a", b.host("l")), os.Mkdir(b.host("d"), 0o700))
	got, _, err := b.Reader.ListFiles(t.Context(), b.in(""), "", 100)
	if want := "B a aa b d l \xff"; err != nil || names(got) != want {
		t.Errorf("%q, %v, want %q", names(got), err, want)
	}
	if got, _, err = b.Reader.ListFiles(t.Context(), b.in(""), "a", 2); err != nil || names(got) != "aa b" || got[0].Path != b.in("aa") {
		t.Errorf("a page: %q, %v", names(got), err)
	}
	if got, _, err = b.Reader.ListFiles(t.Context(), b.in("d"), "", 1); err != nil || len(got) != 0 {
		t.Errorf("an empty directory: %q, %v", names(got), err)
	}
	for _, limit := range []int{0, -1, 1001} {
		_, _, err := b.Reader.ListFiles(t.Context(), b.in(""), "", limit)
		wantCode(t, "limit", err, core.CodeInvalid, "limit")
	}
	const many = 2500
	for i := range many {
		b.file(t, fmt.Sprintf("d/%04d", i), "")
	}
	total, after := 0, ""
	for {
		page, more, err := b.Reader.ListFiles(t.Context(), b.in("d"), after, 1000)
		must(t, err)
		if total += len(page); !more {
			break
		}
		after = page[len(page)-1].Name
	}
	if total != many {
		t.Errorf("%d of %d entries in pages", total, many)
	}
}

// listLong: a page holds no more than a bounded text, however long the names and targets are, and pages go on where one was cut.
func listLong(t *testing.T, b Box) {
	t.Helper()
	const many = 600
	target := strings.Repeat("t", 4000)
	must(t, os.Mkdir(b.host("long"), 0o700))
	for i := range many {
		must(t, os.Symlink(target, b.host(fmt.Sprintf("long/%04d", i))))
	}
	total, after := 0, ""
	for more := true; more; {
		var page []core.FileInfo
		var err error
		page, more, err = b.Reader.ListFiles(t.Context(), b.in("long"), after, 1000)
		must(t, err)
		text := 0
		for _, f := range page {
			if f.Target != target || f.Name != fmt.Sprintf("%04d", total) {
				t.Fatalf("entry %d is %s, with a target of %d bytes", total, f.Name, len(f.Target))
			}
			text, after = text+len(f.Path)+len(f.Target), f.Name
			total++
		}
		if text > 2<<20 {
			t.Errorf("a page of %d entries holds %d bytes", len(page), text)
		}
		if more && len(page) == 0 {
			t.Fatal("an empty page, and more to come")
		}
	}
	if total != many {
		t.Errorf("%d of %d entries in pages", total, many)
	}
}

func (b Box) tree(t *testing.T) {
	t.Helper()
	must(t, os.MkdirAll(b.host("t/a/b/c"), 0o700), os.MkdirAll(b.host("t/a.d"), 0o700), os.Symlink("a", b.host("t/link")))
	for _, n := range []string{"t/a/b/c/1", "t/a/b/2", "t/a/3", "t/a.d/4", "t/5"} {
		b.file(t, n, "")
	}
}

// paths returns the paths of files below a directory.
func paths(list []core.FileInfo, below string) string {
	var out []string
	for _, f := range list {
		out = append(out, strings.TrimPrefix(f.Path, below+"/"))
	}
	return strings.Join(out, " ")
}

func walk(t *testing.T, b Box) {
	t.Helper()
	b.tree(t)
	for depth, want := range map[int]string{
		1: "5 a a.d link",
		2: "5 a a/3 a/b a.d a.d/4 link",
		9: "5 a a/3 a/b a/b/2 a/b/c a/b/c/1 a.d a.d/4 link",
	} {
		got, more, err := b.Reader.Walk(t.Context(), b.in("t"), core.WalkOptions{Depth: depth, Limit: 100})
		if err != nil || more || paths(got, b.in("t")) != want {
			t.Errorf("depth %d: %q, %v, %v", depth, paths(got, b.in("t")), more, err)
		}
	}
	got, more, err := b.Reader.Walk(t.Context(), b.in("t/link"), core.WalkOptions{Limit: 1})
	if err != nil || more || len(got) != 1 || got[0].Type != core.FileSymlink || got[0].Final == nil || got[0].Final.Path != b.in("t/a") {
		t.Errorf("the link itself: %+v, %v, %v", got, more, err)
	}
	if got, _, err := b.Reader.Walk(t.Context(), b.in("t/link"), core.WalkOptions{Depth: 1, Limit: 10}); err != nil || paths(got, b.in("t/link")) != "3 b" {
		t.Errorf("through a link: %q, %v", paths(got, b.in("t/link")), err)
	}
	_, _, err = b.Reader.Walk(t.Context(), b.in("t/5"), core.WalkOptions{Depth: 1, Limit: 10})
	wantCode(t, "a file", err, core.CodeInvalid, "path")
	_, _, err = b.Reader.Walk(t.Context(), b.in("t"), core.WalkOptions{Depth: -1, Limit: 10})
	wantCode(t, "depth", err, core.CodeInvalid, "depth")
	_, _, err = b.Reader.Walk(t.Context(), b.in("t"), core.WalkOptions{Depth: 1, Limit: 0})
	wantCode(t, "limit", err, core.CodeInvalid, "limit")
	_, _, err = b.Reader.Walk(t.Context(), b.in("t"), core.WalkOptions{Depth: 1, Limit: 1, After: "/elsewhere"})
	wantCode(t, "after", err, core.CodeInvalid, "after")
}

// walkPages: pages of any size are together what one page is, also where what the page before ended with has gone.
func walkPages(t *testing.T, b Box) {
	t.Helper()
	b.tree(t)
	want, _, err := b.Reader.Walk(t.Context(), b.in("t"), core.WalkOptions{Depth: 9, Limit: 100})
	must(t, err)
	for limit := 1; limit < 12; limit++ {
		var got []core.FileInfo
		opts := core.WalkOptions{Depth: 9, Limit: limit}
		for more := true; more; {
			var page []core.FileInfo
			page, more, err = b.Reader.Walk(t.Context(), b.in("t"), opts)
			must(t, err)
			if len(page) > limit || more && len(page) == 0 {
				t.Fatalf("a page of %d, more: %v", len(page), more)
			}
			got = append(got, page...)
			if len(page) > 0 {
				opts.After = page[len(page)-1].Path
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("in pages of %d:\n%s", limit, diff)
		}
	}
	got, _, err := b.Reader.Walk(t.Context(), b.in("t"), core.WalkOptions{Depth: 9, Limit: 100, After: b.in("t/a/b/gone/x")})
	if err != nil || paths(got, b.in("t")) != "a.d a.d/4 link" {
		t.Errorf("behind what has gone: %q, %v", paths(got, b.in("t")), err)
	}
}

func links(t *testing.T, b Box) {
	t.Helper()
	must(t, os.MkdirAll(b.host("x/y"), 0o700))
	b.file(t, "x/f", "text")
	for name, target := range map[string]string{
		"absolute": b.in("x/f"), "up": "x/y/../f", "chain": "up", "dir": "x", "circle": "circle", "nowhere": "no", "through": "dir/f",
	} {
		must(t, os.Symlink(target, b.host(name)))
	}
	for _, name := range []string{"absolute", "up", "chain", "through", "dir/f", "dir/y/../f"} {
		_, r, err := b.Reader.ReadFile(t.Context(), b.in(name), 0, -1)
		must(t, err)
		text, err := io.ReadAll(r)
		if must(t, r.Close()); err != nil || string(text) != "text" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for name, code := range map[string]core.Code{"circle": core.CodeInvalid, "nowhere": core.CodeNotFound} {
		_, _, err := b.Reader.ReadFile(t.Context(), b.in(name), 0, -1)
		wantCode(t, name, err, code, "path")
	}
	got, _, err := b.Reader.Walk(t.Context(), b.in(""), core.WalkOptions{Depth: 1, Limit: 100})
	must(t, err)
	for _, f := range got {
		want := map[string]string{"absolute": "x/f", "up": "x/f", "chain": "x/f", "dir": "x", "through": "x/f"}[f.Name]
		switch {
		case want == "" && f.Final != nil:
			t.Errorf("%s leads to %s", f.Name, f.Final.Path)
		case want != "" && (f.Final == nil || f.Final.Path != b.in(want)):
			t.Errorf("%s leads to %+v", f.Name, f.Final)
		}
	}
}

func read(t *testing.T, b Box) {
	t.Helper()
	b.file(t, "f", "0123456789")
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, -1, "0123456789"}, {3, 4, "3456"}, {8, 100, "89"}, {10, -1, ""}, {100, -1, ""}, {0, 0, ""}} {
		info, r, err := b.Reader.ReadFile(t.Context(), b.in("f"), c.offset, c.length)
		must(t, err)
		text, err := io.ReadAll(r)
		if must(t, r.Close()); err != nil || string(text) != c.want || info.Size != 10 {
			t.Errorf("%d+%d: %q, %v, %+v", c.offset, c.length, text, err, info)
		}
	}
	const size = 3<<20 + 17
	big := strings.Repeat("x", size)
	b.file(t, "big", big)
	_, r, err := b.Reader.ReadFile(t.Context(), b.in("big"), 0, -1)
	must(t, err)
	text, err := io.ReadAll(r)
	if must(t, r.Close()); err != nil || string(text) != big {
		t.Errorf("%d of %d bytes, %v", len(text), size, err)
	}
	_, _, err = b.Reader.ReadFile(t.Context(), b.in("f"), -1, 1)
	wantCode(t, "offset", err, core.CodeInvalid, "offset")
	_, _, err = b.Reader.ReadFile(t.Context(), b.in(""), 0, 1)
	wantCode(t, "a directory", err, core.CodeInvalid, "path")
}

func checksum(t *testing.T, b Box) {
	t.Helper()
	text := strings.Repeat("text", 100_000)
	b.file(t, "f", text)
	must(t, os.Symlink("f", b.host("l")), unix.Mkfifo(b.host("p"), 0o600))
	want := sha256.Sum256([]byte(text))
	got, err := b.Reader.Checksum(t.Context(), b.in("l"), core.ChecksumSHA256)
	if err != nil || string(got.Digest) != string(want[:]) || got.Bytes != int64(len(text)) || got.File.Type != core.FileRegular && got.File.Type != core.FileSymlink {
		t.Errorf("%x of %d bytes, %+v, %v", got.Digest, got.Bytes, got.File, err)
	}
	for _, a := range []core.ChecksumAlgorithm{core.ChecksumSHA512, core.ChecksumSHA1, core.ChecksumMD5} {
		if got, err := b.Reader.Checksum(t.Context(), b.in("f"), a); err != nil || len(got.Digest) != a.Size() {
			t.Errorf("%s: %x, %v", a, got.Digest, err)
		}
	}
	for _, name := range []string{"", "p"} {
		_, err := b.Reader.Checksum(t.Context(), b.in(name), core.ChecksumSHA256)
		wantCode(t, "what is no file", err, core.CodeInvalid, "")
	}
	_, err = b.Reader.Checksum(t.Context(), b.in("f"), "crc")
	wantCode(t, "algorithm", err, core.CodeInvalid, "algorithm")
}

func xattrs(t *testing.T, b Box) {
	t.Helper()
	b.file(t, "f", "")
	if got, err := b.Reader.Xattrs(t.Context(), b.in("f")); err != nil || len(got) != 0 {
		t.Errorf("none: %v, %v", got, err)
	}
	if err := unix.Setxattr(b.host("f"), "user.z", []byte{0, 255}, 0); err != nil {
		t.Skipf("this filesystem has no attributes: %v", err)
	}
	must(t, unix.Setxattr(b.host("f"), "user.a\xff", nil, 0), os.Symlink("f", b.host("l")))
	want := []core.Xattr{{Name: "user.a\xff", Value: []byte{}}, {Name: "user.z", Value: []byte{0, 255}}}
	got, err := b.Reader.Xattrs(t.Context(), b.in("l"))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func failures(t *testing.T, b Box) {
	t.Helper()
	b.file(t, "f", "")
	for path, code := range map[string]core.Code{
		"no": core.CodeNotFound, "no/no": core.CodeNotFound, "f/x": core.CodeInvalid, strings.Repeat("n", 256): core.CodeInvalid,
		strings.Repeat("n/", 4000): core.CodeInvalid, "zero\x00": core.CodeInvalid,
	} {
		_, err := b.Reader.Stat(t.Context(), b.in(path))
		wantCode(t, "stat", err, code, "path")
		_, _, err = b.Reader.ListFiles(t.Context(), b.in(path), "", 10)
		wantCode(t, "list", err, code, "path")
		_, _, err = b.Reader.Walk(t.Context(), b.in(path), core.WalkOptions{Depth: 1, Limit: 10})
		wantCode(t, "walk", err, code, "path")
		_, _, err = b.Reader.ReadFile(t.Context(), b.in(path), 0, -1)
		wantCode(t, "read", err, code, "path")
		_, err = b.Reader.Xattrs(t.Context(), b.in(path))
		wantCode(t, "xattrs", err, code, "path")
		_, err = b.Reader.Checksum(t.Context(), b.in(path), core.ChecksumMD5)
		wantCode(t, "checksum", err, code, "path")
	}
}

// pack: an archive holds what is there, links as links, and tells what it left out.
func pack(t *testing.T, b Box) {
	t.Helper()
	b.tree(t)
	b.file(t, "t/text", strings.Repeat("text", 50_000))
	must(t, unix.Mkfifo(b.host("t/fifo"), 0o600), os.Symlink("t", b.host("link")))
	read := func(path string, o core.PackOptions) (map[string]string, core.ArchiveReport) {
		t.Helper()
		a, err := b.Reader.Pack(t.Context(), b.in(path), o)
		must(t, err)
		got := map[string]string{}
		for r := tar.NewReader(a); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			text, err := io.ReadAll(r)
			must(t, err)
			if got[h.Name] = string(text); h.Typeflag == tar.TypeSymlink {
				got[h.Name] = "-> " + h.Linkname
			}
			if h.Uid != os.Getuid() || h.Gid != os.Getgid() {
				t.Errorf("%s belongs to %d:%d", h.Name, h.Uid, h.Gid)
			}
		}
		_, err = io.Copy(io.Discard, a)
		must(t, err)
		report := a.Report()
		must(t, a.Close())
		return got, report
	}
	want := map[string]string{
		"./": "", "5": "", "a/": "", "a/3": "", "a/b/": "", "a/b/2": "", "a/b/c/": "", "a/b/c/1": "", "a.d/": "", "a.d/4": "", "link": "-> a",
		"text": strings.Repeat("text", 50_000),
	}
	for _, path := range []string{"t", "link"} {
		got, report := read(path, core.PackOptions{})
		if diff := cmp.Diff(want, got); diff != "" || report.Skipped != 1 || report.Files != 7 {
			t.Errorf("%s: %+v\n%s", path, report, diff)
		}
	}
	if got, _ := read("t/text", core.PackOptions{}); len(got) != 1 || got["text"] != want["text"] {
		t.Errorf("a file: %d entries", len(got))
	}
	if got, _ := read("t", core.PackOptions{Exclude: []string{"a", "a.d", "text"}}); len(got) != 3 {
		t.Errorf("a part: %v", got)
	}
	_, err := b.Reader.Pack(t.Context(), b.in("no"), core.PackOptions{})
	wantCode(t, "nothing", err, core.CodeNotFound, "path")
	_, err = b.Reader.Pack(t.Context(), b.in("t/fifo"), core.PackOptions{})
	wantCode(t, "a fifo", err, core.CodeInvalid, "")
	_, err = b.Reader.Pack(t.Context(), b.in("t"), core.PackOptions{Exclude: []string{"["}})
	wantCode(t, "a pattern", err, core.CodeInvalid, "")
	a, err := b.Reader.Pack(t.Context(), b.in("t"), core.PackOptions{})
	must(t, err, a.Close())
}

// deep: a tree that is deeper than a path can say is listed as far as it can be said.
func deep(t *testing.T, b Box) {
	t.Helper()
	part := strings.Repeat("d", 200)
	dir, err := os.Open(b.Host)
	must(t, err)
	fd, made := int(dir.Fd()), 0
	for range 40 {
		must(t, unix.Mkdirat(fd, part, 0o700))
		next, err := unix.Openat(fd, part, unix.O_DIRECTORY|unix.O_PATH, 0)
		must(t, err)
		if made > 0 {
			must(t, unix.Close(fd))
		}
		fd = next
		made++
	}
	must(t, unix.Close(fd), dir.Close())
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(b.Host, part)) })
	got, more, err := b.Reader.Walk(t.Context(), b.in(""), core.WalkOptions{Depth: 100, Limit: 1000})
	if err != nil || more || len(got) < 15 || len(got) > 21 {
		t.Errorf("%d directories, %v, %v", len(got), more, err)
	}
}
