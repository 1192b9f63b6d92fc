package layer

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// Bounds that are no setting: no honest image comes near them.
const (
	// maxName bounds a name in a layer, maxComponent one part of it, maxDepth how many parts it has.
	maxName      = 4095
	maxComponent = 255
	maxDepth     = 200
	// maxRealDepth bounds directories that nest deeper than any name, by way of links.
	maxRealDepth = 256
	maxXattrs    = 64
	// maxXattr is less than what btrfs keeps of one.
	maxXattr = 16000
	// maxID is the greatest user or group of a tree: the range that a sandbox's users are mapped to.
	maxID = 65535
	// A layer may become ratioFree bytes whatever its size, and beyond them ratio times its size.
	ratioFree = 512 << 20
	ratio     = 200
	// maxWindow is what zstd may ask to remember: as much as its command line does with --long.
	maxWindow = 128 << 20
)

// Limits bound an image as a whole. They count what all layers write, also what later ones hide.
type Limits struct {
	// Bytes is the sum of files' sizes, holes included, and at the same time of each layer's own length.
	Bytes int64 `json:"bytes"`
	// Entries is how many files, directories, links and whiteouts there are.
	Entries int64 `json:"entries"`
	// MinFree is the space that stays free on the filesystem of the tree: it is what sandboxes write in.
	MinFree int64 `json:"min_free"`
}

// clip quotes a name of hostile bytes for a message.
func clip(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most] + "…"
	}
	return fmt.Sprintf("%q", name)
}

// refuse says what is wrong with an image.
func refuse(format string, args ...any) error { return core.Errorf(core.CodeInvalid, format, args...) }

// failed names what could not be done with an entry. An error of the kernel's that is the image's doing, or that of a full disk, is told
// in words.
func failed(act, name string, err error) error {
	var own *core.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return core.Wrap(core.CodeExhausted, err, "there is no space left to unpack the image")
	case errors.Is(err, unix.EFBIG):
		return core.Wrap(core.CodeInvalid, err, "%s is larger than an image may be", clip(name))
	case errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EMLINK):
		return core.Wrap(core.CodeInvalid, err, "the filesystem can't hold %s: %s", clip(name), strings.ToLower(err.Error()))
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, fs.ErrNotExist):
		return core.Wrap(core.CodeInvalid, fmt.Errorf("%s: %w", act, err), "%s: its directory or target leads nowhere in the image", clip(name))
	}
	return core.Wrap(core.CodeInternal, fmt.Errorf("%s %s: %w", act, clip(name), err), "the image could not be unpacked")
}

// publicText is an error's message for the tenant.
func publicText(err error) string {
	var own *core.Error
	if errors.As(err, &own) {
		return own.Message
	}
	return "the image could not be unpacked"
}
