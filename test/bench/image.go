package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/image/layer"
	"shoal/internal/image/oci"
	"shoal/internal/runtime/gvisor"
	shoal "shoal/sdk/go"
)

// The image that is imported: half of it large files and half small ones, half of the bytes random and half text.
const (
	imageBytes  = 1 << 30
	largeFile   = 8 << 20
	smallFile   = 64 << 10
	importRuns  = 3
	importLimit = 2
	importFiles = 1_000_000
)

// stepImport is the name of the step.
const stepImport = "import"

// measureImport imports an image of 1 GiB and unpacks the same layer with tar, in turns and into pools of the same kind: the unpacker alone, and
// the whole way from a registry on loopback to a template that is ready.
func measureImport(ctx context.Context, n int, srv *server, b *bare, r *report) error {
	dir := filepath.Join(b.dir, "image")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, form := range []struct {
		name, tarFlag string
		compress      bool
	}{{"plain", "-xf", false}, {"gzip", "-xzf", true}} {
		layout, blob, err := writeImage(filepath.Join(dir, form.name), form.compress)
		if err != nil {
			return fmt.Errorf("make an image: %w", err)
		}
		ours := r.series("import of 1 GiB, "+form.name, "MB/s")
		theirs := r.series("tar x of the same, "+form.name, "MB/s")
		whole := r.series("template import of 1 GiB, "+form.name, "MB/s")
		for range min(n, importRuns) {
			if err := srv.importFrom(ctx, layout, whole); err != nil {
				return err
			}
			if err := b.unpackInto(ctx, ours, func(dir string) error {
				_, err := oci.Import(ctx, oci.Config{
					Layout: layout, Dir: dir, OwnerUID: gvisor.DefaultOwnerUID, Limits: layer.Limits{Bytes: 4 * imageBytes, Entries: importFiles},
				})
				return err
			}); err != nil {
				return err
			}
			if err := b.unpackInto(ctx, theirs, func(dir string) error {
				return exec.CommandContext(ctx, "tar", form.tarFlag, blob, "-C", dir).Run()
			}); err != nil {
				return err
			}
		}
		ours.finish()
		theirs.finish()
		whole.finish()
		r.goal(theirs.Name+" ÷ ("+ours.Name+")", theirs.P50/ours.P50, importLimit, "×")
		r.goal(theirs.Name+" ÷ ("+whole.Name+")", theirs.P50/whole.P50, importLimit, "×")
	}
	return nil
}

// importFrom measures how long the server takes to make a template of an image in a registry, and removes it.
func (s *server) importFrom(ctx context.Context, layout string, into *series) (err error) {
	registry := httptest.NewServer(layoutRegistry(layout))
	defer registry.Close()
	begun := time.Now()
	op, err := s.client.Templates().Create(ctx, shoal.CreateTemplateRequest{Name: "imported", FromImage: registry.Listener.Addr().String() + "/image"})
	if err == nil {
		op, err = s.client.Operations().Wait(ctx, op.ID)
	}
	if err == nil {
		err = shoal.OperationFailure(op)
	}
	if err != nil {
		return fmt.Errorf("import by reference: %w", err)
	}
	into.add(float64(imageBytes) / 1e6 / time.Since(begun).Seconds())
	return s.client.Templates().Delete(ctx, "imported")
}

// layoutRegistry gives out the image of an OCI layout, whatever repository it is asked for.
func layoutRegistry(layout string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		digest := ""
		switch dir, name := path.Split(req.URL.Path); {
		case req.URL.Path == "/v2/":
			return
		case strings.HasSuffix(dir, "/blobs/"):
			digest = name
		case strings.HasSuffix(dir, "/manifests/"):
			var index struct {
				Manifests []struct{ Digest, MediaType string }
			}
			data, err := os.ReadFile(filepath.Join(layout, "index.json"))
			if err == nil {
				err = json.Unmarshal(data, &index)
			}
			if err != nil || len(index.Manifests) != 1 {
				http.Error(w, "no image", http.StatusInternalServerError)
				return
			}
			digest = index.Manifests[0].Digest
			w.Header().Set("Content-Type", index.Manifests[0].MediaType)
			w.Header().Set("Docker-Content-Digest", digest)
		}
		hex, ok := strings.CutPrefix(digest, "sha256:")
		if !ok {
			http.NotFound(w, req)
			return
		}
		http.ServeFile(w, req, filepath.Join(layout, "blobs", "sha256", filepath.Base(hex)))
	})
}

// unpackInto measures what fills a new tree of the pool, and removes the tree.
func (b *bare) unpackInto(ctx context.Context, s *series, fill func(dir string) error) (err error) {
	ref := disk.Ref{Kind: disk.KindTemplate, ID: core.NewID()}
	dir, err := b.disk.Create(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.disk.Delete(context.WithoutCancel(ctx), ref)) }()
	begun := time.Now()
	if err := fill(dir); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	s.add(float64(imageBytes) / 1e6 / time.Since(begun).Seconds())
	return nil
}

// writeImage writes an OCI layout with one layer, and returns its directory and the layer's path.
func writeImage(dir string, compress bool) (layout, blob string, err error) {
	blobs := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		return "", "", err
	}
	f, err := os.Create(filepath.Join(dir, "layer"))
	if err != nil {
		return "", "", err
	}
	packed, plain := sha256.New(), sha256.New()
	counted := &counter{w: io.MultiWriter(f, packed)}
	out, kind := io.WriteCloser(nopCloser{counted}), "application/vnd.oci.image.layer.v1.tar"
	if compress {
		if out, err = gzip.NewWriterLevel(counted, gzip.BestSpeed); err != nil {
			return "", "", err
		}
		kind += "+gzip"
	}
	if err := errors.Join(writeFiles(io.MultiWriter(out, plain)), out.Close(), f.Close()); err != nil {
		return "", "", err
	}
	blob = filepath.Join(blobs, hex.EncodeToString(packed.Sum(nil)))
	if err := os.Rename(f.Name(), blob); err != nil {
		return "", "", err
	}
	put := func(value any) (map[string]any, error) {
		data, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		name := hex.EncodeToString(sum[:])
		return map[string]any{"digest": "sha256:" + name, "size": len(data)}, os.WriteFile(filepath.Join(blobs, name), data, 0o600)
	}
	config, err := put(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(plain.Sum(nil))}},
	})
	if err != nil {
		return "", "", err
	}
	config["mediaType"] = "application/vnd.oci.image.config.v1+json"
	manifest, err := put(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
		"layers": []any{map[string]any{"mediaType": kind, "digest": "sha256:" + filepath.Base(blob), "size": counted.n}},
	})
	if err != nil {
		return "", "", err
	}
	manifest["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}})
	if err != nil {
		return "", "", err
	}
	return dir, blob, os.WriteFile(filepath.Join(dir, "index.json"), index, 0o600)
}

// writeFiles writes the tar.
func writeFiles(w io.Writer) error {
	random := rand.NewChaCha8([32]byte{})
	noise := make([]byte, largeFile)
	_, _ = random.Read(noise) // It never fails.
	text := bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog, again and again.\n"), largeFile/62+1)
	tw := tar.NewWriter(w)
	for i, written := 0, int64(0); written < imageBytes; i++ {
		size, dir := int64(smallFile), fmt.Sprintf("small/%d", i%100)
		if written < imageBytes/2 {
			size, dir = largeFile, "large"
		}
		hdr := &tar.Header{Name: fmt.Sprintf("%s/%d", dir, i), Typeflag: tar.TypeReg, Mode: 0o644, Size: size, ModTime: time.Unix(1_700_000_000, 0)}
		if err := tw.WriteHeader(hdr); err != nil {
			return err
		}
		from := noise
		if i%2 == 1 {
			from = text
		}
		if _, err := tw.Write(from[:size]); err != nil {
			return err
		}
		written += size
	}
	return tw.Close()
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
