package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// TestSparse: what was sparse stays so, in each of the forms that tar has for it, and zeros become holes.
func TestSparse(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	const size = 16 << 20
	_, e1 := f.WriteAt([]byte("begin"), 0)
	_, e2 := f.WriteAt([]byte("middle"), 5<<20+100)
	if err := errors.Join(e1, e2, f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"GNU": {"--format=gnu", "--sparse"}, "PAX 0.0": {"--format=pax", "--sparse-version=0.0"}, "PAX 0.1": {"--format=pax", "--sparse-version=0.1"},
		"PAX 1.0": {"--format=pax", "--sparse-version=1.0"}, "zeros": {"--format=gnu"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "tar", append(args, "--owner=0", "--group=0", "-cf", "-", "-C", dir, "file")...)
			layer, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			tree, root := newTree(t, testLimits)
			mustApply(t, tree, layer)
			got, err := os.ReadFile(filepath.Join(root, "file"))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("another content of %d bytes, %v", len(got), err)
			}
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(root, "file"), &st); err != nil || st.Blocks*512 > 64<<10 || st.Size != size {
				t.Errorf("%d bytes take %d, %v", st.Size, st.Blocks*512, err)
			}
		})
	}
}

// TestHolesAtTheEdges: contents around the size of a block are what they were.
func TestHolesAtTheEdges(t *testing.T) {
	contents := map[string]string{}
	var entries []tar.Header
	for _, size := range []int{0, 1, block - 1, block, block + 1, 2*block + 7, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3<<20 + 5} {
		for i, data := range []string{
			strings.Repeat("\x00", size), strings.Repeat("x", size), strings.Repeat("x", size/2) + strings.Repeat("\x00", size-size/2),
			strings.Repeat("\x00", size/2) + strings.Repeat("x", size-size/2),
		} {
			name := fmt.Sprintf("%d-%d", size, i)
			contents[name] = data
			entries = append(entries, tar.Header{Name: name})
		}
	}
	tree, root := newTree(t, testLimits)
	mustApply(t, tree, pack(t, contents, entries...))
	for name, want := range contents {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// endless is a reader of zeros that ends after n bytes.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.n)
	clear(p[:n])
	e.n -= n
	return int(n), nil
}

// TestBombs: layers that would become large end early, by what they say and by what they do.
func TestBombs(t *testing.T) {
	header := func(size int64) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Name: "big", Typeflag: tar.TypeReg, Size: size, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	squeezed := func(r io.Reader) []byte {
		data, err := compressAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	wide := Limits{Bytes: 1 << 40, Entries: 1000}
	for _, tc := range []struct {
		name, want string
		limits     Limits
		layer      io.Reader
	}{
		{"a file that says so", "unpacks to more than 1 MiB", Limits{Bytes: 1 << 20, Entries: 10}, bytes.NewReader(header(1 << 40))},
		{"the largest file that can be said", "unpacks to more than", wide, bytes.NewReader(header(1<<62 + 1))},
		{"a stream behind the end", "unpacks to more than 1 MiB", Limits{Bytes: 1 << 20, Entries: 10}, &endless{1 << 30}},
		{"much out of little", "more than 200 times its size", wide, bytes.NewReader(squeezed(io.MultiReader(bytes.NewReader(header(100<<20)), &endless{100 << 20})))},
		{"much out of little behind the end", "more than 200 times its size", wide, bytes.NewReader(squeezed(&endless{100 << 20}))},
		// A frame that asks for a window of 1 GiB.
		{"memory", "compression is damaged", wide, strings.NewReader("\x28\xb5\x2f\xfd\x00\xa0" + strings.Repeat("x", 100))},
		{"a header of headers", "no whole tar", wide, bytes.NewReader(paxBomb(t))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree, root := newTree(t, tc.limits)
			tree.free = 8 << 20
			err := tree.Apply(t.Context(), tc.layer, "sha256:x")
			if !core.IsCode(err, core.CodeInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(root, "big"), &st); err == nil && st.Blocks > 100 {
				t.Errorf("%d blocks were written", st.Blocks)
			}
		})
	}
}

// paxBomb is an entry whose header says to be 8 MiB large.
func paxBomb(t *testing.T) []byte {
	t.Helper()
	good := pack(t, nil, tar.Header{Name: "a", Format: tar.FormatPAX, PAXRecords: map[string]string{"SCHILY.xattr.user.x": "y"}})
	copy(good[124:136], "00040000000\x00")
	sum := 0
	copy(good[148:156], "        ")
	for _, b := range good[:512] {
		sum += int(b)
	}
	copy(good[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return append(good, make([]byte, 9<<20)...)
}

// compressAll compresses with zstd as it is.
func compressAll(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	w, err := newZstd(&b)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(w, r); err != nil {
		return nil, err
	}
	return b.Bytes(), w.Close()
}

// TestFullDisk: a filesystem without space, and one that is to keep some, answer exhausted.
func TestFullDisk(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=32m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	layer := pack(t, map[string]string{"big": strings.Repeat("x", 48<<20)}, tar.Header{Name: "big"})
	for name, free := range map[string]int64{"full": 0, "nearly": 20 << 20} {
		root := filepath.Join(dir, name)
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		tree, err := Open(root, Limits{Bytes: 1 << 30, Entries: 10, MinFree: free})
		if err != nil {
			t.Fatal(err)
		}
		tree.patience = 1
		if err := apply(t, tree, layer); !core.IsCode(err, core.CodeExhausted) {
			t.Errorf("%s: %v", name, err)
		}
		if err := errors.Join(tree.Close(), os.RemoveAll(root)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFinish: whatever an image has made of the places that a sandbox needs, they are there and lead nowhere else.
func TestFinish(t *testing.T) {
	dir := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o700} }
	soft := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	for _, tc := range []struct {
		name    string
		entries []tar.Header
		etc     string
	}{
		{"empty", nil, "etc"},
		{"links out", []tar.Header{soft("proc", "/VICTIM"), soft("tmp", "../victim"), soft("run", "/VICTIM"), soft("etc", "/VICTIM"), soft("dev", "nowhere")}, "etc"},
		{"files", []tar.Header{{Name: "proc"}, {Name: "sys"}, {Name: "dev"}, {Name: "tmp"}, {Name: "run"}, {Name: "etc"}}, "etc"},
		{"files in etc are links out", []tar.Header{soft("etc/resolv.conf", "/VICTIM/file"), soft("etc/hosts", "../../victim/file"), soft("etc/hostname", "/VICTIM/file")}, "etc"},
		{"files in etc are directories", []tar.Header{dir("etc/resolv.conf"), dir("etc/hosts"), dir("etc/hostname")}, "etc"},
		{"run/shoal is a link out", []tar.Header{soft("run/shoal", "/VICTIM")}, "etc"},
		{"etc is elsewhere in the image", []tar.Header{dir("system/etc"), soft("etc", "/system/etc")}, "system/etc"},
		{"all there", []tar.Header{dir("tmp"), dir("etc"), dir("run/shoal")}, "etc"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree, root := newTree(t, testLimits)
			victim := filepath.Join(filepath.Dir(root), "victim")
			if err := errors.Join(os.Mkdir(victim, 0o755), os.WriteFile(filepath.Join(victim, "file"), []byte("safe"), 0o600)); err != nil {
				t.Fatal(err)
			}
			for i := range tc.entries {
				tc.entries[i].Linkname = strings.ReplaceAll(tc.entries[i].Linkname, "/VICTIM", victim)
			}
			mustApply(t, tree, pack(t, nil, tc.entries...))
			if err := tree.Finish("/srv/dir"); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"proc", "sys", "dev", "tmp", "run", "run/shoal", "srv/dir"} {
				var st unix.Stat_t
				if err := unix.Lstat(filepath.Join(root, name), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
					t.Errorf("%s: %o, %v", name, st.Mode, err)
				}
			}
			for name, want := range map[string]string{"resolv.conf": ResolvConf, "hostname": "sandbox\n", "hosts": Hosts} {
				if got, err := os.ReadFile(filepath.Join(root, tc.etc, name)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", name, got, err)
				}
			}
			if data, err := os.ReadFile(filepath.Join(victim, "file")); err != nil || string(data) != "safe" || len(list(t, victim)) != 1 {
				t.Errorf("the victim: %q, %v, %v", data, list(t, victim), err)
			}
		})
	}
}

// TestWorkdirThroughLinks: a working directory behind a link is made in the image.
func TestWorkdirThroughLinks(t *testing.T) {
	tree, root := newTree(t, testLimits)
	mustApply(t, tree, pack(t, nil, tar.Header{Name: "srv", Typeflag: tar.TypeDir, Mode: 0o755}, tar.Header{Name: "app", Typeflag: tar.TypeSymlink, Linkname: "/srv"}))
	if err := tree.Finish("/app/x"); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(root, "srv/x")); err != nil || !st.IsDir() {
		t.Errorf("%v, %v", st, err)
	}
	for _, wrong := range []string{"/etc/hosts", "/etc/hosts/x", "/../x", "/" + strings.Repeat("x", 300)} {
		if err := tree.Finish(wrong); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
