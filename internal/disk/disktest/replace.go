package disktest

import (
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// replace holds that a tree gets the files of another one and nothing of its own stays, at the same path, and that the two are as
// independent as a clone and its source.
func (s *suite) replace(t *testing.T, e *env) {
	t.Helper()
	e.template("abc", map[string]string{"f": "template"})
	root := e.clone(template("abc"), sandbox("abc"))
	e.write(root, map[string]string{"f": "changed", "d/new": "1"})
	path, err := e.d.Replace(t.Context(), template("abc"), sandbox("abc"), disk.CloneOptions{})
	e.ok(err)
	if path != root || e.path(sandbox("abc")) != root {
		t.Errorf("Replace returned %q, and Path %q, for %q", path, e.path(sandbox("abc")), root)
	}
	e.wantFiles(root, map[string]string{"f": "template"})
	e.write(root, map[string]string{"f": "again"})
	e.wantFiles(e.path(template("abc")), map[string]string{"f": "template"})
	e.wantList(frozen(template("abc")), writable(sandbox("abc")))
	e.reopen()
	e.wantFiles(root, map[string]string{"f": "again"})
	e.wantList(frozen(template("abc")), writable(sandbox("abc")))

	// What was frozen of the old tree, and what was cloned of it, doesn't go with it.
	_, err = e.d.Clone(t.Context(), sandbox("abc"), checkpoint("abc"), disk.CloneOptions{Live: true})
	e.ok(err)
	e.ok(e.d.Freeze(t.Context(), checkpoint("abc")))
	_, err = e.d.Replace(t.Context(), template("abc"), sandbox("abc"), disk.CloneOptions{})
	e.ok(err)
	e.wantFiles(e.path(checkpoint("abc")), map[string]string{"f": "again"})
	_, err = e.d.Replace(t.Context(), checkpoint("abc"), sandbox("abc"), disk.CloneOptions{})
	e.ok(err)
	e.wantFiles(root, map[string]string{"f": "again"})
}

// replaceRefusals holds that a Replace which fails leaves what it was to replace, and nothing else.
func (s *suite) replaceRefusals(t *testing.T, e *env) {
	t.Helper()
	e.template("abc", map[string]string{"f": "template"})
	root := e.clone(template("abc"), sandbox("abc"))
	e.write(root, map[string]string{"f": "mine"})
	live := e.clone(template("abc"), sandbox("live"))
	e.write(live, map[string]string{"f": "live"})
	for _, c := range []struct {
		name     string
		from, to disk.Ref
		opts     disk.CloneOptions
		want     core.Code
	}{
		{"no source", template("none"), sandbox("abc"), disk.CloneOptions{}, core.CodeNotFound},
		{"nothing to replace", template("abc"), sandbox("none"), disk.CloneOptions{}, core.CodeNotFound},
		{"source not frozen", sandbox("live"), sandbox("abc"), disk.CloneOptions{}, core.CodeConflict},
		{"itself", sandbox("abc"), sandbox("abc"), disk.CloneOptions{Live: true}, core.CodeInvalid},
		{"malformed", disk.Ref{Kind: disk.KindTemplate, ID: "../x"}, sandbox("abc"), disk.CloneOptions{}, core.CodeInvalid},
		{"negative limit", template("abc"), sandbox("abc"), disk.CloneOptions{LimitBytes: -1}, core.CodeInvalid},
	} {
		_, err := e.d.Replace(t.Context(), c.from, c.to, c.opts)
		if !core.IsCode(err, c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
		e.wantFiles(root, map[string]string{"f": "mine"})
		e.wantList(frozen(template("abc")), writable(sandbox("abc")), writable(sandbox("live")))
	}
	_, err := e.d.Replace(t.Context(), sandbox("live"), sandbox("abc"), disk.CloneOptions{Live: true})
	e.ok(err)
	e.wantFiles(root, map[string]string{"f": "live"})
}

// replaceOpen holds that a file which is still open doesn't hold a Replace up.
func (s *suite) replaceOpen(t *testing.T, e *env) {
	t.Helper()
	e.template("abc", map[string]string{"f": "template"})
	root := e.clone(template("abc"), sandbox("abc"))
	f, err := os.OpenFile(filepath.Join(root, "f"), os.O_RDWR, 0)
	e.ok(err)
	defer f.Close()
	_, err = e.d.Replace(t.Context(), template("abc"), sandbox("abc"), disk.CloneOptions{})
	e.ok(err)
	_, err = f.WriteString("late")
	e.ok(err)
	e.wantFiles(root, map[string]string{"f": "template"})
}
