package oci

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/image/layer"
)

// index says where the files of an archive are: in the upload itself if that is a plain tar, else in the spool file that it was unpacked to.
type index struct {
	Spooled bool               `json:"spooled"`
	Files   map[string]indexed `json:"files"`
}

// indexed is one file of an archive: where its bytes are, or what it is a link to.
type indexed struct {
	At   int64  `json:"at"`
	Size int64  `json:"size"`
	Link string `json:"link,omitempty"`
}

// Bounds of an archive: an image has a few files for each of its layers.
const (
	maxMembers    = 10_000
	maxMemberName = 512
)

// indexArchive lets a jail look through an archive. The spool file has no name, so that nothing is left of it whatever happens.
func indexArchive(ctx context.Context, cfg Config, archive *os.File) (index, *os.File, error) {
	if err := os.MkdirAll(cfg.WorkDir, 0o700); err != nil {
		return index{}, nil, fmt.Errorf("make a place to unpack the archive to: %w", err)
	}
	fd, err := unix.Open(cfg.WorkDir, unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return index{}, nil, fmt.Errorf("make a file to unpack the archive to: %w", err)
	}
	spool := os.NewFile(uintptr(fd), "spool")
	j, err := startJail(ctx, cfg, faceIndex, nil, []*os.File{archive, spool})
	if err != nil {
		return index{}, spool, err
	}
	if err := j.command(command{Limits: &cfg.Limits}); err != nil {
		return index{}, spool, j.fail(err)
	}
	out, err := j.end()
	if err == nil && out.Index == nil {
		err = core.Errorf(core.CodeInternal, "the archive could not be read")
	}
	if err != nil {
		return index{}, spool, err
	}
	return *out.Index, spool, nil
}

// makeIndex looks through an archive, in the jail. One that is compressed is unpacked to spool first, of at most limit bytes.
func makeIndex(archive io.ReadSeeker, spool io.ReadWriteSeeker, limits layer.Limits) (index, error) {
	plain, err := layer.Decompress(archive)
	if err != nil {
		return index{}, err
	}
	defer func() { _ = plain.Close() }()
	out := index{}
	at := archive
	if layer.IsCompressed(plain) {
		n, err := io.CopyBuffer(&spoolWriter{w: spool, minFree: limits.MinFree}, io.LimitReader(plain, limits.Bytes+1), make([]byte, 1<<20))
		switch {
		case errors.Is(err, errFull), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
			return out, core.Wrap(core.CodeExhausted, err, "there is no space left to unpack the archive")
		case n > limits.Bytes || errors.Is(err, unix.EFBIG):
			return out, core.Errorf(core.CodeInvalid, "the archive unpacks to more than %d MiB, which is the most that this server takes", limits.Bytes>>20)
		case err != nil:
			return out, core.Wrap(core.CodeInvalid, err, "the archive can't be unpacked: its compression is damaged")
		}
		out.Spooled, at = true, spool
	}
	if _, err := at.Seek(0, io.SeekStart); err != nil {
		return out, fmt.Errorf("go back to the archive's beginning: %w", err)
	}
	out.Files, err = listMembers(at)
	return out, err
}

// listMembers finds the files of a tar.
func listMembers(r io.ReadSeeker) (map[string]indexed, error) {
	list := map[string]indexed{}
	tr := tar.NewReader(r)
	for n := 0; ; n++ {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, core.Wrap(core.CodeInvalid, err, "the archive is no whole tar archive: is it an OCI layout or the output of docker save?")
		}
		if n == maxMembers {
			return nil, core.Errorf(core.CodeInvalid, "the archive has more than %d files: it is no container image", maxMembers)
		}
		name := cleanMember(hdr.Name)
		if len(name) > maxMemberName || name == "" {
			continue // No part of an image.
		}
		switch hdr.Typeflag {
		case tar.TypeReg:
			// The reader takes no more from below than it has given out, so this is where the file's bytes begin.
			at, err := r.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, fmt.Errorf("find a file's place: %w", err)
			}
			list[name] = indexed{At: at, Size: hdr.Size}
		case tar.TypeSymlink:
			list[name] = indexed{Link: hdr.Linkname}
		case tar.TypeLink:
			list[name] = indexed{Link: "/" + strings.TrimPrefix(hdr.Linkname, "/")}
		}
	}
}

// errFull says that the spool file's filesystem has no space to give.
var errFull = errors.New("the filesystem is nearly full")

// lookEvery is how much is written to the spool file before the free space is looked at again.
const lookEvery = 16 << 20

// spoolWriter writes to the spool file for as long as its filesystem keeps some space free: the server's own files lie there, and what is
// unpacked is hundreds of times as long as what was uploaded if somebody means it to be.
type spoolWriter struct {
	w io.Writer
	// minFree is what stays free, unseen what was written since that was looked at.
	minFree, unseen int64
	looked          bool
}

// Write writes to the file.
func (s *spoolWriter) Write(p []byte) (int, error) {
	if s.unseen += int64(len(p)); !s.looked || s.unseen >= lookEvery {
		if err := s.look(); err != nil {
			return 0, err
		}
		s.looked, s.unseen = true, 0
	}
	return s.w.Write(p)
}

func (s *spoolWriter) look() error {
	f, ok := s.w.(*os.File)
	if !ok {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at the free space: %w", err)
	}
	if int64(st.Bavail)*st.Bsize < s.minFree {
		return errFull
	}
	return nil
}
