package disktest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// live clones a tree that may be written and that nobody writes at the moment, without a flush of what was written to it.
func (s *suite) live(t *testing.T, e *env) {
	t.Helper()
	ref := e.template("abc", map[string]string{"f": "x"})
	a := e.clone(ref, sandbox("a"))
	open, err := os.Create(filepath.Join(a, "open"))
	e.ok(err)
	defer open.Close()
	_, err = open.WriteString("not flushed")
	e.ok(err)
	e.write(a, map[string]string{"f": "y", "d/g": "z"})
	_, err = e.d.Clone(t.Context(), sandbox("a"), template("t"), disk.CloneOptions{})
	e.code(err, core.CodeConflict)
	e.ok(e.d.Flush(t.Context(), ref))
	e.ok(e.d.Flush(t.Context(), sandbox("a")))
	e.write(a, map[string]string{"f": "y"})
	path, err := e.d.Clone(t.Context(), sandbox("a"), template("t"), disk.CloneOptions{Live: true})
	e.ok(err)
	want := map[string]string{"f": "y", "d/g": "z", "open": "not flushed"}
	e.wantFiles(path, want)
	e.wantList(frozen(ref), writable(sandbox("a")), writable(template("t")))
	// Neither sees what becomes of the other.
	e.write(a, map[string]string{"f": "later"})
	e.write(path, map[string]string{"mine": "1"})
	e.ok(e.d.Freeze(t.Context(), template("t")))
	want["mine"] = "1"
	e.wantFiles(path, want)
	e.wantFiles(a, map[string]string{"f": "later", "d/g": "z", "open": "not flushed"})
	e.wantFiles(e.clone(template("t"), sandbox("b")), want)
	// A frozen one may be asked for in the same way.
	path, err = e.d.Clone(t.Context(), template("t"), sandbox("c"), disk.CloneOptions{Live: true})
	e.ok(err)
	e.wantFiles(path, want)
}

// liveWritten clones a tree whose writer counts on in two files: what it had written before is in each clone.
func (s *suite) liveWritten(t *testing.T, e *env) {
	t.Helper()
	ref := e.template("abc", map[string]string{"f": "x"})
	a := e.clone(ref, sandbox("a"))
	stop, writer := make(chan struct{}), sync.WaitGroup{}
	defer writer.Wait()
	defer close(stop)
	written := make(chan uint64)
	writer.Go(func() { count(t, a, stop, written) })
	for i := range 20 {
		before := <-written
		to := template(fmt.Sprintf("t%d", i))
		path, err := e.d.Clone(t.Context(), sandbox("a"), to, disk.CloneOptions{Live: true})
		e.ok(err)
		after := <-written
		for _, name := range []string{"first", "second"} {
			if n := number(t, path, name); n < before || n > after+1 {
				t.Errorf("in a clone of what was %d before and %d after, %s is %d", before, after, name, n)
			}
		}
		e.ok(e.d.Delete(t.Context(), to))
	}
}

// count writes 1, 2, 3… into two files, and tells what is in both.
func count(t *testing.T, dir string, stop <-chan struct{}, written chan<- uint64) {
	t.Helper()
	var files [2]*os.File
	for i, name := range []string{"first", "second"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		files[i] = f
	}
	for n := uint64(1); ; n++ {
		for _, f := range files {
			if _, err := f.WriteAt(binary.BigEndian.AppendUint64(nil, n), 0); err != nil {
				t.Error(err)
				return
			}
		}
		select {
		case <-stop:
			return
		case written <- n:
		default:
		}
	}
}

func number(t *testing.T, dir, name string) uint64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || len(b) != 8 {
		t.Fatalf("%s: %d bytes, %v", name, len(b), err)
	}
	return binary.BigEndian.Uint64(b)
}
