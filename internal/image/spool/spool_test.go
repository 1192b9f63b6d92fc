package spool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"shoal/internal/core"
)

const (
	alice core.TenantID = "alice"
	bob   core.TenantID = "bob"
)

func open(t *testing.T, cfg Config) *Spool {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Reserve = 1
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Spool, tenant core.TenantID, text string) core.Upload {
	t.Helper()
	up, err := s.Put(t.Context(), tenant, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return up
}

func wantCode(t *testing.T, err error, code core.Code) {
	t.Helper()
	if !core.IsCode(err, code) {
		t.Fatalf("got %v, want %s", err, code)
	}
}

// left lists the files that there are.
func left(t *testing.T, s *Spool) (names []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.cfg.Dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		names = append(names, filepath.Base(name))
	}
	return names
}

func TestPut(t *testing.T) {
	t.Parallel()
	s := open(t, Config{})
	text := strings.Repeat("bytes ", 100_000)
	up := put(t, s, alice, text)
	sum := sha256.Sum256([]byte(text))
	if up.SizeBytes != int64(len(text)) || up.Digest != "sha256:"+hex.EncodeToString(sum[:]) || !core.IsID(string(up.ID)) || up.ExpiresAt.IsZero() {
		t.Fatalf("%+v", up)
	}
	path, err := s.Path(alice, up.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for at, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", at, info.Mode(), err)
		}
	}
	// Another tenant's, and what is no id, is not there.
	for _, id := range []core.UploadID{up.ID, "", "..", "../alice/" + up.ID, core.UploadID(core.NewID())} {
		_, err := s.Path(bob, id)
		wantCode(t, err, core.CodeNotFound)
		if err := s.Delete(bob, id); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := s.Delete(alice, up.ID); err != nil {
			t.Fatal(err)
		}
	}
	if names := left(t, s); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

func TestPutFails(t *testing.T) {
	t.Parallel()
	s := open(t, Config{MaxBytes: 1000, MaxUploads: 3})
	gone := errors.New("the client is gone")
	_, err := s.Put(t.Context(), alice, io.MultiReader(strings.NewReader("some"), iotest.ErrReader(gone)))
	if !errors.Is(err, gone) {
		t.Fatalf("got %v", err)
	}
	_, err = s.Put(t.Context(), alice, io.MultiReader(strings.NewReader("some"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("one that breaks off: %v", err)
	}
	_, err = s.Put(t.Context(), alice, bytes.NewReader(make([]byte, 1001)))
	wantCode(t, err, core.CodeInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Put(ctx, alice, strings.NewReader("x"))
	wantCode(t, err, core.CodeCanceled)
	if names := left(t, s); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	put(t, s, alice, strings.Repeat("x", 600))
	_, err = s.Put(t.Context(), alice, bytes.NewReader(make([]byte, 600)))
	wantCode(t, err, core.CodeQuota)
	put(t, s, alice, "a")
	put(t, s, alice, "b")
	_, err = s.Put(t.Context(), alice, strings.NewReader("c"))
	wantCode(t, err, core.CodeQuota)
	put(t, s, bob, strings.Repeat("x", 1000))
	if err := s.DeleteAll(alice); err != nil {
		t.Fatal(err)
	}
	put(t, s, alice, strings.Repeat("x", 1000))
	full := open(t, Config{})
	full.cfg.Reserve = 1 << 62
	_, err = full.Put(t.Context(), alice, strings.NewReader("x"))
	wantCode(t, err, core.CodeExhausted)
}

func TestReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, MaxUploads: 2})
	up := put(t, s, alice, "kept")
	part := filepath.Join(dir, "alice", core.NewID()+partSuffix)
	if err := os.WriteFile(part, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Dir: dir, MaxUploads: 2})
	if _, err := s.Path(alice, up.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(part); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("what was not finished: %v", err)
	}
	put(t, s, alice, "second")
	_, err := s.Put(t.Context(), alice, strings.NewReader("third"))
	wantCode(t, err, core.CodeQuota)
}

func TestExpire(t *testing.T) {
	t.Parallel()
	s := open(t, Config{})
	old, needed := put(t, s, alice, "old"), put(t, s, alice, "needed")
	now := time.Now()
	keep := func(_ core.TenantID, id core.UploadID) bool { return id == needed.ID }
	if err := s.Expire(now.Add(MaxAge-time.Minute), keep); err != nil || len(left(t, s)) != 2 {
		t.Fatalf("before their time: %v, %v", left(t, s), err)
	}
	if err := s.Expire(now.Add(MaxAge+time.Minute), keep); err != nil {
		t.Fatal(err)
	}
	_, err := s.Path(alice, old.ID)
	wantCode(t, err, core.CodeNotFound)
	if _, err := s.Path(alice, needed.ID); err != nil {
		t.Fatal(err)
	}
}

func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, Config{MaxUploads: 4})
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range 20 {
		wg.Go(func() {
			if _, err := s.Put(context.Background(), alice, strings.NewReader("x")); err == nil {
				mu.Lock()
				done++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if done != 4 || len(left(t, s)) != 4 {
		t.Fatalf("%d were kept, %d files", done, len(left(t, s)))
	}
}
