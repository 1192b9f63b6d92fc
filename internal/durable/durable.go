// Package durable writes small files so that they outlive power loss: after a return the new content is on the disk, and at
// every moment before it the old one is whole.
//
// It knows nothing of what is written. Start with Replace.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Replace gives a file new content and permissions. Others see either the old file or the new one, never a part.
func Replace(path string, content []byte, mode os.FileMode) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(content)
	// The umask may have taken bits away.
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// SyncDir makes the names in a directory durable: those made, renamed and removed so far.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // some filesystems keep directories by themselves
	}
	if err := errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
