package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// setMeta gives an open file or directory the owner, xattrs and mode of its entry. The order matters: a change of owner takes setuid bits
// and capabilities away.
func setMeta(fd int, hdr *tar.Header) error {
	if err := unix.Fchown(fd, hdr.Uid, hdr.Gid); err != nil {
		return fmt.Errorf("set owner: %w", err)
	}
	if err := setXattrs(fd, hdr); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, uint32(hdr.Mode)&0o7777); err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	return nil
}

const (
	paxXattr   = "SCHILY.xattr."
	capability = "security.capability"
)

// keptXattr reports whether an xattr is kept: those of users, and files' capabilities. The others are a policy of the host that the image
// was made on (SELinux labels, signatures, union filesystems' notes) and mean nothing in a sandbox.
func keptXattr(name string) bool { return name == capability || strings.HasPrefix(name, "user.") }

// setXattrs gives a file or directory its entry's xattrs, and takes others away that a lower layer's directory had.
func setXattrs(fd int, hdr *tar.Header) error {
	var kept []string
	for key, value := range hdr.PAXRecords {
		name, ok := strings.CutPrefix(key, paxXattr)
		if !ok || !keptXattr(name) {
			continue
		}
		if len(kept) == maxXattrs || len(name) > maxComponent || len(value) > maxXattr {
			return refuse("%s has more or larger xattrs than can be kept: at most %d of %d bytes", clip(hdr.Name), maxXattrs, maxXattr)
		}
		data := []byte(value)
		if name == capability {
			if data = plainCapability(data); data == nil {
				return refuse("%s has capabilities in a form that is not known", clip(hdr.Name))
			}
		}
		if err := unix.Fsetxattr(fd, name, data, 0); err != nil {
			return fmt.Errorf("set xattr: %w", err)
		}
		kept = append(kept, name)
	}
	if hdr.Typeflag != tar.TypeDir {
		return nil
	}
	return dropXattrs(fd, kept)
}

// plainCapability returns a file's capabilities in the form without a namespace's root (revision 2), from either form, nil from none.
// The kernel adds the jail's own as it keeps them.
func plainCapability(data []byte) []byte {
	const revision2, revision3 = 2, 3
	switch {
	case len(data) == 20 && data[3] == revision2:
		return data
	case len(data) == 24 && data[3] == revision3:
		plain := bytes.Clone(data[:20])
		plain[3] = revision2
		return plain
	}
	return nil
}

// dropXattrs removes the xattrs that are not among those kept.
func dropXattrs(fd int, kept []string) error {
	list := make([]byte, 64<<10)
	n, err := unix.Flistxattr(fd, list)
	if err != nil {
		if errors.Is(err, unix.ENOTSUP) {
			return nil
		}
		return fmt.Errorf("list xattrs: %w", err)
	}
	for name := range strings.SplitSeq(string(list[:n]), "\x00") {
		if !keptXattr(name) || slices.Contains(kept, name) {
			continue
		}
		if err := unix.Fremovexattr(fd, name); err != nil {
			return fmt.Errorf("remove xattr: %w", err)
		}
	}
	return nil
}

// timesOf returns when an entry was read and changed; the first is the second where the tar doesn't say.
func timesOf(hdr *tar.Header) [2]unix.Timespec {
	read := hdr.AccessTime
	if read.IsZero() {
		read = hdr.ModTime
	}
	return [2]unix.Timespec{timespec(read), timespec(hdr.ModTime)}
}

func timespec(t time.Time) unix.Timespec {
	return unix.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
}

func setTimes(fd int, times [2]unix.Timespec) error {
	return unix.UtimesNanoAt(fd, "", times[:], unix.AT_EMPTY_PATH)
}
