package btrfs

import (
	"log/slog"

	"shoal/internal/core"
)

// Defaults and bounds of a pool image.
const (
	// DefaultGrowStep is how much an image grows at a time, and its first size.
	DefaultGrowStep = 4 << 30
	// MinImageBytes is the smallest image: below it btrfs has no room for its own metadata chunks.
	MinImageBytes = 256 << 20

	// growUnit is what every size of an image is a multiple of.
	growUnit = 16 << 20
)

// Config says where trees live and how much of the host's disk they may take.
type Config struct {
	// Dir is the driver's own directory, made if it is not there.
	Dir string
	// MaxBytes bounds the pool image; zero means that only the host's disk does. It has no effect on a Dir that is on
	// btrfs: Open then warns if it is set.
	MaxBytes int64
	// GrowStep is how much the image grows at a time; zero means DefaultGrowStep.
	GrowStep int64
	// MinHostFree is what the image leaves free on the host's disk when it is made or grows.
	MinHostFree int64
	// OwnerGID is a host group that may pass through the directories above the trees, but not list them: for a runtime whose
	// file server opens a tree by its path, as that group. Zero lets nobody but root pass, so that what breaks out as a
	// guest's user can't reach another tree by its path; it suits a runtime that is handed each tree by a mount.
	OwnerGID int
	// Logger may be nil.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, core.Invalid("dir", "the directory of trees is not set")
	}
	if c.MaxBytes < 0 || c.GrowStep < 0 || c.MinHostFree < 0 || c.OwnerGID < 0 {
		return c, core.Errorf(core.CodeInvalid, "a size or group of the pool is negative")
	}
	if c.GrowStep == 0 {
		c.GrowStep = DefaultGrowStep
	}
	c.GrowStep = roundUp(max(c.GrowStep, growUnit))
	if c.MaxBytes != 0 && c.MaxBytes < MinImageBytes {
		return c, core.Errorf(core.CodeInvalid, "a pool needs at least %d MiB", MinImageBytes>>20)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func roundUp(n int64) int64   { return (n + growUnit - 1) / growUnit * growUnit }
func roundDown(n int64) int64 { return n / growUnit * growUnit }
