package layer

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// Apply applies one layer: compressed bytes as a registry or an archive has them, gzip, zstd or plain. diffID is the "sha256:…" that the
// image says its plain bytes have; a layer that has another one is an error, and the tree is to be thrown away, as on every error.
func (t *Tree) Apply(ctx context.Context, r io.Reader, diffID string) error {
	t.made, t.times = map[place]struct{}{}, map[uint64]dirTime{}
	defer func() { t.made, t.times = nil, nil }()
	s, err := openStream(ctx, r, t.limits.Bytes, t.free)
	if err != nil {
		return err
	}
	err = t.applyAll(s)
	digest, streamErr := s.finish(err == nil)
	switch {
	case err != nil:
		return err
	case streamErr != nil:
		return streamErr
	case digest != diffID:
		return core.Wrap(core.CodeDataLoss, fmt.Errorf("it has %s and should have %s", digest, diffID),
			"a layer's content is not what the image says that it is (diff id %s)", clip(diffID))
	}
	return t.setTimes()
}

// applyAll applies every entry.
func (t *Tree) applyAll(r io.Reader) error {
	tr := tar.NewReader(r)
	for {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return malformed(err)
		}
		if err := t.entry(hdr, tr); err != nil {
			return err
		}
	}
}

// malformed is what is wrong with a tar. If the stream that it is in ended early, that is what is wrong.
func malformed(err error) error {
	var own *core.Error
	if errors.As(err, &own) {
		return own
	}
	return core.Wrap(core.CodeInvalid, err, "a layer is no whole tar archive")
}

// entry applies one entry.
func (t *Tree) entry(hdr *tar.Header, content io.Reader) error {
	if hdr.Typeflag == tar.TypeXGlobalHeader {
		return nil // A comment, such as git's.
	}
	if err := t.count(); err != nil {
		return err
	}
	path, err := cleanName(hdr.Name)
	if err != nil {
		return err
	}
	what, path, err := classify(path)
	if err != nil {
		return err
	}
	switch {
	case what == kindIgnored:
		return nil
	case what == kindOpaque:
		return t.hideAll(path)
	case what == kindWhiteout:
		return t.hide(path)
	case hdr.Typeflag == tar.TypeChar && hdr.Devmajor == 0 && hdr.Devminor == 0:
		return t.hide(path) // A whiteout as overlayfs has it.
	}
	if hdr.Typeflag == tar.TypeChar || hdr.Typeflag == tar.TypeBlock {
		return device(path, hdr)
	}
	if hdr.Uid < 0 || hdr.Uid > maxID || hdr.Gid < 0 || hdr.Gid > maxID {
		return refuse("%s belongs to %d:%d: a sandbox has users and groups from 0 to %d", clip(path), hdr.Uid, hdr.Gid, maxID)
	}
	return t.create(path, hdr, content)
}

// device refuses device nodes. Only those that the sandbox's own /dev has anyway, and hides, are left out without a word: some base
// images carry them.
func device(path string, hdr *tar.Header) error {
	dir, base := split(path)
	number, usual := map[string][2]int64{
		"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0}, "console": {5, 1}, "ptmx": {5, 2},
	}[base]
	if dir == "dev" && usual && hdr.Typeflag == tar.TypeChar && number == [2]int64{hdr.Devmajor, hdr.Devminor} {
		return nil
	}
	return refuse("%s is a device node (%d:%d): an image for sandboxes has none", clip(path), hdr.Devmajor, hdr.Devminor)
}

// setTimes sets the directories' times: whatever is made or removed in one changes it.
func (t *Tree) setTimes() error {
	for ino, d := range t.times {
		fd, err := t.openIn(d.path, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			continue // The layer has hidden it since.
		}
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Ino == ino {
			err = setTimes(fd, d.times)
		}
		_ = unix.Close(fd)
		if err != nil {
			return failed("set the time of", d.path, err)
		}
	}
	return nil
}

// digestOf is a digest's text.
func digestOf(sum [sha256.Size]byte) string { return "sha256:" + hex.EncodeToString(sum[:]) }
