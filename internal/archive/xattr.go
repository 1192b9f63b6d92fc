package archive

import (
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// xattrRecord begins the key of a record that holds an extended attribute.
	xattrRecord = "SCHILY.xattr."
	// xattrSpace is where users keep attributes; the others are the system's.
	xattrSpace = "user."
	// maxXattrs bounds the attributes of a file together: a reader refuses records of 1 MiB.
	maxXattrs = 256 << 10
)

// readXattrs adds a file's extended attributes to its records. lost says that not all of them could be.
func readXattrs(fd int, records map[string]string) (lost bool) {
	var small [1024]byte
	list := small[:]
	n, err := unix.Flistxattr(fd, list)
	if err == unix.ERANGE {
		list = make([]byte, 64<<10)
		n, err = unix.Flistxattr(fd, list)
	}
	if err != nil || n == 0 {
		return false // a filesystem without any
	}
	total := 0
	var value []byte
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, xattrSpace) || strings.Contains(name, "=") {
			continue
		}
		if value == nil {
			value = make([]byte, 64<<10)
		}
		n, err := unix.Fgetxattr(fd, name, value)
		if total += n + len(name); err != nil || total > maxXattrs {
			lost = true
			continue
		}
		records[xattrRecord+name] = string(value[:n])
	}
	return lost
}

// writeXattrs sets the extended attributes that records hold; lost says that not all of them could be.
func writeXattrs(fd int, records map[string]string) (lost bool) {
	for key, value := range records {
		name, ok := strings.CutPrefix(key, xattrRecord)
		if !ok {
			continue
		}
		if !strings.HasPrefix(name, xattrSpace) || unix.Fsetxattr(fd, name, []byte(value), 0) != nil {
			lost = true
		}
	}
	return lost
}
