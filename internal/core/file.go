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
}

// WriteOptions say how a file is written. The file appears whole or not at all.
type WriteOptions struct {
	// Mode is the permission bits of a new file; zero means 0644.
	Mode uint32
	// User owns a new file; empty means the template's default user.
	User string
	// Parents makes missing parent directories.
	Parents bool
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
