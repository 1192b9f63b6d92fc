package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"shoal/internal/core"
	"shoal/internal/image/layer"
)

// FuzzArchive opens any bytes as an uploaded archive, as far as the layers' first bytes, and holds that every failure has words and that
// nothing is read that is not in the archive.
func FuzzArchive(f *testing.F) {
	img := imageOf(f, v1.Config{Env: []string{"A=b"}}, plain(f, file("a", "x")))
	tag, err := name.NewTag("app:v1")
	if err != nil {
		f.Fatal(err)
	}
	var saved bytes.Buffer
	if err := tarball.Write(tag, img, &saved); err != nil {
		f.Fatal(err)
	}
	f.Add(saved.Bytes())
	f.Add(gz(f, saved.Bytes()))
	f.Add(tarOf(f, writeLayout(f, indexOf(f, img))))
	f.Add(packed(f, file("manifest.json", `[{"Config":"c","Layers":["l"]}]`), entry{tar.Header{Name: "c", Typeflag: tar.TypeSymlink, Linkname: "d/../c"}, ""}))
	f.Add(packed(f, file("index.json", `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","size":1,"digest":"sha256:aa"}]}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		spool, err := os.CreateTemp(t.TempDir(), "spool")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = spool.Close() }()
		list, err := makeIndex(bytes.NewReader(data), spool, layer.Limits{Bytes: 8 << 20})
		if err != nil {
			words(t, err)
			return
		}
		files := &tarFiles{index: list.Files, data: bytes.NewReader(data), size: int64(len(data))}
		if list.Spooled {
			st, err := spool.Stat()
			if err != nil {
				t.Fatal(err)
			}
			files.data, files.size = spool, st.Size()
		}
		img, err := findInFiles(context.Background(), files, hostPlatform())
		if err != nil {
			words(t, err)
			return
		}
		if _, err := templateConfig(img.config); err != nil {
			words(t, err)
		}
		for _, l := range img.layers {
			r, err := l.open(context.Background())
			if err != nil {
				words(t, err)
				continue
			}
			if n, err := io.Copy(io.Discard, r); err != nil || n != l.size || n > files.size {
				t.Errorf("a layer of %d bytes has %d, %v", l.size, n, err)
			}
		}
	})
}

// words fails the test if an error has none for the caller.
func words(t *testing.T, err error) {
	t.Helper()
	var own *core.Error
	if !errors.As(err, &own) || own.Code == core.CodeInternal || own.Message == "" {
		t.Errorf("a failure without words: %v", err)
	}
}
