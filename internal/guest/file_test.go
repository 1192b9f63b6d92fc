package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

func (a *agent) read(t *testing.T, path string, offset, length int64) (core.FileInfo, string, error) {
	t.Helper()
	info, r, err := a.client.ReadFile(t.Context(), path, offset, length)
	if err != nil {
		return info, "", err
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	return info, string(b), err
}

func (a *agent) write(t *testing.T, path, text string, opts core.WriteOptions) (core.FileInfo, error) {
	t.Helper()
	return a.client.WriteFile(t.Context(), path, opts, strings.NewReader(text))
}

func TestReadRanges(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	p := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(p, []byte("0123456789"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, -1, "0123456789"}, {3, 4, "3456"}, {8, 100, "89"}, {10, -1, ""}, {100, -1, ""}, {0, 0, ""}, {2, -1, "23456789"}} {
		info, got, err := a.read(t, p, c.offset, c.length)
		if err != nil || got != c.want || info.Size != 10 || info.Mode != 0o640 {
			t.Errorf("%d+%d: %q, %v, %+v", c.offset, c.length, got, err, info)
		}
	}
	if _, _, err := a.read(t, p, -1, 1); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("negative offset: %v", err)
	}
	if _, _, err := a.read(t, filepath.Dir(p), 0, 1); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("a directory: %v", err)
	}
	if _, _, err := a.read(t, p+"x", 0, 1); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("no file: %v", err)
	}
}

// TestProcFiles: files of /proc say that their size is 0 and have content (named test 11).
func TestProcFiles(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	info, text, err := a.read(t, "/proc/self/status", 0, -1)
	if err != nil || info.Size != 0 || !strings.Contains(text, "Threads:") {
		t.Errorf("size %d, %q, %v", info.Size, text, err)
	}
}

// TestStrangeFiles: empty and huge files, and every name that Linux allows (named test 12).
func TestStrangeFiles(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	names := []string{"with space", "new\nline", strings.Repeat("n", 255), "not utf-8 \xff\xfe", "ünïcode", "-dash", "quote\"'", "tab\t", "\x01control"}
	for _, n := range names {
		if _, err := a.write(t, dir+"/"+n, "in "+n, core.WriteOptions{}); err != nil {
			t.Errorf("write %q: %v", n, err)
		}
		info, text, err := a.read(t, dir+"/"+n, 0, -1)
		if err != nil || text != "in "+n || info.Name != n || info.Path != dir+"/"+n {
			t.Errorf("read %q: %q, %v, %+v", n, text, err, info)
		}
	}
	list, _, err := a.client.ListFiles(t.Context(), dir, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range list {
		got = append(got, f.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	for _, n := range names {
		if err := a.client.Move(t.Context(), dir+"/"+n, dir+"/moved"); err != nil {
			t.Errorf("move %q: %v", n, err)
		}
		if err := a.client.Remove(t.Context(), dir+"/moved", core.RemoveOptions{}); err != nil {
			t.Errorf("remove %q: %v", n, err)
		}
	}
	if info, err := a.write(t, dir+"/empty", "", core.WriteOptions{}); err != nil || info.Size != 0 {
		t.Errorf("empty: %+v, %v", info, err)
	}
	if _, text, err := a.read(t, dir+"/empty", 0, -1); err != nil || text != "" {
		t.Errorf("empty: %q, %v", text, err)
	}
	if _, err := a.write(t, dir+"/"+strings.Repeat("n", 256), "", core.WriteOptions{}); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("a name of 256 bytes: %v", err)
	}
}

func TestSparseFile(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	p := filepath.Join(t.TempDir(), "sparse")
	f, err := os.Create(p)
	if err != nil {
		t.Fatal(err)
	}
	const size = 5 << 30
	_, err = f.WriteAt([]byte("end"), size-3)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	info, text, err := a.read(t, p, size-5, -1)
	if err != nil || info.Size != size || text != "\x00\x00end" {
		t.Errorf("%+v, %q, %v", info, text, err)
	}
	if info, err := a.client.Stat(t.Context(), p); err != nil || info.Size != size {
		t.Errorf("%+v, %v", info, err)
	}
	// A reader that leaves early gives the connection up, and nothing else.
	_, r, err := a.client.ReadFile(t.Context(), p, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 10<<20)); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := a.client.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestListPages(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	var want []string
	for i := range 2500 {
		n := fmt.Sprintf("f%04d", i)
		want = append(want, n)
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	after := ""
	for {
		list, more, err := a.client.ListFiles(t.Context(), dir, after, 999)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			got = append(got, f.Name)
		}
		if !more {
			break
		}
		after = got[len(got)-1]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	if _, _, err := a.client.ListFiles(t.Context(), dir, "", 0); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("limit 0: %v", err)
	}
	if _, _, err := a.client.ListFiles(t.Context(), dir+"/f0001", "", 10); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("list of a file: %v", err)
	}
}

// TestListLongNames: a page whose names are too much for one frame is cut, and the next goes on there.
func TestListLongNames(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	part := strings.Repeat("d", 250)
	dir := filepath.Join(t.TempDir(), part, part, part)
	var want []string
	for i := range 700 {
		want = append(want, fmt.Sprintf("%0250d", i))
	}
	plant(t, dir, want...)
	for _, limit := range []int{1000, 700, 600} {
		var got []string
		pages := 0
		for more, after := true, ""; more; pages++ {
			var list []core.FileInfo
			var err error
			if list, more, err = a.client.ListFiles(t.Context(), dir, after, limit); err != nil {
				t.Fatal(err)
			}
			for _, f := range list {
				got, after = append(got, f.Name), f.Name
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || pages < 2 {
			t.Errorf("limit %d, %d pages: %s", limit, pages, diff)
		}
	}
}

func TestWriteKeepsAndReplaces(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	p := dir + "/f"
	if info, err := a.write(t, p, "one", core.WriteOptions{}); err != nil || info.Mode != 0o644 || info.Size != 3 {
		t.Errorf("new file: %+v, %v", info, err)
	}
	if err := os.Chmod(p, 0o751); err != nil {
		t.Fatal(err)
	}
	if info, err := a.write(t, p, "two!", core.WriteOptions{}); err != nil || info.Mode != 0o751 || info.Size != 4 {
		t.Errorf("existing file: %+v, %v", info, err)
	}
	if info, err := a.write(t, p, "three", core.WriteOptions{Mode: 0o600}); err != nil || info.Mode != 0o600 {
		t.Errorf("with a mode: %+v, %v", info, err)
	}
	if _, err := a.write(t, dir+"/a/b/c", "x", core.WriteOptions{}); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("without parents: %v", err)
	}
	if _, err := a.write(t, dir+"/a/b/c", "x", core.WriteOptions{Parents: true}); err != nil {
		t.Errorf("with parents: %v", err)
	}
	if _, err := a.write(t, dir+"/a", "x", core.WriteOptions{}); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("over a directory: %v", err)
	}
	if _, err := a.write(t, p+"/below", "x", core.WriteOptions{Parents: true}); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("below a file: %v", err)
	}
	if _, err := a.write(t, "/dev/null", "gone", core.WriteOptions{}); err != nil {
		t.Errorf("a device: %v", err)
	}
	if st, err := os.Stat("/dev/null"); err != nil || st.Mode()&os.ModeDevice == 0 {
		t.Errorf("the device was replaced: %v, %v", st, err)
	}
	rest, err := filepath.Glob(dir + "/.shoal-*")
	if err != nil || len(rest) > 0 {
		t.Errorf("left over: %v, %v", rest, err)
	}
}

func TestWriteThroughLink(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	for _, err := range []error{
		os.WriteFile(dir+"/target", []byte("old"), 0o600), os.Symlink("target", dir+"/link"),
		os.Symlink("later", dir+"/dangling"), os.Symlink("loop", dir+"/loop"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"link": "target", "dangling": "later"} {
		if _, err := a.write(t, dir+"/"+link, "new", core.WriteOptions{}); err != nil {
			t.Errorf("%s: %v", link, err)
		}
		info, err := a.client.Stat(t.Context(), dir+"/"+link)
		if err != nil || info.Type != core.FileSymlink || info.Target != target {
			t.Errorf("%s: the link is no more: %+v, %v", link, info, err)
		}
		if b, err := os.ReadFile(dir + "/" + target); err != nil || string(b) != "new" {
			t.Errorf("%s: %q, %v", target, b, err)
		}
	}
	if _, err := a.write(t, dir+"/loop", "x", core.WriteOptions{}); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("a loop: %v", err)
	}
}

// TestWriteBrokenOff: until the write has succeeded the old content stands, and nothing is left beside it.
func TestWriteBrokenOff(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	p := dir + "/f"
	if _, err := a.write(t, p, "old", core.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	head := strings.NewReader(strings.Repeat("x", 1<<20))
	for name, r := range map[string]io.Reader{
		"error":          io.MultiReader(head, iotest.ErrReader(errors.New("broke"))),
		"unexpected EOF": io.MultiReader(head, iotest.ErrReader(io.ErrUnexpectedEOF)),
	} {
		if _, err := a.client.WriteFile(t.Context(), p, core.WriteOptions{}, r); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := a.client.WriteFile(ctx, p, core.WriteOptions{}, io.MultiReader(head, readerFunc(func([]byte) (int, error) {
		cancel()
		return 1, nil
	})))
	if !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("canceled: %v", err)
	}
	eventually(t, "only the file is left", func() bool {
		list, err := os.ReadDir(dir)
		return err == nil && len(list) == 1
	})
	if b, err := os.ReadFile(p); err != nil || string(b) != "old" {
		t.Errorf("%q, %v", b, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestDiskFull: the error comes early, names the cause, and the old content stands.
func TestDiskFull(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	endless := readerFunc(func(b []byte) (int, error) { return len(b), nil })
	_, err := a.client.WriteFile(t.Context(), "/dev/full", core.WriteOptions{}, endless)
	if !core.IsCode(err, core.CodeExhausted) {
		t.Errorf("a full device: %v", err)
	}
	if err := a.client.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFifoDoesNotHang(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	p := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(p, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, text, err := a.read(t, p, 0, -1); err != nil || text != "" {
		t.Errorf("read: %q, %v", text, err)
	}
	if _, err := a.write(t, p, "x", core.WriteOptions{}); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("write: %v", err)
	}
}

func TestMkdirMoveRemove(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	ctx := t.Context()
	check := func(what string, err error, want core.Code) {
		t.Helper()
		if core.CodeOf(err) != want {
			t.Errorf("%s: %v, want code %q", what, err, want)
		}
	}
	check("mkdir", a.client.Mkdir(ctx, dir+"/d", core.WriteOptions{}), "")
	check("mkdir again", a.client.Mkdir(ctx, dir+"/d", core.WriteOptions{}), core.CodeExists)
	check("mkdir -p again", a.client.Mkdir(ctx, dir+"/d", core.WriteOptions{Parents: true}), "")
	check("mkdir below nothing", a.client.Mkdir(ctx, dir+"/x/y", core.WriteOptions{}), core.CodeNotFound)
	check("mkdir -p", a.client.Mkdir(ctx, dir+"/x/y", core.WriteOptions{Parents: true, Mode: 0o700}), "")
	if info, err := a.client.Stat(ctx, dir+"/x/y"); err != nil || info.Type != core.FileDirectory || info.Mode != 0o700 {
		t.Errorf("stat: %+v, %v", info, err)
	}
	check("remove full", a.client.Remove(ctx, dir+"/x", core.RemoveOptions{}), core.CodeConflict)
	check("remove tree", a.client.Remove(ctx, dir+"/x", core.RemoveOptions{Recursive: true}), "")
	check("remove nothing", a.client.Remove(ctx, dir+"/x", core.RemoveOptions{Recursive: true}), core.CodeNotFound)
	check("remove root", a.client.Remove(ctx, "/", core.RemoveOptions{Recursive: true}), core.CodeInvalid)
	check("remove ..", a.client.Remove(ctx, "//", core.RemoveOptions{Recursive: true}), core.CodeInvalid)
	check("move nothing", a.client.Move(ctx, dir+"/x", dir+"/z"), core.CodeNotFound)
	check("move", a.client.Move(ctx, dir+"/d", dir+"/z"), "")
	check("empty path", a.client.Mkdir(ctx, "", core.WriteOptions{}), core.CodeInvalid)
	check("zero byte", a.client.Mkdir(ctx, "/a\x00b", core.WriteOptions{}), core.CodeInvalid)
	outside := t.TempDir() + "/kept"
	if err := errors.Join(os.WriteFile(outside, nil, 0o600), os.Symlink(filepath.Dir(outside), dir+"/z/link")); err != nil {
		t.Fatal(err)
	}
	check("remove tree with a link", a.client.Remove(ctx, dir+"/z", core.RemoveOptions{Recursive: true}), "")
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

func TestRelativePath(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	info, err := a.write(t, "rel", "x", core.WriteOptions{})
	if err != nil || !strings.HasPrefix(info.Path, "/") {
		t.Errorf("%+v, %v", info, err)
	}
	if r := a.run(t, shell("cat rel")); !bytes.Equal(r.stdout, []byte("x")) {
		t.Errorf("not in the working directory: %q", r.stdout)
	}
}
