package core

import "time"

// FileType is the type of a file inside a sandbox.
type FileType string

// The file types.
const (
	FileRegular   FileType = "file"
	FileDirectory FileType = "directory"
	FileSymlink   FileType = "symlink"
	FileOther     FileType = "other"
)

// FileInfo describes one file. Path and Name are bytes as the guest has them: they need not be UTF-8.
type FileInfo struct {
	Name   string
	Path   string
	Type   FileType
	Size   int64
	Mode   uint32
	UID    int
	GID    int
	Owner  string
	Group  string
	MTime  time.Time
	Target string
	// Final is where a symbolic link leads in the end. It is only set by calls that say so, and nil for a link that leads nowhere.
	Final *FinalFile
}

// FinalFile is what a symbolic link leads to, through all further links.
type FinalFile struct {
	// Path is absolute and has no link in it.
	Path string
	Type FileType
	Mode uint32
}

// Place is a path as a user meant it.
type Place struct {
	// Path is absolute.
	Path string
	// User is the user's name, or number if it has none.
	User string
}

// WalkOptions say which part of a tree is listed. The order is that of a walk: a directory's entries by the bytes of their names,
// each followed by what is below it.
type WalkOptions struct {
	// Depth is how many levels below the path are listed; zero means the path itself and nothing below it.
	Depth int
	// After is the Path of the last file of the page before; empty for the first page.
	After string
	// Limit is the most files that a page has: 1 to 1000.
	Limit int
}

// WriteOptions say how a file is written. The file appears whole or not at all.
type WriteOptions struct {
	// Mode is the permission bits of a new file; zero means 0644.
	Mode uint32
	// User owns a new file; empty means the template's default user.
	User string
	// Parents makes missing parent directories.
	Parents bool
	// Exclusive refuses a path at which there is something already, with code exists.
	Exclusive bool
}

// RemoveOptions say how a file is removed.
type RemoveOptions struct {
	Recursive bool
}

// SandboxMetrics is what one sandbox uses now.
type SandboxMetrics struct {
	At time.Time
	// CPUSeconds is the processor time used since it started, in seconds.
	CPUSeconds float64
	// MemoryBytes is what counts toward its memory limit, MemoryLimitBytes the limit.
	MemoryBytes      int64
	MemoryLimitBytes int64
	// DiskBytes is what it wrote since its clone and still keeps; -1 where the disk driver can't tell.
	DiskBytes int64
	// PSSBytes is the memory that the host's processes behind it occupy, shared pages by their share; -1 where it can't be told.
	PSSBytes int64
	// Processes is how many processes it has; -1 while its kernel does not answer.
	Processes int
}
