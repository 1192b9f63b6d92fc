package core

import "time"

// The bounds of what is told of differences. What is beyond them is counted.
const (
	// MaxDiffFiles is how many files a page has, MaxDiffPackages, MaxDiffCredentials and MaxDiffNotes how many of each are told at most.
	MaxDiffFiles       = 1000
	MaxDiffPackages    = 5000
	MaxDiffCredentials = 1000
	MaxDiffNotes       = 100
	// MaxProcesses and MaxListeners are how many a sandbox tells of at most, MaxCommandBytes how much of a command line.
	MaxProcesses    = 1000
	MaxListeners    = 1000
	MaxCommandBytes = 1024
)

// TreeKind says whose files a tree holds.
type TreeKind string

// The kinds of tree that a sandbox's files are held against.
const (
	TreeTemplate   TreeKind = "template"
	TreeCheckpoint TreeKind = "checkpoint"
	TreeSandbox    TreeKind = "sandbox"
)

// TreeRef names a tree on a node.
type TreeRef struct {
	Kind TreeKind
	ID   string
}

// TreeDiffQuery asks what is different in a sandbox's files from those of another tree.
type TreeDiffQuery struct {
	Sandbox SandboxID
	// Against is what was before.
	Against TreeRef
	// SharedBefore is until when both trees had one history, if they had one: a file that both have by the same inode, and that was last
	// changed before that, is one file and is not read. Zero is for trees that have nothing in common.
	SharedBefore time.Time
	// Path is where to look, an absolute path.
	Path string
	// After is the path that the page before ended with; empty is the first page, which alone has everything but files.
	After string
	// Limit is how many files are told of, 1 to MaxDiffFiles.
	Limit int
	// Expand tells each file in a directory that is new or gone, which is counted otherwise.
	Expand bool
	// Hunks adds what is different in the lines of text.
	Hunks bool
}

// DiffChange says what became of something.
type DiffChange string

// What became of it.
const (
	DiffAdded   DiffChange = "added"
	DiffRemoved DiffChange = "removed"
	DiffChanged DiffChange = "changed"
)

// DiffAspect is one thing that is different of a file that is on both sides.
type DiffAspect string

// The aspects.
const (
	AspectType    DiffAspect = "type"
	AspectContent DiffAspect = "content"
	AspectTarget  DiffAspect = "target"
	AspectMode    DiffAspect = "mode"
	AspectOwner   DiffAspect = "owner"
	AspectXattrs  DiffAspect = "xattrs"
)

// FileDiff is one file that is not the same on both sides. Times don't count, and a file that was moved is one that is gone and a new one.
type FileDiff struct {
	// Path is absolute. It is bytes.
	Path   string
	Change DiffChange
	// Aspects are what is different of one that is on both sides.
	Aspects []DiffAspect
	// Unsure says that more may be different, since not all of it could be compared.
	Unsure bool
	// Before and After describe it; nil where it is not.
	Before, After *FileState
	// Below counts what is in a directory that is new or gone, unless each is told.
	Below *DiffCount
	// Hunks are the lines that are different, as a unified diff has them. NoHunks says why there are none that were asked for.
	Hunks   string
	NoHunks NoHunks
}

// FileState is how a file was on one side.
type FileState struct {
	Type FileType
	Size int64
	Mode uint32
	UID  int
	GID  int
	// Target is what a symbolic link says. It is bytes.
	Target string
}

// NoHunks says why a file has no hunks.
type NoHunks string

// The reasons.
const (
	HunksBinary     NoHunks = "binary"
	HunksTooLarge   NoHunks = "too_large"
	HunksCredential NoHunks = "credential"
	HunksUnread     NoHunks = "unread"
	// HunksPageFull says that the page has as many lines as it may: ask for this file alone.
	HunksPageFull NoHunks = "page_full"
)

// DiffCount counts files of all types, and the bytes of regular ones, holes included.
type DiffCount struct {
	Files int64
	Bytes int64
}

// DiffSummary counts all files that are not the same.
type DiffSummary struct {
	Added, Removed, Changed DiffCount
}

// PackageManager says who keeps a package.
type PackageManager string

// The package managers.
const (
	PackageDpkg  PackageManager = "dpkg"
	PackagePip   PackageManager = "pip"
	PackageNpm   PackageManager = "npm"
	PackageGo    PackageManager = "go"
	PackageCargo PackageManager = "cargo"
)

// PackageDiff is a package that is installed on one side only, or in two versions.
type PackageDiff struct {
	Manager PackageManager
	Name    string
	// Path is where it is: the directory that packages are in, or a program.
	Path          string
	Change        DiffChange
	Before, After string
}

// CredentialKind says what something looks like.
type CredentialKind string

// CredentialFinding is a place where there is likely a credential. What that is, is nowhere told.
type CredentialFinding struct {
	Kind CredentialKind
	// Path is the file, bytes; Line counts from 1, and is zero where the whole file is meant.
	Path string
	Line int
	// PID is a process whose command line has it, instead of a file.
	PID int
}

// DiffNote says what could not be looked at. Paths are bytes.
type DiffNote struct {
	Path   string
	Reason string
}

// TreeDiff is what is different in one tree from another. Files are in the order of a walk: directories by the bytes of their names, each
// before what is in it.
type TreeDiff struct {
	Files []FileDiff
	// More says that there are others after the last one.
	More bool
	// The rest is told with the first page only.
	Summary     DiffSummary
	Packages    []PackageDiff
	Credentials []CredentialFinding
	// MorePackages and MoreCredentials count those that are left out.
	MorePackages, MoreCredentials int64
	// Notes are about what could not be looked at; MoreNotes counts those that are left out.
	Notes     []DiffNote
	MoreNotes int64
}

// Process is a process inside a sandbox, as its guest agent sees it.
type Process struct {
	PID    int
	Parent int
	UID    int
	// User is the user's name, if the sandbox has one.
	User string
	// Command is the command line, its words with spaces between; it is bytes, and cut off at MaxCommandBytes. Of a process that has none
	// it is the name in brackets.
	Command string
	// Cut says that it is not all of it.
	Cut       bool
	StartedAt time.Time
}

// Listener is a socket that waits for others.
type Listener struct {
	// Proto is tcp or udp.
	Proto   string
	Address string
	Port    uint16
	// PID is a process that has it open, zero if none is known.
	PID int
}

// ProcessList is what runs in a sandbox, but for its guest agent.
type ProcessList struct {
	Processes []Process
	Listeners []Listener
	// MoreProcesses and MoreListeners count those that are left out.
	MoreProcesses, MoreListeners int64
}
