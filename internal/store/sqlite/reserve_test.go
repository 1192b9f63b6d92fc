package sqlite

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/store"
)

// smallDisk mounts a file system of 64 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("SHOAL_REQUIRE_ROOT") != "" {
			t.Fatal("needs root: it mounts a small file system")
		}
		t.Skip("needs root: it mounts a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func addEvent(ctx context.Context, s *Store) error {
	return s.Update(ctx, func(tx store.Tx) error {
		_, err := tx.AppendEvent(core.Event{Tenant: "tenant", Type: core.EventSandboxDeleted, At: time.Now(), Data: map[string]string{"reason": "a text of some length"}})
		return err
	})
}

// TestRecordsOnFullDisk fills the disk beside the database: what is going on must still find its end.
func TestRecordsOnFullDisk(t *testing.T) {
	dir := smallDisk(t)
	s, err := Open(t.Context(), Config{Path: filepath.Join(dir, "shoal.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := addEvent(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	if _, err := io.Copy(filler, endless{}); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	for n := range 3000 {
		if err := addEvent(t.Context(), s); err != nil {
			t.Fatalf("write %d on a full disk: %v", n, err)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
