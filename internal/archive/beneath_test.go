package archive

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBeneath: what a path leads to is only opened if it is inside, by whatever links, and only what the path itself says is made.
func TestBeneath(t *testing.T) {
	base := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(base, "root/a/b"), 0o755))
	must(os.MkdirAll(filepath.Join(base, "out/a"), 0o755))
	for link, target := range map[string]string{
		"abs": base + "/out", "up": "..", "far": "a/../../out", "in": "a/b", "a/b/back": "../..", "loop": "loop", "none": "not/there", "own": base + "/root",
	} {
		must(os.Symlink(target, filepath.Join(base, "root", link)))
	}
	must(os.WriteFile(filepath.Join(base, "root/file"), nil, 0o600))
	must(unix.Mkfifo(filepath.Join(base, "root/fifo"), 0o600))
	f, err := os.Open(filepath.Join(base, "root"))
	must(err)
	defer func() { _ = f.Close() }()
	p := &places{root: f, own: owner{-1, -1}}
	for _, c := range []struct {
		name string
		want error
	}{
		{"", nil},
		{"a/b", nil},
		{"in", nil},
		{"in/back/in/back/a", nil},
		{"new/deep/one", nil},
		{"in/more", nil},
		{"abs", errOutside},
		{"abs/a", errOutside},
		{"own", errOutside},
		{"up", errOutside},
		{"up/out", errOutside},
		{"far/a", errOutside},
		{"in/back/up", errOutside},
		{"..", errOutside},
		{"a/../..", errOutside},
		{"loop", unix.ELOOP},
		{"none", unix.ENOENT},
		{"none/x", unix.ENOENT},
		{"file", unix.ENOTDIR},
		{"file/x", unix.ENOTDIR},
		{"fifo", unix.ENOTDIR},
		{strings.Repeat("d/", 2100), unix.ENAMETOOLONG},
	} {
		d, err := p.beneath(c.name, true)
		if !errors.Is(err, c.want) {
			t.Errorf("%.40q: %v, want %v", c.name, err, c.want)
		}
		if err == nil {
			_ = d.Close()
		}
	}
	if list, err := os.ReadDir(filepath.Join(base, "out")); err != nil || len(list) != 1 {
		t.Errorf("outside: %v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(base, "root/a/b/more")); err != nil {
		t.Error(err)
	}
	if d, err := p.exactly("in"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link in a directory's place: %v, %v", d, err)
	}
}
