package cli

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// liar is a tree that answers what a hostile sandbox might.
type liar struct {
	names []string
	tree
}

func (l liar) stat(context.Context, string) (entry, error) {
	return entry{name: "x", kind: api.FileTypeDirectory, mode: 0o755}, nil
}

func (l liar) list(context.Context, string) ([]entry, error) {
	var list []entry
	for _, n := range l.names {
		list = append(list, entry{name: n, kind: api.FileTypeFile, mode: 0o644})
	}
	return list, nil
}

func (l liar) open(context.Context, string, shoal.Resume) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("planted")), nil
}
func (l liar) join(dir, name string) string { return dir + "/" + name }
func (l liar) label(name string) string     { return name }

// TestNamesFromASandboxStayInside holds that no name leads out of the directory that is copied to.
func TestNamesFromASandboxStayInside(t *testing.T) {
	for _, name := range []string{"..", ".", "", "../planted", "/planted", "a/b", "a\x00b"} {
		dir := t.TempDir()
		a := &app{err: io.Discard}
		err := a.copy(t.Context(), liar{names: []string{name}}, "/src", a.local(), filepath.Join(dir, "in"))
		if err == nil || !strings.Contains(err.Error(), "impossible name") {
			t.Errorf("%q: %v, want it refused", name, err)
		}
		for _, p := range []string{filepath.Join(dir, "planted"), "/planted"} {
			if _, err := os.Stat(p); err == nil {
				t.Errorf("%q wrote %s", name, p)
			}
		}
	}
}

// TestCopyDoesNotFollowPlantedLinks holds that a link at the target is replaced and not followed.
func TestCopyDoesNotFollowPlantedLinks(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "to")
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(to, "f")); err != nil {
		t.Fatal(err)
	}
	if err := (localTree{&app{}}).write(t.Context(), filepath.Join(to, "f"), 0o640, strings.NewReader("theirs")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(victim); string(got) != "mine" {
		t.Errorf("the file behind the link has %q", got)
	}
	info, err := os.Lstat(filepath.Join(to, "f"))
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("the file is %v, %v, want a regular one of mode 0640", info.Mode(), err)
	}
}

// broken is input that fails.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestBrokenCopyLeavesTheOldFile holds that a file appears whole or not at all.
func TestBrokenCopyLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := io.MultiReader(bytes.NewReader([]byte("new")), broken{})
	if err := (localTree{&app{}}).write(t.Context(), name, 0o644, in); err == nil {
		t.Error("a broken copy is no error")
	}
	if got, _ := os.ReadFile(name); string(got) != "old" {
		t.Errorf("the file has %q", got)
	}
	left, err := fs.Glob(os.DirFS(dir), "*")
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
