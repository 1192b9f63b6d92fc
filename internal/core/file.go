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
	Name  string
	Path  string
	Type  FileType
	Size  int64
	Mode  uint32
	UID   int
	GID   int
	Owner string
	Group string
	MTime time.Time
	// Version is another whenever the content may be another, and means nothing else; empty where nobody can tell.
	Version string
	Target  string
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
	// Append adds the content to the end of a file that is there, instead of replacing it.
	Append bool
}

// PartOptions say where a part of a file that comes in parts goes.
type PartOptions struct {
	WriteOptions
	// Partial is the caller's name for the file while it is coming. It is unique in the sandbox.
	Partial string
	// Offset is where the part begins, which is where the one before it ended.
	Offset int64
	// More keeps the part and waits for another. Without it the file is whole then and takes its place.
	More bool
	// SHA256 is the digest of the whole file, which takes its place only if that is right; nil doesn't check.
	SHA256 []byte
}

// PartialFile is a file that comes in parts. What has come lies beside its place until all has.
type PartialFile struct {
	Path string
	// Size is how much has come.
	Size int64
	// ExpiresAt is when it is thrown away, or forgotten if it has come whole, unless more comes.
	ExpiresAt time.Time
	// Whole says that it has taken its place; File is how it was then, SHA256 its digest.
	Whole  bool
	File   FileInfo
	SHA256 []byte
}

// MaxPartialName is how long the name of a partial file may be.
const MaxPartialName = 128

// FileChange is what is changed of a file. What is nil or empty stays as it is. They happen in the order of the fields, but for the
// mode, which comes after the owner because a new owner takes setuid and setgid away, and the times, which come last.
type FileChange struct {
	// Size cuts a file off, or lengthens it with zeros that take no room.
	Size *int64
	// Mode is the permission bits.
	Mode *uint32
	// Owner and Group are names or numbers.
	Owner, Group string
	// Xattrs are set, or removed, in their order.
	Xattrs []XattrChange
	// ModifiedAt and AccessedAt are the file's times.
	ModifiedAt, AccessedAt *time.Time
	// Recursive changes owner, group and mode of everything below a directory too; links in it are changed themselves, but for the mode.
	Recursive bool
	// NoFollow changes a link at the path itself and not what it leads to.
	NoFollow bool
}

// Xattr is an extended attribute.
type Xattr struct {
	Name  string
	Value []byte
}

// XattrChange sets an extended attribute, or removes it, which is not_found if the file has none of that name.
type XattrChange struct {
	Name   string
	Value  []byte
	Remove bool
}

// The bounds of extended attributes. Those of the values and names are the kernel's.
const (
	MaxXattrName  = 255
	MaxXattrValue = 64 << 10
	// MaxXattrChanges bounds how many are changed together, MaxXattrBytes what their values, or those that are read, come to.
	MaxXattrChanges = 64
	MaxXattrBytes   = 256 << 10
)

// LinkOptions say how a link is made.
type LinkOptions struct {
	// Hard makes another name of the file at the target, which is an absolute path then. Otherwise the target is only text.
	Hard bool
	// User owns a symbolic link; empty means the template's default user.
	User string
	// Parents makes missing parent directories.
	Parents bool
	// Replace replaces, at once, what there is at the path, unless that is a directory. Otherwise that is exists.
	Replace bool
}

// ChecksumAlgorithm is a way to make a digest.
type ChecksumAlgorithm string

// The algorithms. MD5 and SHA-1 find transfers that went wrong; against somebody who means to deceive they are no help.
const (
	ChecksumSHA256 ChecksumAlgorithm = "sha256"
	ChecksumSHA512 ChecksumAlgorithm = "sha512"
	ChecksumSHA1   ChecksumAlgorithm = "sha1"
	ChecksumMD5    ChecksumAlgorithm = "md5"
)

// Size returns how many bytes a digest has; zero for an unknown algorithm.
func (a ChecksumAlgorithm) Size() int {
	switch a {
	case ChecksumSHA256:
		return 32
	case ChecksumSHA512:
		return 64
	case ChecksumSHA1:
		return 20
	case ChecksumMD5:
		return 16
	}
	return 0
}

// Checksum is the digest of what was read of a file.
type Checksum struct {
	File FileInfo
	// Bytes is how many bytes were read.
	Bytes  int64
	Digest []byte
}

// WatchOptions say what is watched.
type WatchOptions struct {
	// Recursive also watches every directory below, those included that are made later. Links are not followed.
	Recursive bool
}

// FileEventKind says what happened.
type FileEventKind string

// The kinds of event.
const (
	// FileCreated: there is a new name at Path; also one that was moved there from where nobody watches.
	FileCreated FileEventKind = "create"
	// FileWritten: content was changed.
	FileWritten FileEventKind = "write"
	// FileRemoved: the name is gone.
	FileRemoved FileEventKind = "remove"
	// FileRenamed: Path is now To; without To it was moved to where nobody watches.
	FileRenamed FileEventKind = "rename"
	// FileChanged: mode, owner, times or attributes were changed.
	FileChanged FileEventKind = "chmod"
	// FileOverflow: things happened that are not told. What is there has to be looked at anew; what happens from now on is told.
	FileOverflow FileEventKind = "overflow"
	// FileGone is the last event: what was watched is not at its path any more.
	FileGone FileEventKind = "gone"
)

// FileEvent is one thing that happened to files. Paths are absolute and begin with the path that was asked for.
type FileEvent struct {
	Kind FileEventKind
	Path string
	// To is the new path of what was renamed.
	To string
	// Dir says that it happened to a directory.
	Dir bool
}

// RemoveOptions say how a file is removed.
type RemoveOptions struct {
	Recursive bool
}

// PackOptions say what an archive holds.
type PackOptions struct {
	// Exclude are patterns of what is left out, a directory with all below it: * ? and [] as in a shell. One without a slash is
	// matched with each name, one with a slash with the path below the root.
	Exclude []string
	// Gzip compresses the archive.
	Gzip bool
}

// UnpackOptions say how an archive is unpacked.
type UnpackOptions struct {
	// User owns what is made; empty means the template's default user. It does not go with KeepOwners.
	User string
	// KeepOwners gives everything the numeric owner and group that the archive names.
	KeepOwners bool
	// Parents makes the directory if it is missing, and those above it.
	Parents bool
	// Gzip says that the archive is compressed.
	Gzip bool
}

// ArchiveReport is what an archive held, or what became of it.
type ArchiveReport struct {
	// Files counts files, hard and symbolic links; Bytes is their content, holes included.
	Files, Directories, Bytes int64
	// Skipped counts what could not be kept, and Notes tells of the first of it.
	Skipped int64
	Notes   []ArchiveNote
}

// ArchiveNote says what of one file could not be kept.
type ArchiveNote struct {
	// Path is relative to the root of the archive. It is bytes.
	Path, Reason string
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

// FileGrant is what a signed URL opens: one file of one sandbox, for reading or for writing.
type FileGrant struct {
	// Path is absolute.
	Path string
	// Write says that the file may be written, else read.
	Write bool
	// For is how long the grant lasts; zero means an hour.
	For time.Duration
	// MaxBytes bounds what may be written; zero is no limit. User owns what is written, as in WriteOptions, with Parents.
	MaxBytes int64
	User     string
	Parents  bool
}

// SignedGrant is a grant with the token that opens it.
type SignedGrant struct {
	FileGrant
	Sandbox   SandboxID
	Token     string
	ExpiresAt time.Time
}
