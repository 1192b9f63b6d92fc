package doctor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// host is how checks see the machine. Tests hand in a directory for "/" and answers for what only a kernel can say.
type host struct {
	// root is where the machine's files are.
	root    string
	arch    string
	release string
	euid    int
	// lookPath finds a program.
	lookPath func(name string) (string, error)
	statfs   func(path string) (unix.Statfs_t, error)
	// files is the hard limit of open files.
	files func() (uint64, error)
	// clock reports whether the kernel's clock is synchronised, and its seconds since 1970.
	clock func() (synced bool, now int64, err error)
	// namespaces and nftables try what sandboxes need and undo it.
	namespaces func(ctx context.Context, ownerUID int) error
	nftables   func() error
}

// thisHost is the machine that the program runs on.
func thisHost() host {
	var uts unix.Utsname
	_ = unix.Uname(&uts) // It can't fail with a good pointer.
	return host{
		root: "/", arch: runtime.GOARCH, release: unix.ByteSliceToString(uts.Release[:]), euid: os.Geteuid(),
		lookPath: lookPath, statfs: statfs, files: hardFiles, clock: kernelClock, namespaces: tryNamespaces, nftables: tryNftables,
	}
}

// lookPath finds a program also where a user's PATH doesn't look.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}

func statfs(path string) (unix.Statfs_t, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	return st, err
}

// read returns a small file without surrounding space; ok is false if it can't be read.
func (h host) read(path string) (text string, ok bool) {
	data, err := os.ReadFile(filepath.Join(h.root, path))
	return strings.TrimSpace(string(data)), err == nil
}

// exists reports whether there is something at path.
func (h host) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(h.root, path))
	return err == nil
}

// link returns where a symlink leads.
func (h host) link(path string) (target string, ok bool) {
	target, err := os.Readlink(filepath.Join(h.root, path))
	return target, err == nil
}

// number reads a file that holds one number.
func (h host) number(path string) (n int64, ok bool) {
	text, ok := h.read(path)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// field returns the rest of the line of a file such as /proc/self/status that starts with name and a colon.
func (h host) field(path, name string) (value string, ok bool) {
	text, _ := h.read(path)
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// loadable reports whether the running kernel has a module built in, loaded, or on disk to be loaded on demand.
func (h host) loadable(module string) bool {
	if h.exists("sys/module/" + module) {
		return true
	}
	for _, list := range []string{"modules.builtin", "modules.dep"} {
		text, _ := h.read(filepath.Join("lib/modules", h.release, list))
		for line := range strings.SplitSeq(text, "\n") {
			name, _, _ := strings.Cut(filepath.Base(strings.Split(line, ":")[0]), ".ko")
			if strings.ReplaceAll(name, "-", "_") == module {
				return true
			}
		}
	}
	return false
}

// kernel returns the first two numbers of the kernel's release.
func (h host) kernel() (major, minor int) {
	parts := strings.FieldsFunc(h.release, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) >= 2 {
		major, _ = strconv.Atoi(parts[0])
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}

// kernelAtLeast compares the running kernel.
func (h host) kernelAtLeast(major, minor int) bool {
	a, b := h.kernel()
	return a > major || (a == major && b >= minor)
}
