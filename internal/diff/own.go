package diff

import (
	"bytes"
	"io"
	"strings"

	"shoal/internal/core"
	"shoal/internal/files"
)

// maxHosts bounds a file of hosts that is looked into.
const maxHosts = 64 << 10

// own reports whether what is different at a path is only what makes a machine this one: every sandbox has that.
func (c *comparer) own(name string, p pair) bool {
	for _, e := range p {
		if e != nil && e.Type != core.FileRegular {
			return false
		}
	}
	switch name {
	case files.HostnameFile, files.MachineIDFile:
		return true
	case files.HostsFile:
		return c.sameHosts(p)
	}
	return false
}

// sameHosts reports whether two files of hosts differ only in the lines that the guest agents wrote.
func (c *comparer) sameHosts(p pair) bool {
	if p[before] != nil && p[after] != nil && (p[before].Mode != p[after].Mode || p[before].UID != p[after].UID || p[before].GID != p[after].GID) {
		return false
	}
	var text [2]string
	for i, e := range p {
		text[i] = files.DefaultHosts
		if e == nil || e.Size == 0 {
			continue
		}
		f, err := c.sides[i].scan.Open(files.HostsFile)
		if err != nil {
			return false
		}
		b, err := io.ReadAll(io.LimitReader(f, maxHosts+1))
		_ = f.Close()
		if err != nil || len(b) > maxHosts {
			return false
		}
		text[i] = withoutOwn(b)
	}
	return text[before] == text[after]
}

// withoutOwn takes out the lines that are ours.
func withoutOwn(text []byte) string {
	var out strings.Builder
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(bytes.TrimSpace(line), []byte(files.HostsMark)) {
			out.Write(line)
		}
	}
	return out.String()
}
