package cli

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// archiveReader is an archive that is uploaded, and why it could not be read to its end, if so.
type archiveReader struct {
	io.ReadCloser
	mu  sync.Mutex
	err error
}

// Read reads, and keeps the error.
func (r *archiveReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.err == nil && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, os.ErrClosed) {
			r.err = err
		}
	}
	return n, err
}

func (r *archiveReader) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// tarOf packs the regular files of a directory while they are read.
func tarOf(dir string) *archiveReader {
	out, in := io.Pipe()
	go func() {
		w := tar.NewWriter(in)
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			return packFile(w, dir, path)
		})
		if err == nil {
			err = w.Close()
		}
		in.CloseWithError(err) // Ends the reader, which is what waits for this.
	}()
	return &archiveReader{ReadCloser: out}
}

func packFile(w *tar.Writer, dir, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Size: info.Size(), Mode: 0o644, ModTime: info.ModTime()}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.Copy(w, f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
