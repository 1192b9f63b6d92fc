package btrfs_test

import (
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/disk/btrfs"
)

func TestMkfsMissing(t *testing.T) {
	_, err := btrfs.FindMkfs("mkfs.not-there")
	if !core.IsCode(err, core.CodeUnavailable) || !strings.Contains(err.Error(), "btrfs-progs") {
		t.Errorf("got %v, want unavailable, naming the package", err)
	}
	if path, err := btrfs.FindMkfs("mkfs.not-there", "sh"); err != nil || !strings.HasSuffix(path, "/sh") {
		t.Errorf("got %q, %v", path, err)
	}
}
