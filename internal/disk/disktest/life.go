package disktest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
)

func (s *suite) delete(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	ref := e.template("abc", map[string]string{"f": "x"})
	path := e.clone(ref, sandbox("a"))
	e.create(template("half"))

	// A file that somebody has open doesn't hold a delete back.
	f, err := os.Create(filepath.Join(path, "open"))
	e.ok(err)
	defer f.Close()
	for range 2 {
		e.ok(e.d.Delete(ctx, sandbox("a")))
		e.ok(e.d.Delete(ctx, template("half")))
	}
	e.wantList(frozen(ref))
	_, err = e.d.Path(sandbox("a"))
	e.code(err, core.CodeNotFound)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("a deleted tree is still at %s: %v", path, err)
	}
	_, err = e.d.Usage(ctx, sandbox("a"))
	e.code(err, core.CodeNotFound)
	// The name is free again.
	e.wantFiles(e.clone(ref, sandbox("a")), map[string]string{"f": "x"})
}

func (s *suite) deleteSource(t *testing.T, e *env) {
	t.Helper()
	ref := e.template("abc", map[string]string{"f": "x", "d/g": "y"})
	a, b := e.clone(ref, sandbox("a")), e.clone(ref, sandbox("b"))
	e.write(a, map[string]string{"mine": "a"})
	e.ok(e.d.Delete(t.Context(), ref))
	e.wantList(writable(sandbox("a")), writable(sandbox("b")))
	e.reopen()
	e.wantFiles(a, map[string]string{"f": "x", "d/g": "y", "mine": "a"})
	e.wantFiles(b, map[string]string{"f": "x", "d/g": "y"})
	_, err := e.d.Clone(t.Context(), ref, sandbox("c"), disk.CloneOptions{})
	e.code(err, core.CodeNotFound)
}

func (s *suite) quarantine(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	ref := e.template("abc", map[string]string{"f": "x"})
	clone := e.clone(ref, sandbox("a"))
	e.create(template("half"))
	purge := func(age time.Duration, want int) {
		t.Helper()
		n, err := e.d.PurgeQuarantine(ctx, age)
		e.ok(err)
		if n != want {
			t.Errorf("purged %d trees, want %d", n, want)
		}
	}

	purge(0, 0)
	for _, r := range []disk.Ref{ref, sandbox("a"), template("half")} {
		e.ok(e.d.Quarantine(ctx, r))
		_, err := e.d.Path(r)
		e.code(err, core.CodeNotFound)
		e.code(e.d.Quarantine(ctx, r), core.CodeNotFound)
	}
	e.wantList()
	if _, err := os.Lstat(clone); !os.IsNotExist(err) {
		t.Errorf("a tree that was set aside is still at its path: %v", err)
	}
	// The name is free, and may be set aside again beside the first.
	ref = e.template("abc", map[string]string{"f": "second"})
	e.wantFiles(e.clone(ref, sandbox("a")), map[string]string{"f": "second"})
	e.ok(e.d.Quarantine(ctx, sandbox("a")))
	// Deleting the name doesn't reach what is set aside.
	e.ok(e.d.Delete(ctx, sandbox("a")))
	purge(time.Hour, 0)
	e.reopen()
	purge(time.Hour, 0)
	purge(0, 4)
	purge(0, 0)
	e.wantList(frozen(ref))
}

func (s *suite) reopen(t *testing.T, e *env) {
	t.Helper()
	ref := e.template("abc", map[string]string{"f": "x"})
	a := e.clone(ref, sandbox("a"))
	e.write(a, map[string]string{"mine": "y"})
	cp := checkpoint("cp")
	e.clone(ref, cp)
	e.ok(e.d.Freeze(t.Context(), cp))
	e.create(template("half"))
	for range 2 {
		e.reopen()
		e.wantList(frozen(ref), writable(sandbox("a")), frozen(cp), half(template("half")))
		e.wantFiles(e.path(ref), map[string]string{"f": "x"})
		if got := e.path(sandbox("a")); got != a {
			t.Errorf("path was %q and is %q now", a, got)
		}
		e.wantFiles(a, map[string]string{"f": "x", "mine": "y"})
	}
	e.wantFiles(e.clone(ref, sandbox("b")), map[string]string{"f": "x"})
}

func (s *suite) concurrent(t *testing.T, e *env) {
	t.Helper()
	files := map[string]string{"f": "x", "d/g": "y"}
	ref := e.template("abc", files)
	ctx := t.Context()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 5 {
				id := fmt.Sprintf("w%dn%d", worker, i)
				if err := churn(ctx, e.d, ref, id); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	wg.Wait()
	e.wantFiles(e.path(ref), files)
	got, err := e.d.List(ctx)
	e.ok(err)
	if len(got) != 1 {
		t.Errorf("%d trees are left, want the template only: %v", len(got), got)
	}
}

// churn makes, looks at and removes one sandbox's tree.
func churn(ctx context.Context, d disk.Driver, from disk.Ref, id string) error {
	ref := sandbox(id)
	path, err := d.Clone(ctx, from, ref, disk.CloneOptions{})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(path, "f"), []byte(id), 0o644); err != nil {
		return err
	}
	if _, err := d.List(ctx); err != nil {
		return err
	}
	if _, err := d.Usage(ctx, ref); err != nil {
		return err
	}
	if _, err := d.Space(ctx); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(path, "f"))
	if err != nil || string(b) != id {
		return fmt.Errorf("read %q, %w", b, err)
	}
	return d.Delete(ctx, ref)
}

func (s *suite) space(t *testing.T, e *env) {
	t.Helper()
	got, err := e.d.Space(t.Context())
	e.ok(err)
	if got.FreeBytes <= 0 || got.TotalBytes < got.FreeBytes || got.AllocatedBytes < 0 {
		t.Errorf("space makes no sense: %+v", got)
	}
}

func (s *suite) canceled(t *testing.T, e *env) {
	t.Helper()
	ref := e.template("abc", map[string]string{"f": "x"})
	e.clone(ref, sandbox("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(ctx, e.d, ref) {
		if err := call(); core.CodeOf(err) != core.CodeCanceled {
			t.Errorf("%s: got %v, want canceled", name, err)
		}
	}
	e.wantList(frozen(ref), writable(sandbox("a")))
}

func (s *suite) closed(t *testing.T, e *env) {
	t.Helper()
	ref := e.template("abc", map[string]string{"f": "x"})
	e.clone(ref, sandbox("a"))
	e.ok(e.d.Close())
	e.ok(e.d.Close())
	for name, call := range calls(t.Context(), e.d, ref) {
		if err := call(); core.CodeOf(err) != core.CodeUnavailable {
			t.Errorf("%s: got %v, want unavailable", name, err)
		}
	}
}

// calls are calls of every method with a context, which would change or read something.
func calls(ctx context.Context, d disk.Driver, from disk.Ref) map[string]func() error {
	return map[string]func() error{
		"Create":          func() error { _, err := d.Create(ctx, sandbox("n")); return err },
		"Clone":           func() error { _, err := d.Clone(ctx, from, sandbox("n"), disk.CloneOptions{}); return err },
		"Freeze":          func() error { return d.Freeze(ctx, sandbox("a")) },
		"Delete":          func() error { return d.Delete(ctx, sandbox("a")) },
		"Quarantine":      func() error { return d.Quarantine(ctx, sandbox("a")) },
		"PurgeQuarantine": func() error { _, err := d.PurgeQuarantine(ctx, 0); return err },
		"List":            func() error { _, err := d.List(ctx); return err },
		"Usage":           func() error { _, err := d.Usage(ctx, sandbox("a")); return err },
		"Limit":           func() error { return d.Limit(ctx, sandbox("a"), 1<<30) },
		"Space":           func() error { _, err := d.Space(ctx); return err },
	}
}
