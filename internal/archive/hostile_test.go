package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// entries makes an archive of headers, whose content is their own name.
func entries(tb testing.TB, list ...tar.Header) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range list {
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o755
		}
		if h.Typeflag != tar.TypeXGlobalHeader {
			h.ModTime = time.Unix(1_000_000_000, 0)
		}
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			tb.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, h.Name); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func link(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

func hard(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}
}
func file(name string) tar.Header      { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
func directory(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name} }

// TestNothingLeavesTheDirectory: whatever names and links an archive has, what is outside stays as it is.
func TestNothingLeavesTheDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		entries []tar.Header
		refused bool
	}{
		"dots":                        {[]tar.Header{file("../out/x")}, true},
		"dots inside":                 {[]tar.Header{directory("a"), file("a/../../out/x")}, true},
		"dots that lead back":         {[]tar.Header{file("a/../x")}, true},
		"a directory of dots":         {[]tar.Header{directory("../out/d")}, true},
		"through a link":              {[]tar.Header{link("l", "../out"), file("l/x")}, true},
		"through an absolute link":    {[]tar.Header{link("l", "OUT"), file("l/x")}, true},
		"through two links":           {[]tar.Header{link("a", "."), link("b", "a/../../out"), file("b/x")}, true},
		"a directory through a link":  {[]tar.Header{link("l", "../out"), directory("l/d")}, true},
		"a directory in a link's way": {[]tar.Header{link("l", "../out"), directory("l"), file("l/x")}, false},
		"a file over a link":          {[]tar.Header{link("l", "../out/victim"), file("l")}, false},
		"a link over a link":          {[]tar.Header{link("l", "../out/victim"), link("l", "../out/victim")}, false},
		"a hard link to dots":         {[]tar.Header{hard("h", "../out/victim"), file("h")}, true},
		"a hard link through a link":  {[]tar.Header{link("l", "../out"), hard("h", "l/victim")}, true},
		"a hard link to a link":       {[]tar.Header{link("l", "../out/victim"), hard("h", "l"), file("h")}, false},
		"a root with a mode":          {[]tar.Header{{Typeflag: tar.TypeDir, Name: "./", Mode: 0o777}, link("./x", "../out")}, false},
		"the root as a link":          {[]tar.Header{link("./", "../out"), file("x")}, true},
		"the root as a file":          {[]tar.Header{file(".")}, true},
		"a hard link to the root":     {[]tar.Header{hard("h", "./")}, true},
		"absolute":                    {[]tar.Header{file("/x"), file("///y")}, false},
		"mode through a link":         {[]tar.Header{directory("d"), link("d", "../out")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			out, dst := filepath.Join(parent, "out"), filepath.Join(parent, "dst")
			must(t, os.Mkdir(out, 0o700))
			must(t, os.Mkdir(dst, 0o700))
			must(t, os.WriteFile(filepath.Join(out, "victim"), []byte("untouched"), 0o600))
			before := tree(t, out)
			for i := range c.entries {
				c.entries[i].Linkname = strings.ReplaceAll(c.entries[i].Linkname, "OUT", out)
			}
			_, err := Unpack(t.Context(), bytes.NewReader(entries(t, c.entries...)), dst, ours)
			if c.refused != (err != nil) {
				t.Errorf("refused: %v", err)
			}
			if after := tree(t, out); len(after) != len(before) || after["victim"] != before["victim"] || after["."] != before["."] {
				t.Errorf("outside: %v\nbecame %v", before, after)
			}
		})
	}
}

// TestLinksInsideAreFollowed: a link that stays inside is a way like any other.
func TestLinksInsideAreFollowed(t *testing.T) {
	dst := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dst, "usr/bin"), 0o755))
	must(t, os.Symlink("usr/bin", filepath.Join(dst, "bin")))
	_, err := Unpack(t.Context(), bytes.NewReader(entries(t, directory("bin"), file("bin/sh"))), dst, ours)
	must(t, err)
	if b, err := os.ReadFile(filepath.Join(dst, "usr/bin/sh")); err != nil || string(b) != "bin/sh" {
		t.Errorf("%q, %v", b, err)
	}
	if st, err := os.Lstat(filepath.Join(dst, "bin")); err != nil || st.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link became %v, %v", st.Mode(), err)
	}
}

// TestReplacing: what is in the way gives way, except a directory that is not empty.
func TestReplacing(t *testing.T) {
	dst := t.TempDir()
	at := func(name string) string { return filepath.Join(dst, name) }
	must(t, os.MkdirAll(at("full/x"), 0o755))
	must(t, os.MkdirAll(at("empty"), 0o755))
	must(t, os.WriteFile(at("file"), nil, 0o600))
	_, err := Unpack(t.Context(), bytes.NewReader(entries(t, file("empty"), directory("file"), file("file/x"))), dst, ours)
	must(t, err)
	if b, err := os.ReadFile(at("empty")); err != nil || string(b) != "empty" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := Unpack(t.Context(), bytes.NewReader(entries(t, file("full"))), dst, ours); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("a directory that is not empty: %v", err)
	}
	left, err := filepath.Glob(at(".shoal-*"))
	if must(t, err); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := Unpack(t.Context(), bytes.NewReader(entries(t, file("empty/below"))), dst, ours); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
}

// TestOddTypes: what can't be made is told, and what follows is.
func TestOddTypes(t *testing.T) {
	dst := t.TempDir()
	b := entries(t, tar.Header{Typeflag: tar.TypeFifo, Name: "fifo"}, tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3},
		tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}, file("after"))
	r, err := Unpack(t.Context(), bytes.NewReader(b), dst, ours)
	must(t, err)
	if r.Skipped != 2 || len(r.Notes) != 2 || r.Files != 1 {
		t.Errorf("%+v", r)
	}
	if list, _ := os.ReadDir(dst); len(list) != 1 {
		t.Errorf("made %v", list)
	}
}

// TestNoCutArchiveLooksWhole: wherever a stream breaks off, it is told, and no file is half there.
func TestNoCutArchiveLooksWhole(t *testing.T) {
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "big"), bytes.Repeat([]byte{0}, smallFile+1000), 0o600))
	must(t, os.WriteFile(filepath.Join(root, "zeros"), make([]byte, 512), 0o600))
	for _, compressed := range []bool{false, true} {
		b, _ := pack(t, root, PackOptions{Gzip: compressed})
		o := ours
		o.Gzip = compressed
		step := 256
		if compressed {
			step = 1
		}
		for n := 0; n <= len(b); n += step {
			if !compressed && n > 4096 && n < len(b)-8192 {
				continue // inside the large file
			}
			dst := t.TempDir()
			_, err := Unpack(t.Context(), bytes.NewReader(b[:n]), dst, o)
			// One block of zeros is an end, though only half of one that is well made.
			if whole := n == len(b) || !compressed && n == len(b)-512; whole != (err == nil) {
				t.Fatalf("%d of %d bytes, compressed %v: %v", n, len(b), compressed, err)
			}
			if err != nil && !core.IsCode(err, core.CodeInvalid) {
				t.Fatalf("%d of %d bytes: %v", n, len(b), err)
			}
			list, _ := os.ReadDir(dst)
			for _, e := range list {
				if st, err := e.Info(); err != nil || st.Size() != map[string]int64{"big": smallFile + 1000, "zeros": 512}[e.Name()] {
					t.Fatalf("%d of %d bytes left %s with %d", n, len(b), e.Name(), st.Size())
				}
			}
		}
	}
	broken := errors.New("the way is broken")
	_, err := Unpack(t.Context(), io.MultiReader(bytes.NewReader(entries(t, file("x"))[:512]), failing{broken}), t.TempDir(), ours)
	if !errors.Is(err, broken) {
		t.Errorf("a source that fails: %v", err)
	}
	if _, err := Unpack(t.Context(), strings.NewReader("this is a letter and no archive"), t.TempDir(), ours); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("no archive: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestTimeOfDirectories: a directory has the archive's time also if it comes first, is filled later, or nobody may write into it.
func TestTimeOfDirectories(t *testing.T) {
	dst := t.TempDir()
	ro := directory("ro")
	ro.Mode = 0o500
	_, err := Unpack(t.Context(), bytes.NewReader(entries(t, ro, directory("d"), file("ro/x"), directory("ro/sub"), file("d/y"), file("ro/sub/z"))), dst, ours)
	must(t, err)
	for _, name := range []string{"ro", "d", "ro/sub"} {
		st, err := os.Stat(filepath.Join(dst, name))
		must(t, err)
		if st.ModTime().Unix() != 1_000_000_000 {
			t.Errorf("%s: %v", name, st.ModTime())
		}
	}
	if st, _ := os.Stat(filepath.Join(dst, "ro")); st.Mode().Perm() != 0o500 {
		t.Errorf("%v", st.Mode())
	}
	must(t, os.Chmod(filepath.Join(dst, "ro"), 0o700))
}

// FuzzUnpack: nothing that a stream holds panics, hangs, takes memory by what it announces, or leaves the directory.
func FuzzUnpack(f *testing.F) {
	f.Add(entries(f, directory("a"), file("a/b"), link("l", "../out"), hard("h", "a/b")))
	f.Add(entries(f, link("l", "/"), file("l/x")))
	f.Add([]byte("not a tar"))
	f.Fuzz(func(t *testing.T, b []byte) {
		parent := t.TempDir()
		dst := filepath.Join(parent, "dst")
		must(t, os.Mkdir(dst, 0o700))
		_, _ = Unpack(t.Context(), bytes.NewReader(b), dst, ours)
		if list, err := os.ReadDir(parent); err != nil || len(list) != 1 {
			t.Errorf("outside: %v, %v", list, err)
		}
	})
}
