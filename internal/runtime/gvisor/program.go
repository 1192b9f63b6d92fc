package gvisor

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// programName is the file in each digest's folder.
const programName = "shoal"

var digestPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })

// hostCPUs is the number of processors that this process may use.
func hostCPUs() int { return goruntime.NumCPU() }

// installProgram keeps a copy of the program in dir by its digest, and returns the digest and the copy's path. It is a
// copy, not a link: whoever overwrites the original in place must not change what sentries run.
func installProgram(ctx context.Context, executable, dir string) (digest, path string, err error) {
	if err := checkStatic(executable); err != nil {
		return "", "", err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", "", fmt.Errorf("look at filesystem: %w", err)
	}
	if fs.Flags&unix.ST_NOEXEC != 0 {
		return "", "", fmt.Errorf("%s is on a filesystem mounted noexec: sentries could not start from it", dir)
	}
	in, err := os.Open(executable)
	if err != nil {
		return "", "", fmt.Errorf("open program: %w", err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	sum := sha256.New()
	size, err := io.Copy(sum, readerOf(ctx, in))
	if err != nil {
		return "", "", fmt.Errorf("digest program: %w", err)
	}
	digest = hex.EncodeToString(sum.Sum(nil))
	path = filepath.Join(dir, digest, programName)
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Size() == size {
		return digest, path, nil
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return "", "", fmt.Errorf("rewind program: %w", err)
	}
	if err := placeProgram(in, digest, path); err != nil {
		return "", "", err
	}
	return digest, path, nil
}

// checkStatic fails for a program that needs the host's libraries: in the sentry's empty root there are none, and it would die
// there without a word.
func checkStatic(path string) (err error) {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("program %s is not static: build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}

// placeProgram writes the copy whole and durable, or not at all. It fails if the bytes are no longer those of the digest.
func placeProgram(in io.Reader, digest, path string) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make program folder: %w", err)
	}
	out, err := os.CreateTemp(dir, programName+".new-")
	if err != nil {
		return fmt.Errorf("create program copy: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), in)
	// The mapped users of sentry and gofer execute it: others need read and execute. They reach it by /proc/self/exe, so
	// the folders above may stay closed.
	err = errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close())
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
		return fmt.Errorf("program changed while it was copied: %s, then %s", digest, got)
	}
	if err := os.Rename(out.Name(), path); err != nil {
		return fmt.Errorf("place program copy: %w", err)
	}
	return errors.Join(syncDir(dir), syncDir(filepath.Dir(dir)))
}

// syncDir makes a directory's entries durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// CollectPrograms removes kept copies of the program that no sandbox runs from, but for the current one and those named by
// keep, such as the digests of memory images. It returns the digests that it removed.
func (d *Driver) CollectPrograms(ctx context.Context, keep ...string) ([]string, error) {
	statuses, err := d.recorded()
	if err != nil {
		return nil, err
	}
	used := append(slices.Clone(keep), d.digest)
	for _, r := range statuses {
		used = append(used, r.Digest)
	}
	entries, err := os.ReadDir(d.cfg.BinDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list programs: %w", err)
	}
	var removed []string
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return removed, fmt.Errorf("collect programs: %w", err)
		}
		if !digestPattern().MatchString(e.Name()) || slices.Contains(used, e.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.cfg.BinDir, e.Name())); err != nil {
			return removed, fmt.Errorf("remove program: %w", err)
		}
		removed = append(removed, e.Name())
	}
	return removed, nil
}

// contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// readerOf returns a reader that fails when ctx has ended.
func readerOf(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

// Read reads from the underlying reader.
func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
