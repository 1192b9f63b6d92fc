package files

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
)

// Version returns what is another whenever the content of a regular file may be another: whatever changes that changes the time of
// change too, which nobody can set. A file without bytes has none: files of /proc say so too, and are made up as they are read.
func Version(dev, ino uint64, size, modified, changed int64) string {
	if size == 0 {
		return ""
	}
	h := fnv.New128a()
	_, _ = fmt.Fprint(h, dev, ino, size, modified, changed) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}
