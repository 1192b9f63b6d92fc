// Package disktest is the contract of internal/disk as tests: every driver passes the same suite, and a capability that a
// driver lacks must answer unsupported.
//
// It knows drivers only by the contract. Start reading at Run.
package disktest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// Open opens a driver on a directory: on a fresh one, or again after the suite closed the last driver on it. It takes care
// that nothing is left when the test ends. The suite closes the driver.
type Open func(t *testing.T, dir string) disk.Driver

// Options adapt the suite to a driver.
type Options struct {
	// Attempt runs attempts to change a frozen tree. A driver that relies on permission bits sets it to a function that
	// runs them without the privilege to override these; nil runs them as they are.
	Attempt func(t *testing.T, attempts func())
}

// Run runs the suite.
func Run(t *testing.T, open Open, opts Options) {
	t.Helper()
	if dir := os.Getenv(crashDirEnv); dir != "" {
		churnUntilKilled(t, open, dir)
		return
	}
	s := &suite{open: open, opts: opts}
	for _, c := range []struct {
		name string
		run  func(*testing.T, *env)
	}{
		{"Create", s.create},
		{"CreateIsIncompleteUntilFrozen", s.incomplete},
		{"FrozenIsImmutable", s.immutable},
		{"CloneHasAllFiles", s.cloneFiles},
		{"ClonesAreIndependent", s.independent},
		{"CloneRefusals", s.cloneRefusals},
		{"CloneOfFrozenClone", s.chain},
		{"CloneOfLiveTree", s.live},
		{"CloneWhileWritten", s.liveWritten},
		{"Replace", s.replace},
		{"ReplaceRefusals", s.replaceRefusals},
		{"ReplaceWithOpenFile", s.replaceOpen},
		{"FrozenClone", s.frozenClone},
		{"ChainOfFrozenClones", s.middle},
		{"MalformedRefs", s.malformed},
		{"Missing", s.missing},
		{"Delete", s.delete},
		{"DeleteSourceOfClones", s.deleteSource},
		{"Quarantine", s.quarantine},
		{"Reopen", s.reopen},
		{"Killed", s.killed},
		{"Concurrent", s.concurrent},
		{"Limit", s.limit},
		{"Usage", s.usage},
		{"Written", s.written},
		{"Space", s.space},
		{"Canceled", s.canceled},
		{"Closed", s.closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &env{t: t, open: open, dir: t.TempDir()}
			e.reopen()
			t.Cleanup(func() { _ = e.d.Close() })
			c.run(t, e)
		})
	}
}

type suite struct {
	open Open
	opts Options
}

// attempt runs attempts to change a frozen tree.
func (s *suite) attempt(t *testing.T, attempts func()) {
	t.Helper()
	if s.opts.Attempt == nil {
		attempts()
		return
	}
	s.opts.Attempt(t, attempts)
}

// env is one test's driver, and short ways to use it.
type env struct {
	t    *testing.T
	open Open
	dir  string
	d    disk.Driver
}

func template(id string) disk.Ref   { return disk.Ref{Kind: disk.KindTemplate, ID: id} }
func sandbox(id string) disk.Ref    { return disk.Ref{Kind: disk.KindSandbox, ID: id} }
func checkpoint(id string) disk.Ref { return disk.Ref{Kind: disk.KindCheckpoint, ID: id} }

// reopen closes the driver, if there is one, and opens the directory again.
func (e *env) reopen() {
	e.t.Helper()
	if e.d != nil {
		e.ok(e.d.Close())
	}
	e.d = e.open(e.t, e.dir)
}

func (e *env) ok(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatalf("unexpected error: %v", err)
	}
}

func (e *env) code(err error, want core.Code) {
	e.t.Helper()
	var coreErr *core.Error
	if !errors.As(err, &coreErr) || coreErr.Code != want {
		e.t.Errorf("got error %v, want one of code %s", err, want)
	}
}

func (e *env) create(ref disk.Ref) string {
	e.t.Helper()
	path, err := e.d.Create(e.t.Context(), ref)
	e.ok(err)
	return path
}

// template makes a frozen template with the given files.
func (e *env) template(id string, files map[string]string) disk.Ref {
	e.t.Helper()
	ref := template(id)
	e.write(e.create(ref), files)
	e.ok(e.d.Freeze(e.t.Context(), ref))
	return ref
}

func (e *env) clone(from, to disk.Ref) string {
	e.t.Helper()
	path, err := e.d.Clone(e.t.Context(), from, to, disk.CloneOptions{})
	e.ok(err)
	return path
}

func (e *env) path(ref disk.Ref) string {
	e.t.Helper()
	path, err := e.d.Path(ref)
	e.ok(err)
	return path
}

func (e *env) write(dir string, files map[string]string) {
	e.t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		e.ok(os.MkdirAll(filepath.Dir(path), 0o755))
		e.ok(os.WriteFile(path, []byte(text), 0o644))
	}
}

// wantFiles compares the regular files of a tree.
func (e *env) wantFiles(dir string, want map[string]string) {
	e.t.Helper()
	got := map[string]string{}
	e.ok(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		got[strings.TrimPrefix(path, dir+"/")] = string(b)
		return err
	}))
	if diff := cmp.Diff(want, got); diff != "" {
		e.t.Errorf("files of %s (-want +got):\n%s", dir, diff)
	}
}

func (e *env) wantList(want ...disk.Tree) {
	e.t.Helper()
	got, err := e.d.List(e.t.Context())
	e.ok(err)
	order := func(a, b disk.Tree) int {
		return strings.Compare(string(a.Ref.Kind)+a.Ref.ID, string(b.Ref.Kind)+b.Ref.ID)
	}
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		e.t.Errorf("list (-want +got):\n%s", diff)
	}
}

func frozen(ref disk.Ref) disk.Tree   { return disk.Tree{Ref: ref, Frozen: true, Complete: true} }
func writable(ref disk.Ref) disk.Tree { return disk.Tree{Ref: ref, Complete: true} }
func half(ref disk.Ref) disk.Tree     { return disk.Tree{Ref: ref} }
