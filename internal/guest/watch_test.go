package guest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

// follow watches a directory and hands over what is told until an event is the last one.
func (a *agent) follow(t *testing.T, dir string, recursive bool) (core.FileWatch, func(last func(core.FileEvent) bool) []core.FileEvent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	w, err := a.client.Watch(ctx, dir, core.WatchOptions{Recursive: recursive})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w, func(last func(core.FileEvent) bool) (list []core.FileEvent) {
		t.Helper()
		for {
			e, err := w.Recv()
			if err != nil {
				t.Fatalf("after %d events: %v", len(list), err)
			}
			if list = append(list, e); last(e) {
				return list
			}
		}
	}
}

func created(name string) func(core.FileEvent) bool {
	return func(e core.FileEvent) bool {
		return e.Kind == core.FileCreated && filepath.Base(e.Path) == name
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func touch(name string) error { return os.WriteFile(name, nil, 0o600) }

// TestWatchTells: each kind of event, in order, with both names of a rename, and names that are bytes.
func TestWatchTells(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir, other := t.TempDir(), t.TempDir()
	in := func(name string) string { return dir + "/" + name }
	must(t, touch(in("old")), os.Mkdir(in("d"), 0o700), touch(in("d/unseen")), os.Symlink(other, in("link")))
	_, events := a.follow(t, dir, false)
	must(t,
		touch(in("f")), os.WriteFile(in("f"), []byte("x"), 0o600), os.Chmod(in("f"), 0o640), os.Rename(in("f"), in("g\xff")),
		os.Rename(in("g\xff"), other+"/out"), os.Rename(other+"/out", in("in")), os.Remove(in("in")),
		touch(in("d/below")), touch(other+"/behind a link"), os.Remove(in("link")), os.Chmod(dir, 0o755), os.Mkdir(in("end"), 0o700),
	)
	want := []core.FileEvent{
		{Kind: core.FileCreated, Path: in("f")},
		{Kind: core.FileWritten, Path: in("f")},
		{Kind: core.FileChanged, Path: in("f")},
		{Kind: core.FileRenamed, Path: in("f"), To: in("g\xff")},
		{Kind: core.FileRenamed, Path: in("g\xff")},
		{Kind: core.FileCreated, Path: in("in")},
		{Kind: core.FileRemoved, Path: in("in")},
		{Kind: core.FileRemoved, Path: in("link")},
		{Kind: core.FileChanged, Path: dir, Dir: true},
		{Kind: core.FileCreated, Path: in("end"), Dir: true},
	}
	if diff := cmp.Diff(want, events(created("end"))); diff != "" {
		t.Error(diff)
	}
}

// TestWatchOwnWrites: what is written through the host is told as if it had been written in place.
func TestWatchOwnWrites(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	f := dir + "/f"
	_, events := a.follow(t, dir, false)
	for _, opts := range []core.WriteOptions{{}, {}, {Append: true}} {
		if _, err := a.write(t, f, "text", opts); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.write(t, f+"2", "text", core.WriteOptions{Exclusive: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.client.Link(t.Context(), dir+"/l", "f", core.LinkOptions{Replace: true}); err != nil {
		t.Fatal(err)
	}
	must(t, touch(dir+"/end"))
	got := slices.CompactFunc(events(created("end")), func(x, y core.FileEvent) bool { return x == y })
	want := []core.FileEvent{
		{Kind: core.FileCreated, Path: f},
		{Kind: core.FileWritten, Path: f},
		{Kind: core.FileCreated, Path: f + "2"},
		{Kind: core.FileCreated, Path: dir + "/l"},
		{Kind: core.FileWritten, Path: dir + "/l"},
		{Kind: core.FileCreated, Path: dir + "/end"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestWatchRecursive: directories that are made, moved in, renamed and moved out are followed, and what they came with is told.
func TestWatchRecursive(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir, other := t.TempDir(), t.TempDir()
	in := func(name string) string { return dir + "/" + name }
	must(t, os.MkdirAll(in("a/b"), 0o700), os.MkdirAll(other+"/x/y", 0o700), touch(other+"/x/y/z"))
	_, events := a.follow(t, dir+"/", true)
	step := func(what string, want []core.FileEvent, acts ...error) {
		t.Helper()
		must(t, acts...)
		must(t, touch(in("end")), os.Remove(in("end")))
		got := events(func(e core.FileEvent) bool { return e.Kind == core.FileRemoved && e.Path == in("end") })
		if diff := cmp.Diff(want, got[:len(got)-2]); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
	step("deep", []core.FileEvent{{Kind: core.FileCreated, Path: in("a/b/f")}}, touch(in("a/b/f")))
	step("renamed", []core.FileEvent{{Kind: core.FileRenamed, Path: in("a"), To: in("c"), Dir: true}, {Kind: core.FileCreated, Path: in("c/b/g")}},
		os.Rename(in("a"), in("c")), touch(in("c/b/g")))
	step("moved in", []core.FileEvent{
		{Kind: core.FileCreated, Path: in("x"), Dir: true}, {Kind: core.FileCreated, Path: in("x/y"), Dir: true}, {Kind: core.FileCreated, Path: in("x/y/z")},
	}, os.Rename(other+"/x", in("x")))
	step("in it", []core.FileEvent{{Kind: core.FileRemoved, Path: in("x/y/z")}}, os.Remove(in("x/y/z")))
	step("moved out", []core.FileEvent{{Kind: core.FileRenamed, Path: in("c"), Dir: true}}, os.Rename(in("c"), other+"/c"), touch(other+"/c/b/nobody sees"))
	step("made", []core.FileEvent{{Kind: core.FileCreated, Path: in("m"), Dir: true}, {Kind: core.FileCreated, Path: in("m/n"), Dir: true}, {Kind: core.FileCreated, Path: in("m/n/o")}},
		os.MkdirAll(in("m/n"), 0o700), touch(in("m/n/o")))
	step("over", []core.FileEvent{
		{Kind: core.FileRenamed, Path: in("x/y"), To: in("m/y"), Dir: true}, {Kind: core.FileRemoved, Path: in("x"), Dir: true}, {Kind: core.FileCreated, Path: in("m/y/z")},
	}, os.Rename(in("x/y"), in("m/y")), os.Remove(in("x")), touch(in("m/y/z")))
}

// TestWatchEnds: it ends, and says so, when the directory goes, also by a move above it; and for good reasons it doesn't begin.
func TestWatchEnds(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	for what, end := range map[string]func(string) error{
		"removed":     os.Remove,
		"renamed":     func(d string) error { return os.Rename(d, d+"2") },
		"moved above": func(d string) error { return os.Rename(filepath.Dir(d), filepath.Dir(d)+"2") },
	} {
		d := filepath.Join(dir, what, "d")
		must(t, os.MkdirAll(d, 0o700))
		w, events := a.follow(t, d, true)
		must(t, end(d))
		list := events(func(e core.FileEvent) bool { return e.Kind == core.FileGone })
		if len(list) != 1 || list[0].Path != d {
			t.Errorf("%s: %+v", what, list)
		}
		if _, err := w.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: then %v", what, err)
		}
	}
	must(t, touch(dir+"/f"), os.Symlink("nothing", dir+"/l"))
	for path, code := range map[string]core.Code{dir + "/f": core.CodeInvalid, dir + "/no": core.CodeNotFound, dir + "/l": core.CodeNotFound} {
		_, err := a.client.Watch(t.Context(), path, core.WatchOptions{})
		wantCode(t, path, err, code, "path")
	}
}

// TestWatchBounds: no more watchers than there may be; one that goes makes room.
func TestWatchBounds(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	var first core.FileWatch
	for range 32 {
		first, _ = a.follow(t, dir, false)
	}
	_, err := a.client.Watch(t.Context(), dir, core.WatchOptions{})
	wantCode(t, "one too many", err, core.CodeExhausted, "")
	must(t, first.Close())
	deadline := time.Now().Add(10 * time.Second)
	for err != nil {
		var w core.FileWatch
		if w, err = a.client.Watch(t.Context(), dir, core.WatchOptions{}); err == nil {
			must(t, w.Close())
		} else if time.Now().After(deadline) {
			t.Fatalf("no room: %v", err)
		}
	}
}

// world is what a watcher makes of what it is told: which names there are, and whether they are directories.
type world struct {
	dir   string
	names map[string]bool
	// overflows counts how often it had to look again.
	overflows int
}

func look(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if p != dir && err == nil {
			names[p] = d.IsDir()
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func (w *world) tell(t *testing.T, e core.FileEvent) {
	t.Helper()
	switch e.Kind {
	case core.FileCreated:
		w.names[e.Path] = e.Dir
	case core.FileRemoved:
		w.forget(e.Path)
	case core.FileRenamed:
		moved := map[string]bool{}
		for p, dir := range w.names {
			if rest, ok := strings.CutPrefix(p, e.Path); ok && (rest == "" || rest[0] == '/') {
				moved[e.To+rest] = dir
			}
		}
		w.forget(e.Path)
		if e.To == "" {
			return
		}
		w.forget(e.To)
		for p, dir := range moved {
			w.names[p] = dir
		}
		w.names[e.To] = e.Dir
	case core.FileOverflow:
		w.overflows++
		w.names = look(t, w.dir)
	case core.FileWritten, core.FileChanged:
	case core.FileGone:
		t.Error("gone")
	}
}

func (w *world) forget(path string) {
	for p := range w.names {
		if rest, ok := strings.CutPrefix(p, path); ok && (rest == "" || rest[0] == '/') {
			delete(w.names, p)
		}
	}
}

// storm makes, renames and removes files and directories in a tree.
func storm(seed uint64, dir string, rounds int) {
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func() string {
		p := dir
		for range 1 + r.IntN(3) {
			p += fmt.Sprintf("/d%d", r.IntN(4))
		}
		return p
	}
	for range rounds {
		switch r.IntN(10) {
		case 0, 1, 2:
			_ = os.MkdirAll(pick(), 0o700)
		case 3, 4:
			_ = os.WriteFile(fmt.Sprintf("%s/f%d", pick(), r.IntN(5)), []byte("x"), 0o600)
		case 5, 6, 7:
			_ = os.Rename(pick(), pick())
		case 8:
			_ = os.Rename(fmt.Sprintf("%s/f%d", pick(), r.IntN(5)), fmt.Sprintf("%s/f%d", pick(), r.IntN(5)))
		case 9:
			_ = os.RemoveAll(pick())
		}
	}
}

// TestWatchAcrossARenameStorm: many rename files and directories at once, faster than anybody could look. In the end, and at each rest in
// between, what was told makes the tree that is there; if something could not be told, that was.
func TestWatchAcrossARenameStorm(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	_, events := a.follow(t, dir, true)
	w := &world{dir: dir, names: map[string]bool{}}
	total := 0
	for round := range 30 {
		var many sync.WaitGroup
		for i := range 1 + round%4 {
			many.Go(func() { storm(uint64(round*10+i), dir, 200) })
		}
		many.Wait()
		end := fmt.Sprintf("end-%d", round)
		must(t, touch(dir+"/"+end))
		reached := func(e core.FileEvent) bool {
			total++
			w.tell(t, e)
			_, ok := w.names[dir+"/"+end]
			return ok
		}
		events(reached)
		// What is told after the end mark can only repeat what was looked at; let it settle with a second mark.
		must(t, touch(dir+"/"+end+"-b"))
		events(func(e core.FileEvent) bool {
			reached(e)
			_, ok := w.names[dir+"/"+end+"-b"]
			return ok
		})
		if diff := cmp.Diff(look(t, dir), w.names); diff != "" {
			t.Fatalf("round %d, after %d events and %d overflows (-there +told):\n%s", round, total, w.overflows, diff)
		}
	}
	t.Logf("%d events, %d overflows", total, w.overflows)
}

// TestWatchOverflow: a reader that stands still costs no memory; what it missed is said, and what comes after is told.
func TestWatchOverflow(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	_, events := a.follow(t, dir, true)
	for i := range 60_000 {
		must(t, touch(fmt.Sprintf("%s/%0200d", dir, i)), os.Remove(fmt.Sprintf("%s/%0200d", dir, i)))
	}
	overflow := func(e core.FileEvent) bool { return e.Kind == core.FileOverflow && e.Path == dir }
	events(overflow)
	must(t, os.Mkdir(dir+"/d", 0o700), touch(dir+"/d/end"))
	events(created("end"))
}

// TestWatchOfAGreatTree: a tree that is moved in and holds more than can be told in bounded memory is an overflow, and watched all the same.
func TestWatchOfAGreatTree(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir, other := t.TempDir(), t.TempDir()
	deep := strings.TrimSuffix(strings.Repeat("/"+strings.Repeat("d", 200), 10), "/")
	for i := range 2 {
		at := fmt.Sprintf("%s/tree/%d%s", other, i, deep)
		must(t, os.MkdirAll(at, 0o700))
		for j := range 1500 {
			must(t, touch(fmt.Sprintf("%s/%d", at, j)))
		}
	}
	_, events := a.follow(t, dir, true)
	must(t, os.Rename(other+"/tree", dir+"/tree"))
	events(func(e core.FileEvent) bool {
		if e.Kind == core.FileChanged {
			t.Fatal("all of it was told")
		}
		if e.Kind == core.FileCreated {
			must(t, os.Chmod(dir, 0o755)) // comes behind what is told of the tree
		}
		return e.Kind == core.FileOverflow
	})
	must(t, touch(dir+"/tree/1"+deep+"/end"))
	events(created("end"))
}
