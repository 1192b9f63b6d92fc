package layer

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// testLimits are room enough for a test.
var testLimits = Limits{Bytes: 1 << 30, Entries: 100_000}

// needRoot skips a test as an ordinary user, or fails it where root is required.
func needRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("SHOAL_REQUIRE_ROOT") == "1" {
		tb.Fatal("needs root: it gives files away")
	}
	tb.Skip("needs root: it gives files away")
}

// pack makes a tar of entries; the content of a file is in contents by its name.
func pack(tb testing.TB, contents map[string]string, entries ...tar.Header) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, hdr := range entries {
		if hdr.Typeflag == 0 {
			hdr.Typeflag = tar.TypeReg
		}
		if hdr.Typeflag == tar.TypeReg {
			hdr.Size = int64(len(contents[hdr.Name]))
		}
		if hdr.Mode == 0 && hdr.Typeflag != tar.TypeXGlobalHeader {
			hdr.Mode = 0o644
		}
		if err := w.WriteHeader(&hdr); err != nil {
			tb.Fatalf("%s: %v", hdr.Name, err)
		}
		if _, err := w.Write([]byte(contents[hdr.Name])); hdr.Typeflag == tar.TypeReg && err != nil {
			tb.Fatalf("%s: %v", hdr.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func diffID(data []byte) string { return digestOf(sha256.Sum256(data)) }

// newTree returns a tree in a new directory, and the directory.
func newTree(tb testing.TB, limits Limits) (*Tree, string) {
	tb.Helper()
	needRoot(tb)
	dir := filepath.Join(tb.TempDir(), "tree")
	if err := os.Mkdir(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	tree, err := Open(dir, limits)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = tree.Close() })
	return tree, dir
}

func apply(tb testing.TB, tree *Tree, layer []byte) error {
	tb.Helper()
	return tree.Apply(tb.Context(), bytes.NewReader(layer), diffID(layer))
}

func mustApply(tb testing.TB, tree *Tree, layer []byte) {
	tb.Helper()
	if err := apply(tb, tree, layer); err != nil {
		tb.Fatal(err)
	}
}

// TestMetadata: all that a layer says of an entry is there afterwards.
func TestMetadata(t *testing.T) {
	tree, dir := newTree(t, testLimits)
	then, read := time.Unix(1_500_000_000, 0), time.Unix(1_400_000_000, 0)
	long := strings.Repeat("long/", 40) + strings.Repeat("n", 200)
	raw := "b\xff\xfeytes \n"
	v3 := "\x01\x00\x00\x03\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	mustApply(t, tree, pack(t, map[string]string{"bin/su": "elf", long: "x", raw: "y", "bin/ping": "p"},
		tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o2751, Uid: 5, Gid: 65535, ModTime: then, PAXRecords: map[string]string{"SCHILY.xattr.user.dir": "d"}},
		tar.Header{Name: "bin/su", Mode: 0o6755, Uid: 1000, Gid: 50, ModTime: then.Add(123 * time.Millisecond), AccessTime: read, Format: tar.FormatPAX, PAXRecords: map[string]string{
			"SCHILY.xattr.user.note": "a\x01b", "SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.security.selinux": "x",
		}},
		tar.Header{Name: "bin/ping", PAXRecords: map[string]string{"SCHILY.xattr.security.capability": v3}},
		tar.Header{Name: long}, tar.Header{Name: raw, Format: tar.FormatGNU},
		tar.Header{Name: "pipe", Typeflag: tar.TypeFifo, Mode: 0o622, Uid: 3, Gid: 4, ModTime: then},
		tar.Header{Name: "soft", Typeflag: tar.TypeSymlink, Linkname: "/nowhere/" + raw, Uid: 7, Gid: 8, ModTime: then, Format: tar.FormatGNU},
		tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "bin/su"},
		tar.Header{Name: "hard-to-soft", Typeflag: tar.TypeLink, Linkname: "./soft"},
		tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o711, ModTime: then},
	))
	stat := func(name string) (st unix.Stat_t) {
		if err := unix.Lstat(filepath.Join(dir, name), &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	for _, want := range []struct {
		name     string
		mode     uint32
		uid, gid uint32
		when     time.Time
	}{
		{"", unix.S_IFDIR | 0o711, 0, 0, then},
		{"bin", unix.S_IFDIR | 0o2751, 5, 65535, then},
		{"bin/su", unix.S_IFREG | 0o6755, 1000, 50, then.Add(123 * time.Millisecond)},
		{"pipe", unix.S_IFIFO | 0o622, 3, 4, then},
		{"soft", unix.S_IFLNK | 0o777, 7, 8, then},
	} {
		st := stat(want.name)
		if st.Mode != want.mode || st.Uid != want.uid || st.Gid != want.gid || time.Unix(st.Mtim.Unix()).Sub(want.when) != 0 {
			t.Errorf("%q: %o %d:%d %v", want.name, st.Mode, st.Uid, st.Gid, time.Unix(st.Mtim.Unix()))
		}
	}
	su := stat("bin/su")
	if su.Ino != stat("hard").Ino || su.Nlink != 2 || stat("soft").Ino != stat("hard-to-soft").Ino || time.Unix(su.Atim.Unix()).Sub(read) != 0 {
		t.Errorf("links or times: %+v", su)
	}
	if target, err := os.Readlink(filepath.Join(dir, "soft")); err != nil || target != "/nowhere/"+raw {
		t.Errorf("link to %q, %v", target, err)
	}
	for name, content := range map[string]string{long: "x", raw: "y", "hard": "elf"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != content {
			t.Errorf("%q: %q, %v", name, data, err)
		}
	}
	for file, want := range map[string]string{"bin/su user.note": "a\x01b", "bin user.dir": "d", "bin/su security.selinux": "", "bin/su trusted.overlay.opaque": ""} {
		name, attr, _ := strings.Cut(file, " ")
		buf := make([]byte, 100)
		n, err := unix.Lgetxattr(filepath.Join(dir, name), attr, buf)
		if want == "" && err == nil || want != "" && string(buf[:max(n, 0)]) != want {
			t.Errorf("%s: %q, %v", file, buf[:max(n, 0)], err)
		}
	}
	buf := make([]byte, 100)
	if n, err := unix.Lgetxattr(filepath.Join(dir, "bin/ping"), capability, buf); err != nil || n != 20 || buf[5] != 0x20 {
		t.Errorf("capabilities %x, %v", buf[:max(n, 0)], err)
	}
}

// TestLayers applies stacks of layers and looks at what is there.
func TestLayers(t *testing.T) {
	file := func(name string) tar.Header { return tar.Header{Name: name} }
	dir := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o750} }
	soft := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	hard := func(name, to string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to} }
	type layers [][]tar.Header
	for _, tc := range []struct {
		name   string
		layers layers
		want   string
	}{
		{"whiteout", layers{{file("a/b"), file("a/c")}, {file("a/.wh.b")}}, "a/ a/c"},
		{"whiteout of a tree", layers{{file("a/b/c"), file("d")}, {file(".wh.a")}}, "d"},
		{"whiteout of nothing", layers{{file("a")}, {file(".wh.b"), file("x/y/.wh.z"), file("a/.wh.b")}}, "a"},
		{"whiteout before the new", layers{{file("a/b/old")}, {file("a/.wh.b"), file("a/b/new")}}, "a/ a/b/ a/b/new"},
		{"whiteout after the new", layers{{file("a/b/old")}, {file("a/b/new"), file("a/.wh.b")}}, "a/ a/b/ a/b/new"},
		{"whiteout of a file made before", layers{{file("a")}, {file("a"), file(".wh.a")}}, "a"},
		{"whiteout of a merged directory", layers{{file("a/old")}, {dir("a"), file(".wh.a")}}, "a/"},
		{"whiteout turns a directory into a file", layers{{file("a/b")}, {file(".wh.a"), file("a")}}, "a"},
		{"opaque before", layers{{file("a/old"), file("a/b/old")}, {dir("a"), file("a/.wh..wh..opq"), file("a/new")}}, "a/ a/new"},
		{"opaque after", layers{{file("a/old"), file("a/b/old")}, {dir("a"), file("a/b/new"), file("a/.wh..wh..opq")}}, "a/ a/b/ a/b/new"},
		{"opaque root", layers{{file("a"), file("b/c")}, {file(".wh..wh..opq"), file("n")}}, "n"},
		{"opaque and a merged child", layers{{file("a/b/old")}, {dir("a/b"), file("a/.wh..wh..opq")}}, "a/ a/b/"},
		{"overlayfs whiteout", layers{{file("a"), file("b")}, {tar.Header{Name: "a", Typeflag: tar.TypeChar}}}, "b"},
		{"directory becomes file", layers{{file("a/b/c")}, {file("a")}}, "a"},
		{"file becomes directory", layers{{file("a")}, {dir("a"), file("a/b")}}, "a/ a/b"},
		{"link becomes directory", layers{{dir("x"), soft("a", "x")}, {dir("a"), file("a/b")}}, "a/ a/b x/"},
		{"directory becomes link", layers{{file("a/b"), dir("x")}, {soft("a", "x")}}, "a@ x/"},
		{"through a link of a lower layer", layers{{dir("usr/lib"), soft("lib", "usr/lib")}, {file("lib/x")}}, "lib@ usr/ usr/lib/ usr/lib/x"},
		{"through an absolute link", layers{{dir("usr/lib"), soft("lib", "/usr/lib")}, {file("lib/x")}}, "lib@ usr/ usr/lib/ usr/lib/x"},
		{"whiteout through a link", layers{{file("usr/x"), soft("u", "usr")}, {file("u/.wh.x")}}, "u@ usr/"},
		{"whiteout of a link", layers{{file("usr/x"), soft("u", "usr")}, {file(".wh.u")}}, "usr/ usr/x"},
		{"whiteout of what was made through a link", layers{{file("usr/x"), soft("u", "usr")}, {file("u/x"), file("usr/.wh.x")}}, "u@ usr/ usr/x"},
		{"hard link to a lower layer", layers{{file("a")}, {hard("b", "a"), file(".wh.a")}}, "b"},
		{"hard link to itself", layers{{file("a"), hard("a", "a")}}, "a"},
		{"hard link over a directory", layers{{file("a"), file("d/x")}, {hard("d", "a")}}, "a d"},
		{"twice in one layer", layers{{file("a"), dir("a"), file("a/b"), file("a")}}, "a"},
		{"absolute and untidy names", layers{{file("/a//./b"), file("./c")}}, "a/ a/b c"},
		{"names of old union filesystems", layers{{file(".wh..wh.plnk/1.2"), file(".wh..wh.aufs"), file("a")}}, "a"},
		{"usual device nodes", layers{{tar.Header{Name: "dev/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, file("dev/x")}}, "dev/ dev/x"},
		{"a comment", layers{{tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}, file("a")}}, "a"},
		{"an empty layer", layers{{file("a")}, {}}, "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree, root := newTree(t, testLimits)
			for _, l := range tc.layers {
				mustApply(t, tree, pack(t, nil, l...))
			}
			if got := strings.Join(list(t, root), " "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// list returns the names in a tree in order: directories end with a slash, links with an at sign.
func list(tb testing.TB, root string) (all []string) {
	tb.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		switch {
		case err != nil || name == "":
			return err
		case d.IsDir():
			name += "/"
		case d.Type() == os.ModeSymlink:
			name += "@"
		}
		all = append(all, name)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// TestHostile: each of these is refused, and nothing outside of the tree is touched.
func TestHostile(t *testing.T) {
	many := make([]tar.Header, 0, 101)
	for i := range 101 {
		many = append(many, tar.Header{Name: "f" + strings.Repeat("x", i)})
	}
	outside := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	xattrs := map[string]string{}
	for i := range maxXattrs + 1 {
		xattrs["SCHILY.xattr.user."+strings.Repeat("x", i+1)] = "y"
	}
	for _, tc := range []struct {
		name, want string
		entries    []tar.Header
	}{
		{"upwards", "leads upwards", []tar.Header{{Name: "../victim/file"}}},
		{"upwards inside", "leads upwards", []tar.Header{{Name: "a/../../victim/file"}}},
		{"upwards absolute", "leads upwards", []tar.Header{{Name: "/../victim/file"}}},
		{"hard link upwards", "leads upwards", []tar.Header{{Name: "a", Typeflag: tar.TypeLink, Linkname: "../victim/file"}}},
		{"hard link to nothing", "leads nowhere", []tar.Header{{Name: "a", Typeflag: tar.TypeLink, Linkname: "VICTIM/file"}}},
		{"hard link through a link", "leads nowhere", []tar.Header{outside("out", "VICTIM"), {Name: "a", Typeflag: tar.TypeLink, Linkname: "out/file"}}},
		{"hard link to a directory", "hard link to a directory", []tar.Header{{Name: "d", Typeflag: tar.TypeDir}, {Name: "a", Typeflag: tar.TypeLink, Linkname: "d"}}},
		{"hard link to the root", "hard link to the root", []tar.Header{{Name: "a", Typeflag: tar.TypeLink, Linkname: "/"}}},
		{"through a link out of the tree", "leads nowhere", []tar.Header{outside("out", "VICTIM"), {Name: "out/file"}}},
		{"through a link upwards", "leads nowhere", []tar.Header{outside("out", "../victim"), {Name: "out/file"}}},
		{"through two links", "leads nowhere", []tar.Header{outside("a", "b/victim"), outside("b", ".."), {Name: "a/file"}}},
		{"through a loop", "leads nowhere", []tar.Header{outside("a", "b"), outside("b", "a"), {Name: "a/file"}}},
		{"through a file", "leads nowhere", []tar.Header{{Name: "a"}, {Name: "a/b"}}},
		{"device", "device node", []tar.Header{{Name: "disk", Typeflag: tar.TypeBlock, Devmajor: 8}}},
		{"device in /dev", "device node", []tar.Header{{Name: "dev/sda", Typeflag: tar.TypeBlock, Devmajor: 8}}},
		{"device with a usual name", "device node", []tar.Header{{Name: "dev/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 1}}},
		{"usual device elsewhere", "device node", []tar.Header{{Name: "x/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}},
		{"owner", "a sandbox has users", []tar.Header{{Name: "a", Uid: 65536}}},
		{"group", "a sandbox has users", []tar.Header{{Name: "a", Gid: 1 << 31}}},
		{"type", "not known", []tar.Header{{Name: "a", Typeflag: 'Z'}}},
		{"root is a file", "root of the image", []tar.Header{{Name: "."}}},
		{"long part", "more than 255", []tar.Header{{Name: strings.Repeat("x", 256)}}},
		{"long name", "more than 4095", []tar.Header{{Name: strings.Repeat("x/", 2100), Typeflag: tar.TypeDir}}},
		{"deep", "more than 200 parts", []tar.Header{{Name: strings.Repeat("x/", 201), Typeflag: tar.TypeDir}}},
		{"long link", "a target of 5000", []tar.Header{outside("a", strings.Repeat("x", 5000))}},
		{"whiteout without a name", "hides nothing", []tar.Header{{Name: "a/.wh."}}},
		{"whiteout of the directory", "hides nothing", []tar.Header{{Name: "a/.wh.."}}},
		{"whiteout of what is above", "hides nothing", []tar.Header{{Name: "a/.wh..."}}},
		{"through a whiteout", "through a whiteout", []tar.Header{{Name: "a/.wh.b/c"}}},
		{"many files", "more than 100 files", many},
		{"many directories", "more than 100 files", []tar.Header{{Name: strings.Repeat("x/", 150), Typeflag: tar.TypeDir}}},
		{"many xattrs", "xattrs", []tar.Header{{Name: "a", PAXRecords: xattrs}}},
		{"large xattr", "xattrs", []tar.Header{{Name: "a", PAXRecords: map[string]string{"SCHILY.xattr.user.x": strings.Repeat("x", maxXattr+1)}}}},
		{"odd capabilities", "capabilities", []tar.Header{{Name: "a", PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree, root := newTree(t, Limits{Bytes: 1 << 20, Entries: 100})
			victim := filepath.Join(filepath.Dir(root), "victim")
			if err := os.Mkdir(victim, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(victim, "file"), []byte("safe"), 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range tc.entries {
				tc.entries[i].Linkname = strings.ReplaceAll(tc.entries[i].Linkname, "VICTIM", victim)
			}
			err := apply(t, tree, pack(t, nil, tc.entries...))
			if !core.IsCode(err, core.CodeInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want invalid: %s", err, tc.want)
			}
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(victim, "file"), &st); err != nil || st.Nlink != 1 || st.Size != 4 || st.Mode&0o7777 != 0o600 {
				t.Errorf("the victim is %+v, %v", st, err)
			}
			if n := len(list(t, victim)); n != 1 {
				t.Errorf("the victim has %d files", n)
			}
		})
	}
}

// TestInsideLinks: links that look as if they led out are resolved inside of the tree, wherever they are used.
func TestInsideLinks(t *testing.T) {
	tree, root := newTree(t, testLimits)
	mustApply(t, tree, pack(t, map[string]string{"abs/passwd": "inside", "up/passwd2": "inside"},
		tar.Header{Name: "etc", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "abs", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		tar.Header{Name: "up", Typeflag: tar.TypeSymlink, Linkname: "../../../../../../etc"},
		tar.Header{Name: "abs/passwd"}, tar.Header{Name: "up/passwd2"},
		tar.Header{Name: "copy", Typeflag: tar.TypeLink, Linkname: "abs/passwd"},
		tar.Header{Name: "abs/.wh.shadow"},
	))
	for _, name := range []string{"etc/passwd", "etc/passwd2", "copy"} {
		if data, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(data) != "inside" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

// TestDigests: a layer that is not what the image says is an error, also if it differs behind its end.
func TestDigests(t *testing.T) {
	good := pack(t, map[string]string{"a": "x"}, tar.Header{Name: "a"})
	for name, tc := range map[string]struct {
		layer []byte
		id    string
		code  core.Code
	}{
		"another":          {good, diffID([]byte("x")), core.CodeDataLoss},
		"no digest":        {good, "", core.CodeDataLoss},
		"trailing bytes":   {append(bytes.Clone(good), "tail"...), diffID(good), core.CodeDataLoss},
		"cut off":          {good[:300], diffID(good[:300]), core.CodeInvalid},
		"no tar":           {[]byte(strings.Repeat("x", 2000)), diffID([]byte(strings.Repeat("x", 2000))), core.CodeInvalid},
		"cut off gzip":     {gz(t, good)[:30], diffID(good), core.CodeInvalid},
		"damaged zstd":     {append(zst(t, good)[:8], "xxxxxxxxxxxxxx"...), diffID(good), core.CodeInvalid},
		"bzip2":            {[]byte("BZh91AY&SY"), diffID(good), core.CodeUnsupported},
		"xz":               {[]byte("\xfd7zXZ\x00\x00"), diffID(good), core.CodeUnsupported},
		"good":             {good, diffID(good), ""},
		"good gzip":        {gz(t, good), diffID(good), ""},
		"two gzip members": {append(gz(t, good[:512]), gz(t, good[512:])...), diffID(good), ""},
		"good zstd":        {zst(t, good), diffID(good), ""},
		"two zstd frames":  {append(zst(t, good[:512]), zst(t, good[512:])...), diffID(good), ""},
		"nothing at all":   {nil, diffID(nil), ""},
	} {
		tree, _ := newTree(t, testLimits)
		if err := tree.Apply(t.Context(), bytes.NewReader(tc.layer), tc.id); core.CodeOf(err) != tc.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func gz(tb testing.TB, data []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func zst(tb testing.TB, data []byte) []byte {
	tb.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}
