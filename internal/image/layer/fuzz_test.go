package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

func newZstd(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }

// FuzzApply applies any bytes as a layer on a tree that has links out of it, and holds that nothing outside is touched, that every failure
// has words, and that the tree stays one that can be removed and finished.
func FuzzApply(f *testing.F) {
	needRoot(f)
	soft := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	f.Add(pack(f, map[string]string{"a/b": "x"}, tar.Header{Name: "a/b"}, tar.Header{Name: "a/.wh.c"}, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "a/b"}))
	f.Add(pack(f, nil, soft("out", "../victim"), tar.Header{Name: "out/x"}, tar.Header{Name: ".wh.out"}, tar.Header{Name: "d/.wh..wh..opq"}))
	f.Add(pack(f, nil, tar.Header{Name: "p", Typeflag: tar.TypeFifo}, tar.Header{Name: "x", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}))
	f.Add(gz(f, pack(f, nil, tar.Header{Name: "z"})))
	f.Add(zst(f, pack(f, nil, tar.Header{Name: "z"})))
	lower := pack(f, map[string]string{"d/file": "x"}, tar.Header{Name: "d/file"}, soft("up", "../victim"), soft("in", "d"), soft("abs", "/victim"), tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "d/file"})
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, root := newTree(t, Limits{Bytes: 4 << 20, Entries: 200})
		victim := filepath.Join(filepath.Dir(root), "victim")
		if err := errors.Join(os.Mkdir(victim, 0o755), os.WriteFile(filepath.Join(victim, "file"), []byte("safe"), 0o600)); err != nil {
			t.Fatal(err)
		}
		mustApply(t, tree, lower)
		id := ""
		if plain, err := Decompress(bytes.NewReader(data)); err == nil {
			all, _ := io.ReadAll(io.LimitReader(plain, 4<<20))
			id = diffID(all)
		}
		err := tree.Apply(t.Context(), bytes.NewReader(data), id)
		var own *core.Error
		if err != nil && (!errors.As(err, &own) || own.Code == core.CodeInternal) {
			t.Errorf("a failure without words: %v", err)
		}
		if err := tree.Finish("/d/e"); err != nil && core.CodeOf(err) == core.CodeInternal {
			t.Errorf("can't be finished: %v", err)
		}
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(victim, "file"), &st); err != nil || st.Nlink != 1 || st.Size != 4 || st.Mode&0o7777 != 0o600 || len(list(t, victim)) != 1 {
			t.Errorf("the victim is %+v, %v", st, err)
		}
	})
}
