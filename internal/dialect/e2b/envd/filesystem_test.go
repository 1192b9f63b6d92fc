package envd_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"shoal/internal/dialect/e2b/envd/filesystempb"
)

func (b *bench) filesystem() filesystempb.FilesystemClient {
	return filesystempb.NewFilesystemClient(http.DefaultClient, b.url, connect.WithProtoJSON())
}

// plant makes files (and directories, which end with a slash) below the home.
func (b *bench) plant(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		full := filepath.Join(b.home, n)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		if err == nil && strings.HasSuffix(n, "/") {
			err = os.MkdirAll(full, 0o755)
		} else if err == nil {
			err = os.WriteFile(full, []byte(n), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bench) link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(b.home, name)); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) stat(t *testing.T, path string) (*filesystempb.EntryInfo, error) {
	t.Helper()
	r, err := b.filesystem().Stat(t.Context(), connect.NewRequest(&filesystempb.StatRequest{Path: path}))
	if err != nil {
		return nil, err
	}
	return r.Msg.GetEntry(), nil
}

// said is an entry in short: type, mode, permissions, size, name and target.
func short(b *bench, e *filesystempb.EntryInfo) string {
	s := fmt.Sprintf("%s %o %s %d %s", strings.TrimPrefix(e.GetType().String(), "FILE_TYPE_"), e.GetMode(), e.GetPermissions(), e.GetSize(), e.GetName())
	if e.SymlinkTarget != nil {
		s += " -> " + strings.TrimPrefix(e.GetSymlinkTarget(), b.home)
	}
	return s
}

func TestStat(t *testing.T) {
	b := newBench(t)
	b.plant(t, "file", "dir/", "sticky/", "a b\xff")
	if err := os.Chmod(filepath.Join(b.home, "sticky"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	b.link(t, "file", "near")
	b.link(t, b.home+"/dir", "far")
	b.link(t, "nothing", "dangling")
	b.link(t, "circle", "circle")
	for path, want := range map[string]string{
		"file":               "FILE 644 -rw-r--r-- 4 file",
		"./file":             "FILE 644 -rw-r--r-- 4 file",
		b.home + "/file":     "FILE 644 -rw-r--r-- 4 file",
		b.home + "//./file/": "FILE 644 -rw-r--r-- 4 file",
		"near":               "FILE 644 Lrwxrwxrwx 4 near -> /file",
		"far":                fmt.Sprintf("DIRECTORY 755 Lrwxrwxrwx %d far -> /dir", len(b.home)+4),
		"dangling":           "UNSPECIFIED 0 Lrwxrwxrwx 7 dangling -> /dangling",
		"circle":             "UNSPECIFIED 0 Lrwxrwxrwx 6 circle -> /circle",
		"/dev/null":          "UNSPECIFIED 666 ?rw-rw-rw- 0 null",
	} {
		e, err := b.stat(t, path)
		if err != nil || short(b, e) != want {
			t.Errorf("%s: %s, %v; want %s", path, short(b, e), err, want)
		}
	}
	e, err := b.stat(t, "sticky")
	if err != nil || e.GetPermissions() != "dtrwxrwxrwx" || e.GetMode() != 0o777 || e.GetOwner() != me() || e.GetPath() != b.home+"/sticky" {
		t.Errorf("sticky: %v, %v", e, err)
	}
	if e.GetModifiedTime().AsTime().IsZero() || e.GetModifiedTime().GetSeconds() == 0 || len(e.GetMetadata()) != 0 {
		t.Errorf("time and metadata: %v", e)
	}
	if e, err := b.stat(t, "/"); err != nil || e.GetName() != "/" || e.GetPath() != "/" {
		t.Errorf("the root: %v, %v", e, err)
	}
	if e, err := b.stat(t, ""); err != nil || e.GetPath() != b.home {
		t.Errorf("the home: %v, %v", e, err)
	}
	for path, code := range map[string]connect.Code{
		"none": connect.CodeNotFound, "none/below": connect.CodeNotFound, "file/below": connect.CodeInvalidArgument,
		"~nobody": connect.CodeInvalidArgument, strings.Repeat("x", 5000): connect.CodeInvalidArgument, "a\x00b": connect.CodeInvalidArgument,
	} {
		if _, err := b.stat(t, path); connect.CodeOf(err) != code {
			t.Errorf("%.20q: %v", path, err)
		}
	}
}

func TestFilesOfUsers(t *testing.T) {
	b := newBench(t)
	as := func(user, path string) (string, error) {
		r := connect.NewRequest(&filesystempb.StatRequest{Path: path})
		r.Header().Set("Authorization", basic(user))
		s, err := b.filesystem().Stat(t.Context(), r)
		if err != nil {
			return "", err
		}
		return s.Msg.GetEntry().GetPath(), nil
	}
	if got, err := as("", ""); err != nil || got != b.home {
		t.Errorf("nobody named: %s, %v", got, err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	if got, err := as(me(), "~"); err != nil || got != home {
		t.Errorf("home: %s, %v", got, err)
	}
	for _, path := range []string{"/", "x"} {
		if _, err := as("no-such-user", path); connect.CodeOf(err) != connect.CodeUnauthenticated || !strings.Contains(err.Error(), "invalid username: 'no-such-user'") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestMakeDir(t *testing.T) {
	b := newBench(t)
	b.plant(t, "file", "old/")
	b.link(t, "old", "link")
	for _, c := range []struct {
		path string
		code connect.Code
	}{
		{"new", 0},
		{"new", connect.CodeAlreadyExists},
		{"a/b/c", 0},
		{"a/b", connect.CodeAlreadyExists},
		{"old/", connect.CodeAlreadyExists},
		{"link", connect.CodeAlreadyExists},
		{"file", connect.CodeInvalidArgument},
		{"file/x", connect.CodeInvalidArgument},
		{"/", connect.CodeAlreadyExists},
	} {
		r, err := b.filesystem().MakeDir(t.Context(), connect.NewRequest(&filesystempb.MakeDirRequest{Path: c.path}))
		if c.code != 0 && connect.CodeOf(err) != c.code || c.code == 0 && err != nil {
			t.Errorf("%s: %v", c.path, err)
		}
		if err == nil && short(b, r.Msg.GetEntry())[:19] != "DIRECTORY 755 drwxr" {
			t.Errorf("%s: %v", c.path, r.Msg)
		}
	}
}

func TestMoveAndRemove(t *testing.T) {
	b := newBench(t)
	b.plant(t, "file", "tree/a/b")
	move := func(from, to string) (string, error) {
		r, err := b.filesystem().Move(t.Context(), connect.NewRequest(&filesystempb.MoveRequest{Source: from, Destination: to}))
		if err != nil {
			return "", err
		}
		return r.Msg.GetEntry().GetPath(), nil
	}
	if got, err := move("file", "new/place/f"); err != nil || got != b.home+"/new/place/f" {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := move("file", "x"); connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "source file not found") {
		t.Errorf("no source: %v", err)
	}
	if _, err := move("tree", "tree/a/inside"); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("into itself: %v", err)
	}
	for _, path := range []string{"tree", "tree", "new/place/f", "none/below"} {
		if _, err := b.filesystem().Remove(t.Context(), connect.NewRequest(&filesystempb.RemoveRequest{Path: path})); err != nil {
			t.Errorf("remove %s: %v", path, err)
		}
		if _, err := b.stat(t, path); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("%s after it was removed: %v", path, err)
		}
	}
	if _, err := b.filesystem().Remove(t.Context(), connect.NewRequest(&filesystempb.RemoveRequest{Path: "/"})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("the root: %v", err)
	}
}

func (b *bench) listDir(t *testing.T, path string, depth uint32) ([]string, error) {
	t.Helper()
	r, err := b.filesystem().ListDir(t.Context(), connect.NewRequest(&filesystempb.ListDirRequest{Path: path, Depth: depth}))
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range r.Msg.GetEntries() {
		list = append(list, strings.TrimPrefix(e.GetPath(), b.home+"/"))
	}
	return list, nil
}

func TestListDir(t *testing.T) {
	b := newBench(t)
	b.plant(t, "d/a/x", "d/a/y/z", "d/b", "empty/", "file")
	b.link(t, "d", "link")
	b.link(t, "circle", "circle")
	for _, c := range []struct {
		path  string
		depth uint32
		want  []string
	}{
		{"d", 0, []string{"d/a", "d/b"}},
		{"d", 1, []string{"d/a", "d/b"}},
		{b.home + "/d/", 2, []string{"d/a", "d/a/x", "d/a/y", "d/b"}},
		{"d", 1 << 31, []string{"d/a", "d/a/x", "d/a/y", "d/a/y/z", "d/b"}},
		{"link", 1, []string{"link/a", "link/b"}},
		{"", 1, []string{"circle", "d", "empty", "file", "link"}},
		{"empty", 5, nil},
	} {
		got, err := b.listDir(t, c.path, c.depth)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s, %d: %v\n%s", c.path, c.depth, err, diff)
		}
	}
	for path, code := range map[string]connect.Code{
		"none": connect.CodeNotFound, "file": connect.CodeInvalidArgument, "circle": connect.CodeFailedPrecondition,
	} {
		if _, err := b.listDir(t, path, 1); connect.CodeOf(err) != code {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestListDirOfManyPages(t *testing.T) {
	b := newBench(t)
	var want []string
	for i := range 2500 {
		name := fmt.Sprintf("d/%04d", i)
		b.plant(t, name)
		want = append(want, name)
	}
	got, err := b.listDir(t, "d", 3)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%d entries, %v\n%.500s", len(got), err, diff)
	}
}

// TestListDirOfLongNames: a listing is bounded by what its names come to, too.
func TestListDirOfLongNames(t *testing.T) {
	b := newBench(t)
	b.plant(t, "few/", "many/")
	target := strings.Repeat("/long", 800)
	for i := range 9000 {
		b.link(t, target, fmt.Sprintf("many/%d", i))
		if i < 100 {
			b.link(t, target, fmt.Sprintf("few/%d", i))
		}
	}
	list := func(path string) (int, error) {
		r, err := b.filesystem().ListDir(t.Context(), connect.NewRequest(&filesystempb.ListDirRequest{Path: path, Depth: 1}))
		if err != nil {
			return 0, err
		}
		return len(r.Msg.GetEntries()), nil
	}
	if n, err := list("few"); err != nil || n != 100 {
		t.Errorf("few: %d, %v", n, err)
	}
	if n, err := list("many"); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "smaller depth") {
		t.Errorf("many: %d, %v", n, err)
	}
}
