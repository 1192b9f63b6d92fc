package guest_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

func ptr[T any](v T) *T { return &v }

func wantCode(t *testing.T, what string, err error, code core.Code, field string) {
	t.Helper()
	var e *core.Error
	if !errors.As(err, &e) || e.Code != code || field != "" && e.Field != field {
		t.Errorf("%s: %v, want %s of %q", what, err, code, field)
	}
}

// TestChange: each thing that there is to know of a file is changed by itself, and what can't be is said.
func TestChange(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	f, link := filepath.Join(dir, "f"), filepath.Join(dir, "l")
	if _, err := a.write(t, f, "0123456789", core.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", link); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2001, 2, 3, 4, 5, 6, 789_000_000, time.UTC)
	info, err := a.client.Change(t.Context(), link, core.FileChange{Size: ptr[int64](4), Mode: ptr[uint32](0o4600), ModifiedAt: &at})
	if err != nil || info.Size != 4 || info.Mode != 0o4600 || !info.MTime.Equal(at) || info.Type != core.FileRegular {
		t.Errorf("through a link: %+v, %v", info, err)
	}
	if info, err = a.client.Change(t.Context(), f, core.FileChange{Mode: ptr[uint32](0)}); err != nil || info.Mode != 0 || info.Size != 4 {
		t.Errorf("no permission at all: %+v, %v", info, err)
	}
	if info, err = a.client.Change(t.Context(), f, core.FileChange{Size: ptr[int64](1 << 30)}); err != nil || info.Size != 1<<30 {
		t.Errorf("lengthened: %+v, %v", info, err)
	}
	if info, err = a.client.Change(t.Context(), link, core.FileChange{ModifiedAt: &at, NoFollow: true}); err != nil || info.Type != core.FileSymlink || !info.MTime.Equal(at) {
		t.Errorf("the link itself: %+v, %v", info, err)
	}
	for what, c := range map[string]struct {
		path   string
		change core.FileChange
		code   core.Code
		field  string
	}{
		"no file":           {f + "x", core.FileChange{Mode: ptr[uint32](0o600)}, core.CodeNotFound, "path"},
		"size":              {f, core.FileChange{Size: ptr[int64](-1)}, core.CodeInvalid, "size"},
		"size of directory": {dir, core.FileChange{Size: ptr[int64](0)}, core.CodeInvalid, "path"},
		"mode":              {f, core.FileChange{Mode: ptr[uint32](0o10000)}, core.CodeInvalid, "mode"},
		"mode of a link":    {link, core.FileChange{Mode: ptr[uint32](0o600), NoFollow: true}, core.CodeUnsupported, ""},
		"owner":             {f, core.FileChange{Owner: "no such user"}, core.CodeInvalid, "owner"},
		"group":             {f, core.FileChange{Group: "no such group"}, core.CodeInvalid, "group"},
		"tree":              {dir, core.FileChange{Size: ptr[int64](0), Recursive: true}, core.CodeInvalid, "recursive"},
		"tree of a link":    {dir, core.FileChange{Mode: ptr[uint32](0o700), Recursive: true, NoFollow: true}, core.CodeInvalid, "no_follow"},
		"kernel's xattr":    {f, core.FileChange{Xattrs: []core.XattrChange{{Name: "trusted.x"}}}, core.CodeUnsupported, "xattrs"},
		"nameless xattr":    {f, core.FileChange{Xattrs: []core.XattrChange{{Name: "user."}}}, core.CodeInvalid, "xattrs"},
		"long xattr":        {f, core.FileChange{Xattrs: []core.XattrChange{{Name: "user.x", Value: make([]byte, core.MaxXattrValue+1)}}}, core.CodeInvalid, "xattrs"},
		"xattr of nothing":  {f, core.FileChange{Xattrs: []core.XattrChange{{Name: "user.x", Remove: true}}}, core.CodeNotFound, "xattrs"},
		"xattr of a link":   {link, core.FileChange{Xattrs: []core.XattrChange{{Name: "user.x"}}, NoFollow: true}, core.CodeUnsupported, ""},
	} {
		_, err := a.client.Change(t.Context(), c.path, c.change)
		wantCode(t, what, err, c.code, c.field)
	}
}

func TestChangeOwner(t *testing.T) {
	needRoot(t)
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	for _, d := range []string{"d/e", "d/f"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"d/e/1", "outside"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o4755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../outside", filepath.Join(dir, "d/e/l")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.client.Change(t.Context(), filepath.Join(dir, "d"), core.FileChange{Owner: "daemon", Group: "12345", Mode: ptr[uint32](0o4711), Recursive: true}); err != nil {
		t.Fatal(err)
	}
	list, _, err := a.client.Walk(t.Context(), dir, core.WalkOptions{Depth: 5, Limit: 100})
	if err != nil || len(list) != 6 {
		t.Fatalf("%d files, %v", len(list), err)
	}
	for _, i := range list {
		mine := i.Owner == "daemon" && i.GID == 12345
		if inside := i.Name != "outside"; mine != inside {
			t.Errorf("%s belongs to %s:%d", i.Path, i.Owner, i.GID)
		}
		if i.Type != core.FileSymlink && i.Name != "outside" && i.Mode != 0o4711 {
			t.Errorf("%s has mode %o", i.Path, i.Mode)
		}
	}
}

// TestXattrs: what is set is read, in the order of the names, and names are bytes.
func TestXattrs(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	f := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(f, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(f, "user.probe", nil, 0); err != nil {
		t.Skipf("this filesystem has no attributes: %v", err)
	}
	want := []core.Xattr{{Name: "user.a\xff", Value: []byte{0, 1, 255}}, {Name: "user.b", Value: []byte{}}}
	_, err := a.client.Change(t.Context(), f, core.FileChange{Xattrs: []core.XattrChange{
		{Name: "user.probe", Remove: true}, {Name: "user.b"}, {Name: "user.a\xff", Value: []byte{0, 1, 255}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := a.client.Xattrs(t.Context(), f)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	_, err = a.client.Xattrs(t.Context(), f+"x")
	wantCode(t, "no file", err, core.CodeNotFound, "path")
}

func TestLink(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	f := filepath.Join(dir, "f")
	if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := filepath.Join(dir, "new/dir/l")
	info, err := a.client.Link(t.Context(), l, "any\xffthing", core.LinkOptions{Parents: true})
	if err != nil || info.Type != core.FileSymlink || info.Target != "any\xffthing" {
		t.Errorf("%+v, %v", info, err)
	}
	if info, err = a.client.Link(t.Context(), l, "f", core.LinkOptions{Replace: true}); err != nil || info.Target != "f" {
		t.Errorf("replaced: %+v, %v", info, err)
	}
	h := filepath.Join(dir, "h")
	for range 2 { // the second time both names are there already
		if info, err = a.client.Link(t.Context(), h, f, core.LinkOptions{Hard: true, Replace: true}); err != nil || info.Type != core.FileRegular || info.Size != 1 {
			t.Errorf("hard: %+v, %v", info, err)
		}
	}
	one, err1 := os.Stat(f)
	two, err2 := os.Stat(h)
	if err1 != nil || err2 != nil || !os.SameFile(one, two) {
		t.Errorf("not the same file: %v, %v", err1, err2)
	}
	if names, _ := os.ReadDir(dir); len(names) != 3 {
		t.Errorf("left behind: %v", names)
	}
	for what, c := range map[string]struct {
		path, target string
		opts         core.LinkOptions
		code         core.Code
		field        string
	}{
		"there":            {f, "x", core.LinkOptions{}, core.CodeExists, "path"},
		"over a directory": {filepath.Join(dir, "new"), "x", core.LinkOptions{Replace: true}, core.CodeExists, "path"},
		"nothing":          {l + "2", "", core.LinkOptions{}, core.CodeInvalid, "target"},
		"no parent":        {filepath.Join(dir, "no/l"), "x", core.LinkOptions{}, core.CodeNotFound, "path"},
		"hard to nothing":  {l + "2", f + "x", core.LinkOptions{Hard: true}, core.CodeNotFound, "target"},
		"hard to a folder": {l + "2", dir, core.LinkOptions{Hard: true}, core.CodeInvalid, "target"},
	} {
		_, err := a.client.Link(t.Context(), c.path, c.target, c.opts)
		wantCode(t, what, err, c.code, c.field)
	}
}

func TestChecksum(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	f := filepath.Join(dir, "f")
	text := strings.Repeat("0123456789", 100_000)
	if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := a.client.Checksum(t.Context(), f, core.ChecksumSHA256)
	if want := sha256.Sum256([]byte(text)); err != nil || string(sum.Digest) != string(want[:]) || sum.Bytes != 1_000_000 || sum.File.Name != "f" {
		t.Errorf("%x of %d bytes, %v", sum.Digest, sum.Bytes, err)
	}
	for algorithm, want := range map[core.ChecksumAlgorithm]string{
		core.ChecksumMD5:    "d41d8cd98f00b204e9800998ecf8427e",
		core.ChecksumSHA1:   "da39a3ee5e6b4b0d3255bfef95601890afd80709",
		core.ChecksumSHA512: "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
	} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if sum, err := a.client.Checksum(t.Context(), f, algorithm); err != nil || fmt.Sprintf("%x", sum.Digest) != want {
			t.Errorf("%s: %x, %v", algorithm, sum.Digest, err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{"directory": dir, "fifo": filepath.Join(dir, "fifo"), "device": "/dev/zero"} {
		_, err := a.client.Checksum(t.Context(), path, core.ChecksumSHA256)
		wantCode(t, what, err, core.CodeInvalid, "path")
	}
	_, err = a.client.Checksum(t.Context(), f, "crc")
	wantCode(t, "algorithm", err, core.CodeInvalid, "algorithm")
}

// TestAppend: content goes to the end, all of it or nothing; owner and mode stay, and what isn't there is made.
func TestAppend(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	f := filepath.Join(dir, "f")
	for i, want := range []string{"one", "onetwo", "onetwo"} {
		text := []string{"one", "two", ""}[i]
		info, err := a.write(t, f, text, core.WriteOptions{Append: true, Mode: 0o640})
		if err != nil || info.Size != int64(len(want)) || info.Mode != 0o640 {
			t.Errorf("%q: %+v, %v", text, info, err)
		}
	}
	if err := os.Link(f, f+"2"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.client.WriteFile(t.Context(), f, core.WriteOptions{Append: true}, &breaking{text: "three"}); err == nil {
		t.Error("a content that broke off was taken")
	}
	if _, err := a.write(t, f, "!", core.WriteOptions{Append: true}); err != nil {
		t.Error(err)
	}
	if _, text, err := a.read(t, f+"2", 0, -1); text != "onetwo!" {
		t.Errorf("by its other name it is %q, %v", text, err)
	}
	// The agent hears of the break a moment after the caller gave up.
	eventually(t, "nothing is left beside the file", func() bool {
		names, err := os.ReadDir(dir)
		return err == nil && len(names) == 2
	})
	_, err := a.write(t, f, "x", core.WriteOptions{Append: true, Exclusive: true})
	wantCode(t, "exclusive", err, core.CodeInvalid, "append")
}

// breaking is a content that breaks off after its text.
type breaking struct{ text string }

func (b *breaking) Read(p []byte) (int, error) {
	n := copy(p, b.text)
	if b.text = b.text[n:]; n == 0 {
		return 0, errors.New("broke off")
	}
	return n, nil
}

// TestChangeTreeOfAnAttacker: whoever may write in a tree can't have files elsewhere changed with it, by putting links where directories
// and files have just been.
func TestChangeTreeOfAnAttacker(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	outside, tree := t.TempDir(), t.TempDir()
	for _, f := range []string{filepath.Join(outside, "d", "secret"), filepath.Join(tree, "d", "secret"), filepath.Join(tree, "f")} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(f), 0o700), os.WriteFile(f, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"l": filepath.Join(outside, "d"), "m": filepath.Join(outside, "d", "secret")} {
		if err := os.Symlink(target, filepath.Join(tree, link)); err != nil {
			t.Fatal(err)
		}
	}
	var attack sync.WaitGroup
	done := make(chan struct{})
	attack.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for from, to := range map[string]string{"d": "l", "f": "m"} {
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(tree, from), unix.AT_FDCWD, filepath.Join(tree, to), unix.RENAME_EXCHANGE)
			}
		}
	})
	for i := range 500 {
		if _, err := a.client.Change(t.Context(), tree, core.FileChange{Mode: ptr(uint32(0o700 + i%8)), Recursive: true}); err != nil {
			t.Error(err)
		}
	}
	close(done)
	attack.Wait()
	if st, err := os.Stat(filepath.Join(outside, "d", "secret")); err != nil || st.Mode() != 0o600 {
		t.Errorf("a file outside is %v, %v", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Join(outside, "d")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("a directory outside is %v, %v", st.Mode(), err)
	}
}
