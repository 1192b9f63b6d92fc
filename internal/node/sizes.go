package node

import (
	"context"
	"fmt"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// Sizes tells what sandboxes keep on a disk. It implements core.TreeSizes.
type Sizes struct{ Disk disk.Driver }

// LeftBytes returns what is kept of the writes of a tree that its sandbox has no more.
func (s Sizes) LeftBytes(ctx context.Context, id core.SandboxID, origin string) (int64, error) {
	u, err := s.Disk.Usage(ctx, sandboxTree(id))
	switch {
	case err == nil && u.Origin == origin:
		return 0, nil
	case err != nil && !core.IsCode(err, core.CodeNotFound):
		return 0, fmt.Errorf("read the disk's figures: %w", err)
	}
	bytes, err := s.Disk.Written(ctx, origin)
	if err != nil {
		return 0, fmt.Errorf("read the disk's figures: %w", err)
	}
	return bytes, nil
}

// KeptBytes returns what a sandbox keeps of its own writes.
func (s Sizes) KeptBytes(ctx context.Context, id core.SandboxID) (int64, error) {
	u, err := s.Disk.Usage(ctx, sandboxTree(id))
	if err != nil {
		return 0, fmt.Errorf("read the disk's figures: %w", err)
	}
	if u.WrittenBytes < 0 {
		return 0, core.Errorf(core.CodeUnsupported, "the disk can't tell what a sandbox keeps")
	}
	return u.WrittenBytes, nil
}
