package guest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

// plant makes files (and directories, which end with a slash) below a directory.
func plant(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		full := filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(n, "/") {
			err = os.MkdirAll(full, 0o755)
		} else {
			err = os.WriteFile(full, []byte(n), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// walk collects a whole walk, in pages of the size.
func (a *agent) walk(t *testing.T, root string, depth, limit int) (list []string) {
	t.Helper()
	opts := core.WalkOptions{Depth: depth, Limit: limit}
	for {
		page, more, err := a.client.Walk(t.Context(), root, opts)
		if err != nil {
			t.Fatalf("walk %s: %v", root, err)
		}
		for _, f := range page {
			list = append(list, strings.TrimPrefix(f.Path, root+"/"))
			opts.After = f.Path
		}
		if !more {
			return list
		}
	}
}

func TestWalk(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	plant(t, dir, "a/x/1", "a/x/2", "a/y", "a.b", "b/", "c/d/e/f", "é")
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	all := []string{"a", "a/x", "a/x/1", "a/x/2", "a/y", "a.b", "b", "c", "c/d", "c/d/e", "c/d/e/f", "link", "é"}
	for depth, want := range map[int][]string{
		1:       {"a", "a.b", "b", "c", "link", "é"},
		2:       {"a", "a/x", "a/y", "a.b", "b", "c", "c/d", "link", "é"},
		1 << 30: all,
	} {
		for _, limit := range []int{1, 2, 3, len(want), 1000} {
			if diff := cmp.Diff(want, a.walk(t, dir, depth, limit)); diff != "" {
				t.Errorf("depth %d, pages of %d (-want +got):\n%s", depth, limit, diff)
			}
		}
	}
	// A link at the root is followed, and the paths stay as the caller knows them.
	if got := a.walk(t, dir+"/link", 1, 10); !cmp.Equal(got, []string{"x", "y"}) {
		t.Errorf("through a link: %q", got)
	}
	if _, _, err := a.client.Walk(t.Context(), dir, core.WalkOptions{Depth: 1, After: "/elsewhere", Limit: 1}); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("a page behind another tree: %v", err)
	}
	for name, code := range map[string]core.Code{"none": core.CodeNotFound, "a.b": core.CodeInvalid} {
		if _, _, err := a.client.Walk(t.Context(), dir+"/"+name, core.WalkOptions{Depth: 1, Limit: 10}); !core.IsCode(err, code) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWalkPagesBySize: a page never outgrows a frame, whatever the names are.
func TestWalkPagesBySize(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	long := strings.Repeat("\x01", 200)
	for i := range 700 {
		plant(t, dir, fmt.Sprintf("%s/%03d%s", long, i, long))
	}
	if got := a.walk(t, dir, 2, 1000); len(got) != 701 {
		t.Errorf("%d files", len(got))
	}
}

func TestWalkLinks(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	plant(t, dir, "file", "sub/")
	for name, target := range map[string]string{"f": "file", "twice": "f", "d": dir + "/sub", "nowhere": "none", "circle": "circle"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]*core.FinalFile{
		"f":       {Path: dir + "/file", Type: core.FileRegular, Mode: 0o644},
		"twice":   {Path: dir + "/file", Type: core.FileRegular, Mode: 0o644},
		"d":       {Path: dir + "/sub", Type: core.FileDirectory, Mode: 0o755},
		"nowhere": nil,
		"circle":  nil,
		"file":    nil,
	} {
		page, more, err := a.client.Walk(t.Context(), dir+"/"+name, core.WalkOptions{Limit: 1})
		if err != nil || more || len(page) != 1 || page[0].Name != name {
			t.Errorf("%s: %+v, %v, %v", name, page, more, err)
			continue
		}
		if diff := cmp.Diff(want, page[0].Final); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, _, err := a.client.Walk(t.Context(), dir+"/none", core.WalkOptions{Limit: 1}); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("nothing there: %v", err)
	}
}

func TestExclusive(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	opts := core.WriteOptions{Parents: true, Exclusive: true}
	if _, err := a.write(t, dir+"/p/f", "one", opts); err != nil {
		t.Errorf("a new file: %v", err)
	}
	if _, err := a.write(t, dir+"/p/f", "two", opts); !core.IsCode(err, core.CodeExists) {
		t.Errorf("an existing file: %v", err)
	}
	if list, err := os.ReadDir(dir + "/p"); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	if _, text, err := a.read(t, dir+"/p/f", 0, -1); err != nil || text != "one" {
		t.Errorf("content: %q, %v", text, err)
	}
	if err := a.client.Mkdir(t.Context(), dir+"/q/r", opts); err != nil {
		t.Errorf("a new directory: %v", err)
	}
	for _, name := range []string{"/q/r", "/q", "/p/f"} {
		if err := a.client.Mkdir(t.Context(), dir+name, opts); !core.IsCode(err, core.CodeExists) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := a.client.Mkdir(t.Context(), dir+"/q/r", core.WriteOptions{Parents: true}); err != nil {
		t.Errorf("parents without exclusive: %v", err)
	}
}
