package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// ours keeps what is made as whom we run as.
var ours = UnpackOptions{UID: -1, GID: -1}

// tree describes all that an archive keeps of a tree, by name.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	inodes := map[uint64]string{}
	err := filepath.WalkDir(root, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		text := fmt.Sprintf("mode %o uid %d gid %d mtime %d.%09d", st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" size %d content %q", len(b), bytes.TrimRight(b[:min(len(b), 100)], "\x00"))
			if first, ok := inodes[st.Ino]; ok {
				text += " same as " + first
			}
			inodes[st.Ino] = rel
			value := make([]byte, 100)
			if n, err := unix.Getxattr(name, "user.shoal", value); err == nil {
				text += fmt.Sprintf(" xattr %q", value[:n])
			}
		case unix.S_IFLNK:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text += " -> " + target
		}
		out[rel] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// must fails the test at once.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// forest makes a tree with one of everything.
func forest(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	must(t, os.MkdirAll(at("a/b/empty"), 0o755))
	must(t, os.WriteFile(at("a/one"), []byte("one"), 0o640))
	must(t, os.WriteFile(at("a/none"), nil, 0o600))
	must(t, os.Chmod(at("a/one"), 0o4751))
	must(t, os.Link(at("a/one"), at("a/b/hard")))
	must(t, os.Symlink("../one", at("a/b/soft")))
	must(t, os.Symlink("/nowhere/"+strings.Repeat("x", 200), at("a/dangling")))
	for _, name := range []string{strings.Repeat("n", 255), "new\nline", "\xff\xfe raw", " ", "ünïcode", "-rf", "a\\b", "tab\t"} {
		must(t, os.WriteFile(at(name), []byte(name), 0o644))
		must(t, os.Symlink(name, at("a/b/"+name)))
	}
	deep := strings.Repeat("deep directory/", 20)
	must(t, os.MkdirAll(at(deep), 0o700))
	must(t, os.WriteFile(at(deep+"leaf"), bytes.Repeat([]byte("leaf"), 100_000), 0o444))
	must(t, os.Chmod(at("a/b/empty"), 0o1777))
	if err := unix.Setxattr(at("a/one"), "user.shoal", []byte("kept\xff"), 0); err != nil {
		t.Logf("no extended attributes here: %v", err)
	}
	old := time.Date(1999, 12, 31, 23, 59, 59, 123456789, time.UTC)
	for _, name := range []string{"a/one", "a/b/empty", deep + "leaf", deep, "a/b", "a"} {
		must(t, os.Chtimes(at(name), old, old))
		old = old.Add(time.Hour)
	}
	if os.Geteuid() == 0 {
		must(t, os.Lchown(at("a/b/soft"), 1234, 5678))
		must(t, os.Chown(at(" "), 3_000_000, 7))
	}
	return root
}

func pack(t *testing.T, root string, o PackOptions) ([]byte, core.ArchiveReport) {
	t.Helper()
	var b bytes.Buffer
	r, err := Pack(t.Context(), &b, root, o)
	must(t, err)
	return b.Bytes(), r
}

// TestEverythingIsKept: there and back, plain and compressed, everything is as it was; and what is there already is replaced.
func TestEverythingIsKept(t *testing.T) {
	root := forest(t)
	must(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	want := tree(t, root)
	delete(want, "fifo")
	for _, compressed := range []bool{false, true} {
		b, packed := pack(t, root, PackOptions{Gzip: compressed, Unlinked: compressed})
		if packed.Skipped != 1 || !slices.Equal(packed.Notes, []core.ArchiveNote{{Path: "fifo", Reason: "it is a fifo"}}) {
			t.Errorf("skipped: %+v", packed)
		}
		dst := t.TempDir()
		o := ours
		o.Made, o.Gzip, o.KeepOwners = true, compressed, os.Geteuid() == 0
		for range 2 {
			got, err := Unpack(t.Context(), bytes.NewReader(b), dst, o)
			must(t, err)
			if diff := cmp.Diff(want, tree(t, dst)); diff != "" {
				t.Fatalf("(-want +got)\n%s", diff)
			}
			if got.Skipped != 0 || got.Files != packed.Files || got.Bytes != packed.Bytes || got.Directories != packed.Directories {
				t.Errorf("packed %+v, unpacked %+v", packed, got)
			}
		}
	}
}

// TestOtherPrograms: GNU tar reads what we write and we read what it writes.
func TestOtherPrograms(t *testing.T) {
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("no tar here")
	}
	root := forest(t)
	sparseFile(t, filepath.Join(root, "holes"), 5<<20)
	want := tree(t, root)
	b, _ := pack(t, root, PackOptions{})
	theirs := t.TempDir()
	c := exec.CommandContext(t.Context(), "tar", "x", "--xattrs", "-p", "-C", theirs)
	c.Stdin = bytes.NewReader(b)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if os.Geteuid() == 0 {
		if diff := cmp.Diff(want, tree(t, theirs)); diff != "" {
			t.Errorf("by tar (-want +got)\n%s", diff)
		}
	}
	for _, format := range []string{"--xattrs --format=pax", "--format=gnu"} {
		args := append(strings.Fields(format), "-c", "-S", "-C", root, ".")
		out, err := exec.CommandContext(t.Context(), "tar", args...).Output()
		must(t, err)
		dst := t.TempDir()
		o := ours
		o.Made, o.KeepOwners = true, os.Geteuid() == 0
		if _, err := Unpack(t.Context(), bytes.NewReader(out), dst, o); err != nil {
			t.Fatal(err)
		}
		got := tree(t, dst)
		if format == "--format=gnu" { // it has whole seconds and no attributes
			if len(got) != len(want) {
				t.Errorf("%d of %d files", len(got), len(want))
			}
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s of tar (-want +got)\n%s", format, diff)
		}
	}
}

// sparseFile makes a file with a hole, some content, a hole, and a little content at an odd end.
func sparseFile(t *testing.T, name string, size int64) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	_, err = f.WriteAt(bytes.Repeat([]byte("content"), 20_000), size/2+77)
	must(t, err)
	_, err = f.WriteAt([]byte("end"), size-3)
	must(t, err)
}

// TestHoles: the zeros of a hole are neither sent nor written, with the filesystem's help and without it.
func TestHoles(t *testing.T) {
	const size = 5 << 30
	for name, write := range map[string]func(*testing.T, string){
		"content": func(t *testing.T, name string) { t.Helper(); sparseFile(t, name, size) },
		"nothing": func(t *testing.T, name string) {
			t.Helper()
			must(t, os.WriteFile(name, nil, 0o600))
			must(t, os.Truncate(name, size))
		},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := filepath.Join(t.TempDir(), "holes"), t.TempDir()
			write(t, src)
			b, report := pack(t, src, PackOptions{})
			if len(b) > 1<<20 || report.Bytes != size || report.Files != 1 {
				t.Errorf("%d bytes are sent, %+v", len(b), report)
			}
			_, err := Unpack(t.Context(), bytes.NewReader(b), dst, ours)
			must(t, err)
			sameHoles(t, src, filepath.Join(dst, "holes"))
		})
	}
}

func sameHoles(t *testing.T, src, dst string) {
	t.Helper()
	var a, b unix.Stat_t
	must(t, unix.Stat(src, &a))
	must(t, unix.Stat(dst, &b))
	if a.Size != b.Size || b.Blocks*512 > 1<<20 || a.Mtim != b.Mtim {
		t.Fatalf("size %d became %d, in %d blocks", a.Size, b.Size, b.Blocks)
	}
	f, err := os.Open(src)
	must(t, err)
	defer func() { _ = f.Close() }()
	g, err := os.Open(dst)
	must(t, err)
	defer func() { _ = g.Close() }()
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	for _, at := range []int64{0, a.Size/2 - 1<<19, a.Size/2 + 1<<19, a.Size - 1<<20} {
		_, err := f.ReadAt(x, at)
		must(t, err)
		_, err = g.ReadAt(y, at)
		must(t, err)
		if !bytes.Equal(x, y) {
			t.Errorf("another content at %d", at)
		}
	}
}

// TestHolesByReading: where nobody tells about holes, as in gVisor, they are found by reading.
func TestHolesByReading(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	sparseFile(t, name, 40<<20)
	f, err := os.Open(name)
	must(t, err)
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	must(t, unix.Stat(name, &st))
	told, err := seekData(t.Context(), f, st.Size)
	must(t, err)
	st.Blocks = (st.Size + 511) / 512
	found, err := data(t.Context(), f, &st)
	must(t, err)
	if len(found) != 2 || found[0].offset > st.Size/2 || found[1].offset+found[1].length != st.Size {
		t.Errorf("found %v, the filesystem says %v", found, told)
	}
	dense := filepath.Join(t.TempDir(), "dense")
	must(t, os.WriteFile(dense, bytes.Repeat([]byte("no zeros here"), 1<<18), 0o600))
	g, err := os.Open(dense)
	must(t, err)
	defer func() { _ = g.Close() }()
	must(t, unix.Stat(dense, &st))
	st.Blocks = (st.Size + 511) / 512
	if list, err := data(t.Context(), g, &st); list != nil || err != nil {
		t.Errorf("a file without zeros has holes: %v, %v", list, err)
	}
}

// TestHolesWithoutEnd: zeros that cost an archive nothing keep nobody busy, in one file or in many.
func TestHolesWithoutEnd(t *testing.T) {
	sparse := func(sizes ...int64) []byte {
		var b bytes.Buffer
		p := &packer{w: &b}
		for i, size := range sizes {
			st := unix.Stat_t{Mode: unix.S_IFREG | 0o600, Size: size}
			list := pad(fmt.Appendf(nil, "1\n%d\n0\n", size))
			f, err := os.Create(filepath.Join(t.TempDir(), "f"))
			must(t, err)
			must(t, p.sparseHeader(f, fmt.Sprintf("f%d", i), &st, int64(len(list))))
			must(t, f.Close())
			b.Write(list)
		}
		return append(b.Bytes(), make([]byte, 2*block)...)
	}
	for name, tt := range map[string]struct {
		archive []byte
		whole   bool
	}{"small": {sparse(1<<20, 64<<20), true}, "huge": {sparse(1 << 62), false}, "many": {sparse(64<<20, maxSparse-64<<20+1), false}} {
		t.Run(name, func(t *testing.T) {
			_, err := Unpack(t.Context(), bytes.NewReader(tt.archive), t.TempDir(), ours)
			if tt.whole && err != nil || !tt.whole && (!core.IsCode(err, core.CodeInvalid) || !strings.Contains(err.Error(), "with holes")) {
				t.Errorf("%v", err)
			}
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	must(t, err)
	defer func() { _ = f.Close() }()
	must(t, f.Truncate(1<<30))
	if _, err := seekData(gone, f, 1<<30); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits any more: %v", err)
	}
}

// TestManyHoles: a list of runs that would be too long for readers is cut.
func TestManyHoles(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "f"), t.TempDir()
	f, err := os.Create(src)
	must(t, err)
	for i := range int64(maxSegments + 100) {
		_, err := f.WriteAt([]byte{1}, i*3*hole)
		must(t, err)
	}
	must(t, f.Close())
	var sent counter
	pr, pw := io.Pipe()
	go func() {
		_, err := Pack(t.Context(), io.MultiWriter(&sent, pw), src, PackOptions{})
		_ = pw.CloseWithError(err)
	}()
	_, err = Unpack(t.Context(), pr, dst, ours)
	must(t, err)
	var a, b unix.Stat_t
	must(t, unix.Stat(src, &a))
	must(t, unix.Stat(filepath.Join(dst, "f"), &b))
	if a.Size != b.Size || int64(sent) > a.Size/2 {
		t.Errorf("%d bytes, %d of them sent, became %d", a.Size, sent, b.Size)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func TestExclude(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"keep", "x.log", "node_modules/a", "src/node_modules/b", "src/x.log", "src/keep", "src/build/c", "build/d"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}
	b, _ := pack(t, root, PackOptions{Exclude: []string{"node_modules", "*.log", "src/build/", "/nothing"}})
	var names []string
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		names = append(names, h.Name)
	}
	slices.Sort(names)
	if want := []string{"./", "build/", "build/d", "keep", "src/", "src/keep"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	for _, bad := range []string{"", "[", strings.Repeat("x", 2000), "/"} {
		if _, err := Pack(t.Context(), io.Discard, root, PackOptions{Exclude: []string{bad}}); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := Pack(t.Context(), io.Discard, root, PackOptions{Exclude: make([]string, 65)}); !core.IsCode(err, core.CodeInvalid) {
		t.Error(err)
	}
}

func TestPackRefusals(t *testing.T) {
	if _, err := Pack(t.Context(), io.Discard, "/proc/self", PackOptions{}); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("/proc: %v", err)
	}
	if _, err := Pack(t.Context(), io.Discard, "/nowhere", PackOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	if _, err := Pack(t.Context(), io.Discard, fifo, PackOptions{}); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("a fifo: %v", err)
	}
	deep := t.TempDir()
	name := deep
	for range maxDepth + 1 {
		name += "/d"
		must(t, os.Mkdir(name, 0o700))
	}
	if _, err := Pack(t.Context(), io.Discard, deep, PackOptions{}); !core.IsCode(err, core.CodeUnsupported) {
		t.Errorf("too deep: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Pack(ctx, io.Discard, deep, PackOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestShrinking: a file that is shorter than its header said breaks the archive, which then has no end.
func TestShrinking(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "f")
	must(t, os.WriteFile(name, bytes.Repeat([]byte("x"), 3*chunk), 0o600))
	var b bytes.Buffer
	o := PackOptions{Progress: func(_, n int64) {
		if n > 0 {
			_ = os.Truncate(name, 0)
		}
	}}
	if _, err := Pack(t.Context(), &b, root, o); !core.IsCode(err, core.CodeConflict) {
		t.Fatalf("%v", err)
	}
	if _, err := Unpack(t.Context(), &b, t.TempDir(), ours); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("what was written of it counts as whole: %v", err)
	}
}
