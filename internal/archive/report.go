package archive

import (
	"io/fs"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

const (
	// chunk is how much content is moved at a time.
	chunk = 256 << 10
	// maxNotes and maxNoteBytes bound what a report tells of one by one.
	maxNotes     = 20
	maxNoteBytes = 1024
	// maxRemembered bounds, in bytes of names, what is remembered of hard links and of directories.
	maxRemembered = 16 << 20
	// entryCost is what a remembered name costs besides its bytes.
	entryCost = 128
)

// Report is what an archive held, or what became of it.
type Report = core.ArchiveReport

// report counts.
type report struct {
	core.ArchiveReport
	noted int
}

// skip notes what could not be kept of a file.
func (r *report) skip(path, reason string) {
	r.Skipped++
	if len(r.Notes) >= maxNotes || r.noted+len(path)+len(reason) > maxNoteBytes {
		return
	}
	r.noted += len(path) + len(reason)
	r.Notes = append(r.Notes, core.ArchiveNote{Path: path, Reason: reason})
}

// fault names the file that a system call failed for.
func fault(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if path == "" {
		path = "."
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// join puts a name below a relative directory, of which the root is empty.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// virtual reports whether a filesystem is one whose files are made up as they are read.
func virtual(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	switch st.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.DEVPTS_SUPER_MAGIC:
		return true
	}
	return false
}

// retry makes a system call again that a signal broke off: the runtime sends some to itself.
func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR { //nolint:errorlint // a bare errno
			return err
		}
	}
}
