package files

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// The files that name users and groups, and how many fields their lines have.
const (
	PasswdFile   = "/etc/passwd"
	GroupFile    = "/etc/group"
	PasswdFields = 7
	GroupFields  = 4
)

const (
	// maxLine bounds a line of them, maxNames how many names are kept.
	maxLine  = 1 << 20
	maxNames = 65536
	// maxOwner bounds a name: one that is longer is none.
	maxOwner = 256
)

// Lines calls f for each line of a colon-separated file that has n fields, until f returns false. What is malformed is left out.
func Lines(r io.Reader, n int, f func(fields []string) bool) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxLine)
	for sc.Scan() {
		if fields := strings.Split(sc.Text(), ":"); len(fields) == n && !f(fields) {
			return nil
		}
	}
	return sc.Err()
}

// Names returns the names of a file's ids, of several the first. What can't be read has no names.
func Names(r io.Reader, n int) map[int]string {
	m := map[int]string{}
	_ = Lines(r, n, func(f []string) bool {
		if id, err := strconv.Atoi(f[2]); err == nil && len(f[0]) <= maxOwner {
			if _, ok := m[id]; !ok {
				m[id] = f[0]
			}
		}
		return len(m) < maxNames
	})
	return m
}
