// Package mountinfo reads what is mounted, from the file mountinfo of a process or thread; see proc_pid_mountinfo(5).
//
// It knows nothing of what the mounts are for. Start with Read.
package mountinfo

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// Self is the calling process's own file.
const Self = "/proc/self/mountinfo"

// Mount is one mount, as far as anyone here asks.
type Mount struct {
	// Point is where it is mounted, below the reader's root directory.
	Point string
	// Number is major:minor of the filesystem's device, which is one of its own for some filesystems.
	Number string
	// Type is that of the filesystem, Source where its content comes from, and Options are its own, such as the controllers
	// of a cgroup hierarchy.
	Type, Source string
	Options      []string
}

// Read returns the mounts that a file lists, in its order: of two on one point the topmost is the last.
func Read(path string) ([]Mount, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	return Parse(f)
}

// Parse reads the lines of such a file. A line that is none is passed over.
func Parse(r io.Reader) ([]Mount, error) {
	// The kernel writes these four characters in octal, so that they separate nothing.
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var list []Mount
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 2 {
			continue
		}
		m := Mount{Number: left[2], Point: unescape.Replace(left[4]), Type: right[0], Source: unescape.Replace(right[1])}
		if len(right) > 2 {
			m.Options = strings.Split(right[2], ",")
		}
		list = append(list, m)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return list, nil
}
