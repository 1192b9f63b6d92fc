// Package spool keeps archives that callers upload, until an import has used them or they are too old.
//
// An upload is one file, readable by the server only, in a directory of its tenant: <dir>/<tenant>/<id>. While it is written it is
// <id>.part, which a restart removes. Nothing of a caller's ever becomes a path. The package does not know what the archives hold. Start
// reading at Put.
package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// The bounds of what is kept.
const (
	// MaxBytes is the greatest size of one upload, and of all of a tenant's together.
	MaxBytes = 64 << 30
	// MaxUploads is how many a tenant has at a time, those being written included.
	MaxUploads = 8
	// MaxAge is how long one is kept that nobody uses.
	MaxAge = time.Hour
	// hostReserve is what is left free of the disk that the uploads are on.
	hostReserve = 1 << 30
	// chunk is the most that is written between two looks at the bounds.
	chunk = 256 << 10
)

const partSuffix = ".part"

// Config says where uploads are kept and how much of them.
type Config struct {
	// Dir is made if it is not there.
	Dir   string
	Clock core.Clock
	// MaxBytes, MaxUploads and Reserve replace the constants; zero means these.
	MaxBytes   int64
	MaxUploads int
	Reserve    int64
}

// Spool keeps uploads. Its methods may be used from many goroutines.
type Spool struct {
	cfg Config

	mu sync.Mutex
	// use is what each tenant has, by upload: what is written of it so far.
	use map[core.TenantID]map[core.UploadID]int64
}

// Open opens a spool, and removes what an earlier process had not finished writing.
func Open(cfg Config) (*Spool, error) {
	if cfg.Clock == nil {
		cfg.Clock = core.SystemClock{}
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = MaxBytes
	}
	if cfg.MaxUploads == 0 {
		cfg.MaxUploads = MaxUploads
	}
	if cfg.Reserve == 0 {
		cfg.Reserve = hostReserve
	}
	s := &Spool{cfg: cfg, use: map[core.TenantID]map[core.UploadID]int64{}}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", cfg.Dir, err)
	}
	return s, s.each(func(tenant core.TenantID, name string, info fs.FileInfo) error {
		if strings.HasSuffix(name, partSuffix) {
			return os.Remove(filepath.Join(cfg.Dir, string(tenant), name))
		}
		s.note(tenant, core.UploadID(name), info.Size())
		return nil
	})
}

// each calls f with every file. One that goes away meanwhile is left out.
func (s *Spool) each(f func(core.TenantID, string, fs.FileInfo) error) error {
	tenants, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("list uploads: %w", err)
	}
	for _, t := range tenants {
		files, err := os.ReadDir(filepath.Join(s.cfg.Dir, t.Name()))
		if err != nil {
			return fmt.Errorf("list uploads: %w", err)
		}
		for _, file := range files {
			info, err := file.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = f(core.TenantID(t.Name()), file.Name(), info)
			}
			if err != nil {
				return fmt.Errorf("look at uploads: %w", err)
			}
		}
	}
	return nil
}

// note says how much an upload has; forget that it has nothing any more.
func (s *Spool) note(tenant core.TenantID, id core.UploadID, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.use[tenant] == nil {
		s.use[tenant] = map[core.UploadID]int64{}
	}
	s.use[tenant][id] = size
}

func (s *Spool) forget(tenant core.TenantID, id core.UploadID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.use[tenant], id)
	if len(s.use[tenant]) == 0 {
		delete(s.use, tenant)
	}
}

// begin takes a place for an upload, and grow room for more of it.
func (s *Spool) begin(tenant core.TenantID, id core.UploadID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.use[tenant]) >= s.cfg.MaxUploads {
		return core.Errorf(core.CodeQuota, "%d uploads wait to be used, and no tenant has more at a time: use or delete some", s.cfg.MaxUploads)
	}
	if s.use[tenant] == nil {
		s.use[tenant] = map[core.UploadID]int64{}
	}
	s.use[tenant][id] = 0
	return nil
}

func (s *Spool) grow(tenant core.TenantID, id core.UploadID, more int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.cfg.Dir, &st); err != nil {
		return failure(err)
	}
	if int64(st.Bavail)*st.Bsize-more < s.cfg.Reserve {
		return core.Errorf(core.CodeExhausted, "the server's disk has no room for the upload")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := more
	for _, size := range s.use[tenant] {
		sum += size
	}
	switch {
	case s.use[tenant][id]+more > s.cfg.MaxBytes:
		return core.Invalid("body", "an upload has at most %d bytes", s.cfg.MaxBytes)
	case sum > s.cfg.MaxBytes:
		return core.Errorf(core.CodeQuota, "a tenant's uploads have at most %d bytes together: use or delete some", s.cfg.MaxBytes)
	}
	s.use[tenant][id] += more
	return nil
}

// Put keeps what r has.
func (s *Spool) Put(ctx context.Context, tenant core.TenantID, r io.Reader) (core.Upload, error) {
	up := core.Upload{ID: core.UploadID(core.NewID())}
	if err := s.begin(tenant, up.ID); err != nil {
		return core.Upload{}, err
	}
	dir := filepath.Join(s.cfg.Dir, string(tenant))
	path := filepath.Join(dir, string(up.ID))
	err := os.Mkdir(dir, 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = s.write(ctx, tenant, &up, path+partSuffix, r)
	}
	if err == nil {
		err = finish(path+partSuffix, path, dir)
	}
	if err != nil {
		_ = os.Remove(path + partSuffix)
		_ = os.Remove(path)
		s.forget(tenant, up.ID)
		return core.Upload{}, failure(err)
	}
	up.ExpiresAt = s.cfg.Clock.Now().Add(MaxAge)
	return up, nil
}

// write copies r into a new file, and flushes it.
func (s *Spool) write(ctx context.Context, tenant core.TenantID, up *core.Upload, path string, r io.Reader) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	to := io.MultiWriter(f, sum)
	buf := make([]byte, chunk)
	for {
		n, rerr := r.Read(buf)
		if n > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.grow(tenant, up.ID, int64(n)); err != nil {
				return err
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
			up.SizeBytes += int64(n)
		}
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil {
			return rerr
		}
	}
	up.Digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	return f.Sync()
}

// finish gives a file its name, durably.
func finish(from, to, dir string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// failure makes an error that a caller may see, unless it is one.
func failure(err error) error {
	var known *core.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return core.Wrap(core.CodeExhausted, err, "the server's disk has no room for the upload")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return core.Wrap(core.CodeCanceled, err, "the upload was broken off")
	}
	return err
}

// Path is where an upload lies.
func (s *Spool) Path(tenant core.TenantID, id core.UploadID) (string, error) {
	path := filepath.Join(s.cfg.Dir, string(tenant), string(id))
	if !core.IsID(string(id)) {
		return "", errNoUpload
	}
	if _, err := os.Lstat(path); err != nil {
		return "", errNoUpload
	}
	return path, nil
}

var errNoUpload = core.Errorf(core.CodeNotFound, "no such upload: it is kept for an hour, and for one use")

// Delete removes an upload.
func (s *Spool) Delete(tenant core.TenantID, id core.UploadID) error {
	path, err := s.Path(tenant, id)
	if errors.Is(err, errNoUpload) {
		return nil // It is gone.
	}
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove upload: %w", err)
	}
	s.forget(tenant, id)
	return nil
}

// DeleteAll removes all of a tenant's.
func (s *Spool) DeleteAll(tenant core.TenantID) error {
	if tenant == "" || strings.ContainsAny(string(tenant), "/.") {
		return nil // It can't have any.
	}
	if err := os.RemoveAll(filepath.Join(s.cfg.Dir, string(tenant))); err != nil {
		return fmt.Errorf("remove uploads: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.use, tenant)
	return nil
}

// Expire removes uploads that are too old and that nobody needs.
func (s *Spool) Expire(now time.Time, keep func(core.TenantID, core.UploadID) bool) error {
	return s.each(func(tenant core.TenantID, name string, info fs.FileInfo) error {
		id := core.UploadID(name)
		if strings.HasSuffix(name, partSuffix) || now.Sub(info.ModTime()) < MaxAge || keep(tenant, id) {
			return nil
		}
		return s.Delete(tenant, id)
	})
}
