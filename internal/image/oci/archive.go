package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// files are the files of an archive or a layout by name. One that is not there is fs.ErrNotExist.
type files interface {
	open(name string) (r io.ReadCloser, size int64, err error)
}

// openArchive finds the image of an uploaded archive.
func openArchive(ctx context.Context, cfg Config, want v1.Platform) (img image, closeSource func(), err error) {
	fd, err := unix.Open(cfg.Source.Archive, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return image{}, nil, core.Wrap(core.CodeInternal, err, "the uploaded archive is not there")
	}
	f := os.NewFile(uintptr(fd), "archive")
	opened := []*os.File{f}
	closeAll := func() {
		for _, f := range opened {
			_ = f.Close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return image{}, nil, core.Wrap(core.CodeInternal, err, "the uploaded archive is not a file")
	}
	cfg.Progress(core.OperationProgress{Step: "reading the archive", Percent: 1})
	index, spool, err := indexArchive(ctx, cfg, f)
	if spool != nil {
		opened = append(opened, spool)
	}
	if err != nil {
		return image{}, nil, err
	}
	a := &tarFiles{index: index.Files, data: f, size: st.Size()}
	if index.Spooled {
		if st, err = spool.Stat(); err != nil {
			return image{}, nil, core.Wrap(core.CodeInternal, err, "the uploaded archive can't be read")
		}
		a.data, a.size = spool, st.Size()
	}
	img, err = findInFiles(ctx, a, want)
	return img, closeAll, err
}

// openLayout finds the image of a directory in the OCI layout.
func openLayout(ctx context.Context, cfg Config, want v1.Platform) (image, func(), error) {
	root, err := os.OpenRoot(cfg.Layout)
	if err != nil {
		return image{}, nil, core.Wrap(core.CodeInternal, err, "the layout's directory can't be opened")
	}
	img, err := findInFiles(ctx, dirFiles{root}, want)
	if err != nil {
		_ = root.Close()
		return image{}, nil, err
	}
	return img, func() { _ = root.Close() }, nil
}

// findInFiles finds the image in whichever of the two forms the files are; what has both is read as an OCI layout.
func findInFiles(ctx context.Context, f files, want v1.Platform) (image, error) {
	raw, err := readFile(f, "index.json", maxManifest)
	if err == nil {
		return fromLayout(ctx, f, raw, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return image{}, err
	}
	raw, err = readFile(f, "manifest.json", maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return image{}, &core.Error{
			Code: core.CodeInvalid, Field: "archive",
			Message: "the archive is no container image: it has neither index.json (OCI layout) nor manifest.json (docker save)",
		}
	}
	if err != nil {
		return image{}, err
	}
	return fromDockerSave(f, raw)
}

// readFile reads a whole file of a bounded size.
func readFile(f files, name string, most int64) ([]byte, error) {
	r, size, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	if size > most {
		return nil, core.Errorf(core.CodeInvalid, "%s of the archive has %d bytes: at most %d are taken", clip(name, 100), size, most)
	}
	data, err := io.ReadAll(io.LimitReader(r, size))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// layout is an OCI layout as a store.
type layout struct{ files files }

// fromLayout finds the image of an OCI layout.
func fromLayout(ctx context.Context, f files, raw []byte, want v1.Platform) (image, error) {
	top := v1.Descriptor{MediaType: "application/vnd.oci.image.index.v1+json"}
	img, digest, err := resolve(ctx, layout{f}, top, raw, want)
	img.source = "archive " + digest.String()
	return img, err
}

func (l layout) manifest(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	return l.small(ctx, d)
}

func (l layout) small(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	r, err := l.blob(ctx, d)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return readVerified(r, d)
}

func (l layout) blob(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	r, size, err := l.files.open("blobs/" + d.Digest.Algorithm + "/" + d.Digest.Hex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &core.Error{Code: core.CodeInvalid, Field: "archive", Message: "the archive is not whole: it lacks " + d.Digest.String(), Err: err}
	}
	if err != nil {
		return nil, err
	}
	if size != d.Size {
		_ = r.Close()
		return nil, mismatch(d.Digest)
	}
	return r, nil
}

// dirFiles are the files of a directory.
type dirFiles struct{ root *os.Root }

func (d dirFiles) open(name string) (io.ReadCloser, int64, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		_ = f.Close()
		return nil, 0, core.Wrap(core.CodeInvalid, err, "%s of the layout is not a file", clip(name, 100))
	}
	return f, st.Size(), nil
}

// tarFiles are the files of a tar, where the jail has found them. What it says is checked against the tar's size and nothing else: a place
// that is wrong yields bytes that have another digest.
type tarFiles struct {
	index map[string]indexed
	data  io.ReaderAt
	size  int64
}

// maxLinks bounds links from file to file: old `docker save` writes them for layers that images share.
const maxLinks = 8

func (t *tarFiles) open(name string) (io.ReadCloser, int64, error) {
	for range maxLinks {
		e, ok := t.index[name]
		if !ok {
			return nil, 0, fs.ErrNotExist
		}
		if e.Link != "" {
			name = strings.TrimPrefix(path.Join("/", path.Dir(name), e.Link), "/")
			continue
		}
		if e.At < 0 || e.Size < 0 || e.At > t.size || e.Size > t.size-e.At {
			return nil, 0, core.Errorf(core.CodeInvalid, "the archive is cut off at %s", clip(name, 100))
		}
		return io.NopCloser(io.NewSectionReader(t.data, e.At, e.Size)), e.Size, nil
	}
	return nil, 0, core.Errorf(core.CodeInvalid, "%s of the archive is a link that does not end", clip(name, 100))
}
