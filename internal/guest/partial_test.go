package guest_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

func (a *agent) part(t *testing.T, path string, o core.PartOptions, r io.Reader) (core.PartialFile, error) {
	t.Helper()
	return a.client.WritePart(t.Context(), path, o, r)
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// until waits for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

// TestPartial: a file comes in parts, one of which breaks off; it takes its place at the end, and the end can be asked for again.
func TestPartial(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	o := core.PartOptions{Partial: "p", More: true}
	p, err := a.part(t, name, o, strings.NewReader("0123"))
	if err != nil || p.Size != 4 || p.Whole || p.Path != name || time.Until(p.ExpiresAt) < 50*time.Minute {
		t.Fatalf("first part: %+v, %v", p, err)
	}
	o.Offset = 4
	cut := io.MultiReader(strings.NewReader("456"), iotest.ErrReader(errors.New("gone")))
	if _, err := a.part(t, name, o, cut); !core.IsCode(err, core.CodeInvalid) {
		t.Fatalf("broken part: %v", err)
	}
	until(t, "the part that broke off", func() bool {
		p, err = a.client.PartialFile(t.Context(), "p")
		return err == nil && p.Size == 7
	})
	if b, _ := os.ReadFile(name); string(b) != "old" {
		t.Errorf("in its place already: %q", b)
	}
	until(t, "the connection that broke off", func() bool {
		_, err = a.part(t, name, o, strings.NewReader("x"))
		return core.IsCode(err, core.CodeConflict) && strings.Contains(err.Error(), "7 bytes")
	})
	wantCode(t, "wrong offset", err, core.CodeConflict, "offset")

	sum := sha256.Sum256([]byte("0123456789"))
	o.Offset, o.More, o.SHA256 = 7, false, sum[:]
	p, err = a.part(t, name, o, strings.NewReader("789"))
	if err != nil || !p.Whole || p.Size != 10 || p.File.Size != 10 || p.File.Mode != 0o640 || !slices.Equal(p.SHA256, sum[:]) {
		t.Fatalf("last part: %+v, %v", p, err)
	}
	if b, _ := os.ReadFile(name); string(b) != "0123456789" {
		t.Errorf("%q", b)
	}
	if got := entries(t, dir); !slices.Equal(got, []string{"f"}) {
		t.Errorf("beside it: %q", got)
	}

	o.Offset = 10
	if again, err := a.part(t, name, o, strings.NewReader("")); err != nil || !again.Whole || again.File.Version != p.File.Version {
		t.Errorf("the end again: %+v, %v", again, err)
	}
	_, err = a.part(t, name, o, strings.NewReader("x"))
	wantCode(t, "more than all", err, core.CodeConflict, "offset")
	if err := a.client.DropPartial(t.Context(), "p"); err != nil {
		t.Error(err)
	}
	_, err = a.client.PartialFile(t.Context(), "p")
	wantCode(t, "forgotten", err, core.CodeNotFound, "partial")
	if b, _ := os.ReadFile(name); string(b) != "0123456789" {
		t.Errorf("forgetting changed the file: %q", b)
	}
}

// TestPartialRefused: what a part can't be, and what each refusal leaves.
func TestPartialRefused(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	o := core.PartOptions{Partial: "p", More: true}
	if _, err := a.part(t, name, o, strings.NewReader("0123")); err != nil {
		t.Fatal(err)
	}
	with := func(f func(*core.PartOptions)) core.PartOptions {
		o := core.PartOptions{Partial: "p", Offset: 4}
		f(&o)
		return o
	}
	for what, c := range map[string]struct {
		path  string
		o     core.PartOptions
		code  core.Code
		field string
	}{
		"no name":        {name, with(func(o *core.PartOptions) { o.Partial = "" }), core.CodeInvalid, "partial"},
		"long name":      {name, with(func(o *core.PartOptions) { o.Partial = strings.Repeat("x", 129) }), core.CodeInvalid, "partial"},
		"negative":       {name, with(func(o *core.PartOptions) { o.Offset = -1 }), core.CodeInvalid, "offset"},
		"append":         {name, with(func(o *core.PartOptions) { o.Append = true }), core.CodeInvalid, "append"},
		"short digest":   {name, with(func(o *core.PartOptions) { o.SHA256 = []byte("x") }), core.CodeInvalid, "Repr-Digest"},
		"other path":     {name + "x", with(func(*core.PartOptions) {}), core.CodeConflict, "partial"},
		"other mode":     {name, with(func(o *core.PartOptions) { o.Mode = 0o600 }), core.CodeConflict, "partial"},
		"again":          {name, with(func(o *core.PartOptions) { o.Offset = 0 }), core.CodeConflict, "offset"},
		"behind":         {name, with(func(o *core.PartOptions) { o.Offset = 5 }), core.CodeConflict, "offset"},
		"unknown":        {name, with(func(o *core.PartOptions) { o.Partial = "q" }), core.CodeConflict, "offset"},
		"no directory":   {dir + "/no/f", core.PartOptions{Partial: "n"}, core.CodeNotFound, "path"},
		"device":         {"/dev/null", core.PartOptions{Partial: "d"}, core.CodeUnsupported, ""},
		"a directory":    {dir, core.PartOptions{Partial: "dir"}, core.CodeInvalid, "path"},
		"the old digest": {name, core.PartOptions{Partial: "w", SHA256: make([]byte, 32)}, core.CodeInvalid, "Repr-Digest"},
	} {
		_, err := a.part(t, c.path, c.o, strings.NewReader("x"))
		wantCode(t, what, err, c.code, c.field)
	}
	for _, name := range []string{"n", "d", "dir", "w", "q"} {
		_, err := a.client.PartialFile(t.Context(), name)
		wantCode(t, "left of "+name, err, core.CodeNotFound, "partial")
	}
	if got := entries(t, dir); len(got) != 1 || !strings.HasPrefix(got[0], ".shoal-new-") {
		t.Errorf("in the directory: %q", got)
	}
	if p, err := a.client.PartialFile(t.Context(), "p"); err != nil || p.Size != 4 {
		t.Errorf("what was there: %+v, %v", p, err)
	}
}

// TestPartialBusy: one writer at a time; what it writes can't be dropped, and how far it is can be asked.
func TestPartialBusy(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	name := filepath.Join(t.TempDir(), "f")
	r, w := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		_, err := a.client.WritePart(t.Context(), name, core.PartOptions{Partial: "p"}, r)
		wrote <- err
	}()
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	until(t, "part of the part", func() bool {
		p, err := a.client.PartialFile(t.Context(), "p")
		return err == nil && p.Size > 0
	})
	_, err := a.part(t, name, core.PartOptions{Partial: "p"}, strings.NewReader("x"))
	wantCode(t, "second writer", err, core.CodeConflict, "partial")
	wantCode(t, "drop", a.client.DropPartial(t.Context(), "p"), core.CodeConflict, "partial")
	_ = w.Close() // never fails
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(name); err != nil || st.Size() != 1<<20 {
		t.Errorf("%v, %v", st, err)
	}
}

// TestPartialEnds: what nobody goes on with goes by itself, by a drop, and with the agent, and its content wherever it was moved to.
func TestPartialEnds(t *testing.T) {
	a := startAgent(t, guest.Config{PartialAge: 100 * time.Millisecond}, client.Config{})
	dir := t.TempDir()
	o := core.PartOptions{Partial: "p", More: true}
	if _, err := a.part(t, dir+"/f", o, strings.NewReader("0123")); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of its time", func() bool { return len(entries(t, dir)) == 0 })
	_, err := a.client.PartialFile(t.Context(), "p")
	wantCode(t, "expired", err, core.CodeNotFound, "partial")

	b := startAgent(t, guest.Config{}, client.Config{})
	if _, err := b.part(t, dir+"/f", o, strings.NewReader("0123")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, entries(t, dir)[0]), dir+"/moved"); err != nil {
		t.Fatal(err)
	}
	if err := b.client.DropPartial(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir + "/moved"); err != nil || st.Size() != 0 {
		t.Errorf("what was moved keeps its room: %v, %v", st, err)
	}

	other := t.TempDir()
	if _, err := b.part(t, other+"/f", o, strings.NewReader("0123")); err != nil {
		t.Fatal(err)
	}
	b.srv.Close()
	if got := entries(t, other); len(got) != 0 {
		t.Errorf("left by an agent that was closed: %q", got)
	}
}

// TestPartialsBounded: there are 64 that come, and the newest 64 that have come.
// TestPartialTampered: what somebody inside has put in the place of what had come, cut off or removed, is not taken for it.
func TestPartialTampered(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	for what, change := range map[string]func(temp string) error{
		"another file": func(temp string) error {
			return errors.Join(os.Remove(temp), os.WriteFile(temp, []byte("0123456789"), 0o600))
		},
		"a link":   func(temp string) error { return errors.Join(os.Rename(temp, temp+"x"), os.Symlink(temp+"x", temp)) },
		"cut off":  func(temp string) error { return os.Truncate(temp, 20) },
		"nothing":  os.Remove,
		"one more": func(temp string) error { return os.Link(temp, temp+"y") },
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, "f")
		o := core.PartOptions{Partial: "p-" + strings.ReplaceAll(what, " ", "-"), More: true}
		if _, err := a.part(t, name, o, strings.NewReader("01234")); err != nil {
			t.Fatal(err)
		}
		if err := change(filepath.Join(dir, entries(t, dir)[0])); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte("0123456789"))
		o.Offset, o.More, o.SHA256 = 5, false, sum[:]
		_, err := a.part(t, name, o, strings.NewReader("56789"))
		if what == "one more" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			o.Offset, o.SHA256 = 10, make([]byte, sha256.Size)
			_, err := a.part(t, name, o, strings.NewReader(""))
			wantCode(t, "another digest", err, core.CodeConflict, "Repr-Digest")
			continue
		}
		wantCode(t, what, err, core.CodeConflict, "path")
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s: the file is there", what)
		}
	}
}

func TestPartialsBounded(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	for i := range 65 {
		if _, err := a.part(t, dir+"/whole", core.PartOptions{Partial: fmt.Sprint("whole", i)}, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	_, err := a.client.PartialFile(t.Context(), "whole0")
	wantCode(t, "the oldest", err, core.CodeNotFound, "partial")
	if p, err := a.client.PartialFile(t.Context(), "whole1"); err != nil || !p.Whole {
		t.Errorf("the one after it: %+v, %v", p, err)
	}
	for i := range 64 {
		if _, err := a.part(t, dir+"/f", core.PartOptions{Partial: fmt.Sprint(i), More: true}, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	_, err = a.part(t, dir+"/f", core.PartOptions{Partial: "64", More: true}, strings.NewReader("x"))
	wantCode(t, "one too many", err, core.CodeExhausted, "")
	if err := a.client.DropPartial(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.part(t, dir+"/f", core.PartOptions{Partial: "64", More: true}, strings.NewReader("x")); err != nil {
		t.Error(err)
	}
}
