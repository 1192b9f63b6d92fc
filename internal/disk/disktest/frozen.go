package disktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// frozenClone makes clones that are immutable from their first moment: of a tree that may be written, and of each other.
func (s *suite) frozenClone(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	ref := e.template("abc", map[string]string{"f": "x"})
	a := e.clone(ref, sandbox("a"))
	e.write(a, map[string]string{"f": "not flushed", "d/g": "z"})
	frozenLive := disk.CloneOptions{Live: true, Frozen: true}
	_, err := e.d.Clone(ctx, sandbox("a"), checkpoint("c"), disk.CloneOptions{Frozen: true})
	e.code(err, core.CodeConflict)
	_, err = e.d.Clone(ctx, sandbox("a"), checkpoint("c"), disk.CloneOptions{Live: true, Frozen: true, LimitBytes: mib})
	e.code(err, core.CodeInvalid)
	path, err := e.d.Clone(ctx, sandbox("a"), checkpoint("c"), frozenLive)
	e.ok(err)
	e.wantList(frozen(ref), writable(sandbox("a")), frozen(checkpoint("c")))
	if p := e.path(checkpoint("c")); p != path {
		t.Errorf("it is at %s, and Clone said %s", p, path)
	}
	s.attempt(t, func() {
		for what, err := range map[string]error{
			"a new file": os.WriteFile(filepath.Join(path, "new"), nil, 0o644), "a change": os.WriteFile(filepath.Join(path, "f"), nil, 0o644),
			"a remove": os.Remove(filepath.Join(path, "d", "g")),
		} {
			if err == nil {
				t.Errorf("%s in a frozen clone succeeded", what)
			}
		}
	})
	_, err = e.d.Clone(ctx, sandbox("a"), checkpoint("c"), frozenLive)
	e.code(err, core.CodeExists)
	e.ok(e.d.Freeze(ctx, checkpoint("c"))) // it is
	// The source goes on, and what starts from the clone is writable and a tree of its own.
	e.write(a, map[string]string{"f": "later"})
	want := map[string]string{"f": "not flushed", "d/g": "z"}
	e.wantFiles(path, want)
	second, err := e.d.Clone(ctx, checkpoint("c"), checkpoint("d"), disk.CloneOptions{Frozen: true})
	e.ok(err)
	b := e.clone(checkpoint("d"), sandbox("b"))
	e.write(b, map[string]string{"f": "mine", "new": "1"})
	e.ok(e.d.Delete(ctx, checkpoint("c")))
	e.wantFiles(second, want)
	e.wantFiles(b, map[string]string{"f": "mine", "d/g": "z", "new": "1"})
	e.wantFiles(a, map[string]string{"f": "later", "d/g": "z"})
	e.reopen()
	e.wantList(frozen(ref), writable(sandbox("a")), writable(sandbox("b")), frozen(checkpoint("d")))
	e.wantFiles(e.path(checkpoint("d")), want)
}

// middle removes links of a chain of frozen clones: no other loses anything.
func (s *suite) middle(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	ref := e.template("abc", map[string]string{"f": "x"})
	a := e.clone(ref, sandbox("a"))
	const links = 6
	want := make([]map[string]string, links)
	link := func(i int) disk.Ref { return checkpoint(fmt.Sprintf("c%d", i)) }
	for i := range links {
		e.write(a, map[string]string{fmt.Sprintf("f%d", i): strings.Repeat("x", 10000+i), "f": fmt.Sprint(i)})
		want[i] = map[string]string{"f": fmt.Sprint(i)}
		for j := range i + 1 {
			want[i][fmt.Sprintf("f%d", j)] = strings.Repeat("x", 10000+j)
		}
		_, err := e.d.Clone(ctx, sandbox("a"), link(i), disk.CloneOptions{Live: true, Frozen: true})
		e.ok(err)
	}
	gone := map[int]bool{}
	for _, i := range []int{2, 0, 3} {
		gone[i] = true
		e.ok(e.d.Delete(ctx, link(i)))
		for j := range links {
			if !gone[j] {
				e.wantFiles(e.path(link(j)), want[j])
			}
		}
	}
	e.ok(e.d.Delete(ctx, sandbox("a")))
	e.ok(e.d.Delete(ctx, ref))
	e.reopen()
	for _, j := range []int{1, 4, 5} {
		e.wantFiles(e.path(link(j)), want[j])
	}
}

// written asks for what is kept of a tree's writes by its clones, once it is gone itself.
func (s *suite) written(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	ref := e.template("abc", map[string]string{"f": "x"})
	path := e.clone(ref, sandbox("a"))
	u, err := e.d.Usage(ctx, sandbox("a"))
	e.ok(err)
	if !e.d.Capabilities().Quota {
		_, err = e.d.Written(ctx, u.Origin)
		e.code(err, core.CodeUnsupported)
		if u.Origin != "" {
			t.Errorf("without quotas its origin is %q", u.Origin)
		}
		return
	}
	if v, err := e.d.Usage(ctx, ref); err != nil || u.Origin == "" || u.Origin == v.Origin {
		t.Errorf("two trees have the origins %q and %q, %v", u.Origin, v.Origin, err)
	}
	kept := func() int64 {
		t.Helper()
		n, err := e.d.Written(ctx, u.Origin)
		e.ok(err)
		return n
	}
	e.ok(writeSynced(filepath.Join(path, "f"), 6*mib))
	for _, name := range []string{"c", "d"} {
		_, err = e.d.Clone(ctx, sandbox("a"), checkpoint(name), disk.CloneOptions{Live: true, Frozen: true})
		e.ok(err)
	}
	e.ok(writeSynced(filepath.Join(path, "g"), 3*mib))
	if n := kept(); n < 9*mib || n > 10*mib {
		t.Errorf("%d bytes are kept of the 9 MiB that it wrote", n)
	}
	e.ok(e.d.Delete(ctx, sandbox("a")))
	eventually(t, "what only the tree had is given back", func() bool {
		e.ok(syncFS(e.path(ref)))
		return kept() < 7*mib
	})
	e.reopen()
	e.ok(e.d.Delete(ctx, checkpoint("c")))
	if n := kept(); n < 6*mib || n > 7*mib {
		t.Errorf("%d bytes are kept of the 6 MiB that a clone has", n)
	}
	e.ok(e.d.Delete(ctx, checkpoint("d")))
	eventually(t, "what the last clone had is given back", func() bool {
		e.ok(syncFS(e.path(ref)))
		return kept() == 0
	})
	for _, origin := range []string{"", "nonsense", "x/y", strings.Replace(u.Origin, "/", "0/", 1)} {
		if n, err := e.d.Written(ctx, origin); n != 0 || err != nil {
			t.Errorf("of origin %q %d bytes are kept, %v", origin, n, err)
		}
	}
}
