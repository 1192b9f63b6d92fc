package core

import (
	"context"
	"io"
	"net"
	"time"
)

// Clock tells the time. Tests hand in a fake one.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives once d has passed.
	After(d time.Duration) <-chan time.Time
}

// SystemClock is the machine's own clock.
type SystemClock struct{}

// Now returns the current time in UTC.
func (SystemClock) Now() time.Time { return time.Now().UTC() }

// After waits for d.
func (SystemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// NodeSpec is everything a node needs to run a sandbox. It is rebuilt from the store at every start.
type NodeSpec struct {
	Sandbox     SandboxID
	Tenant      TenantID
	Incarnation int64
	Epoch       int64
	// Template is the one that it descends from, which may be gone.
	Template TemplateID
	// Source is what a new tree is made of: a template or a checkpoint.
	Source    TreeSource
	Config    TemplateConfig
	Hostname  string
	Resources Resources
	Env       map[string]string
}

// NodeSandbox is a sandbox as a node finds it: what exists, not what is wanted.
type NodeSandbox struct {
	Sandbox     SandboxID
	Incarnation int64
	Epoch       int64
	// Running says that its sentry answers.
	Running bool
}

// Known is what there are records of: a node keeps it, and sets aside or reclaims everything else that it finds.
type Known struct {
	Sandboxes   map[SandboxID]bool
	Templates   map[TemplateID]bool
	Checkpoints map[CheckpointID]bool
}

// NodeExit tells that a sandbox's machine ended without being asked to.
type NodeExit struct {
	Sandbox     SandboxID
	Incarnation int64
	// Reason is safe to show.
	Reason string
}

// NodeCapacity is what a node has and what is promised of it.
type NodeCapacity struct {
	MemoryBytes         int64
	MemoryReservedBytes int64
	Sandboxes           int
	MaxSandboxes        int
	DiskBytes           int64
	DiskFreeBytes       int64
}

// Node is one machine that runs sandboxes. Commands for different sandboxes run in parallel; the caller serialises
// those of one sandbox. Every method may be repeated: a command that has been carried out already succeeds.
type Node interface {
	NodeAdmission
	// Create clones the source's tree and starts a sandbox whose guest agent has answered. On any error nothing of
	// it is left. It needs a reservation. Canceling ctx undoes what was begun.
	Create(ctx context.Context, spec NodeSpec) error
	// Resize changes the limits of a sandbox that runs, all of them or none: on an error those of before hold, and so does the
	// reservation. What it needs more than before has been reserved by then. Memory below what is in use is a conflict, with
	// the figures, unless the change is forced: then what uses too much is killed.
	Resize(ctx context.Context, id SandboxID, r Resources, force bool) error
	// Delete ends and removes a sandbox in any condition. What can't be reclaimed at once is reclaimed later.
	Delete(ctx context.Context, id SandboxID) error
	// Guest returns the way to a running sandbox's guest agent, unavailable if it does not run.
	Guest(id SandboxID) (Guest, error)
	NodeFiles
	// Metrics reports what a running sandbox uses.
	Metrics(ctx context.Context, id SandboxID) (SandboxMetrics, error)
	// List returns the sandboxes that exist here.
	List(ctx context.Context) ([]NodeSandbox, error)
	// Exits delivers sandboxes that ended by themselves until the node closes.
	Exits() <-chan NodeExit
	// Sweep sets aside the trees of sandboxes, templates and checkpoints that are not in known, and reclaims the processes and mounts
	// of such sandboxes.
	Sweep(ctx context.Context, known Known) error
	NodeTrees
	// Capacity tells what the node has and has promised.
	Capacity(ctx context.Context) (NodeCapacity, error)
}

// NodeFiles looks at the files of sandboxes without their guest agents.
type NodeFiles interface {
	// Files returns what reads the files of a sandbox that does not run. It is conflict if it runs, not_found if it has none here.
	Files(ctx context.Context, id SandboxID) (FileReader, error)
	// Diff tells what is different in a sandbox's files from those of another tree. Sandboxes may run and go on: of each a clone is read
	// that is gone when Diff returns. It is not_found if one of the two has no tree here, or no file at the path.
	Diff(ctx context.Context, q TreeDiffQuery) (TreeDiff, error)
}

// NodeAdmission promises a node's resources, before anything that needs them is begun.
type NodeAdmission interface {
	// Reserve promises resources to a sandbox, atomically: either all of it or an exhausted error and nothing. A second
	// reservation by the same sandbox replaces the first.
	Reserve(ctx context.Context, id SandboxID, r Resources) error
	// ReserveAll promises the same resources to each of several sandboxes that have none, to all or to none. What doesn't fit is exhausted,
	// and says how many would.
	ReserveAll(ctx context.Context, ids []SandboxID, each Resources) error
	// Release gives a reservation back. Stop and Delete release by themselves.
	Release(id SandboxID)
}

// NodeTrees are a node's commands on the trees that no sandbox runs on.
type NodeTrees interface {
	NodeStarts
	NodeTemplates
	NodeCheckpoints
}

// NodeStarts are a node's commands that end a sandbox's processes and start them anew, on files that stay or are others.
type NodeStarts interface {
	// Stop ends a sandbox's processes, after what its programs have written was flushed, cuts its network and gives its reservation back. Its
	// tree stays. On an error its guest agent still answers if nothing was done yet; otherwise Stop is to be repeated.
	Stop(ctx context.Context, id SandboxID) error
	// Wake starts a sandbox that doesn't run on the tree that it has, as a new incarnation, and returns when its guest agent has
	// answered. It needs a reservation. On any error nothing of it runs, its tree stays and the reservation is given back; canceling
	// ctx undoes what was begun.
	Wake(ctx context.Context, spec NodeSpec) error
	// Restore puts what spec.Source has in the place of the files that a sandbox has, in whatever condition that is, and
	// starts it on them as Wake does. It needs a reservation. On an error its guest agent still answers if nothing was done yet; otherwise
	// nothing of it runs, the reservation is given back, and its files are all of the one or all of the other.
	Restore(ctx context.Context, spec NodeSpec) error
}

// NodeTemplates are a node's commands on the trees of templates.
type NodeTemplates interface {
	// ImportTemplate makes a frozen tree for the template by calling fill with an empty directory. The tree's digest
	// and size are returned. An import that was cut off leaves nothing.
	ImportTemplate(ctx context.Context, id TemplateID, fill func(ctx context.Context, dir string) error) (TreeInfo, error)
	// CaptureTemplate makes a frozen tree for the template of the files of a checkpoint, or of a sandbox, which may run and goes on:
	// without what is its machine's own, such as its identity, host keys and temporary files. What its programs have written before is
	// in it. One that was cut off leaves nothing that HasTemplate would find.
	CaptureTemplate(ctx context.Context, id TemplateID, from TreeSource) (CapturedTree, error)
	// HasTemplate reports whether the template's tree is complete here.
	HasTemplate(ctx context.Context, id TemplateID) (bool, error)
	// DeleteTemplate removes the template's tree.
	DeleteTemplate(ctx context.Context, id TemplateID) error
}

// NodeCheckpoints are a node's commands on the trees of checkpoints.
type NodeCheckpoints interface {
	// Checkpoint makes a frozen tree of a sandbox's files as they are at one moment, in any state in which it has files. If it runs, its
	// processes are held for that moment and go on, whatever fails: all that they have written until then, flushed or not, is in it. On any
	// error nothing of it is left. One that is there already is left as it is.
	Checkpoint(ctx context.Context, id CheckpointID, from SandboxID) (CheckpointTree, error)
	// HasCheckpoint reports whether the checkpoint's tree is here.
	HasCheckpoint(ctx context.Context, id CheckpointID) (bool, error)
	// DeleteCheckpoint removes the checkpoint's tree. No other tree loses anything by it.
	DeleteCheckpoint(ctx context.Context, id CheckpointID) error
}

// TreeSizes tells what sandboxes keep on a node's disk.
type TreeSizes interface {
	// KeptBytes returns what a sandbox keeps of its own writes: what it shares with its template does not count. It is unsupported
	// where nobody can tell.
	KeptBytes(ctx context.Context, id SandboxID) (int64, error)
	// LeftBytes returns what is kept of the writes that a checkpoint's origin names, and that KeptBytes of its sandbox doesn't count: nothing
	// as long as the sandbox has the tree that wrote them.
	LeftBytes(ctx context.Context, id SandboxID, origin string) (int64, error)
}

// TreeInfo describes a frozen tree.
type TreeInfo struct {
	// Digest is the sha256 of the canonical listing: sorted paths with type, mode, owner, size and content digest.
	Digest    string
	SizeBytes int64
	// OwnBytes is how much of it is not shared with what the tree was cloned from, as far as anybody can tell.
	OwnBytes int64
	Files    int64
}

// CapturedTree describes a frozen tree that was made of a sandbox's files.
type CapturedTree struct {
	TreeInfo
	// Packages are those that its package manager says are installed. Tenant code may have written that.
	Packages []Package
}

// Guest is one sandbox's guest agent. Everything that comes back from it is hostile: sizes are bounded and names are
// bytes. An error with CodeUnavailable means that the agent or its sandbox is gone or does not answer. What an agent of an
// older build doesn't know yet is unsupported.
type Guest interface {
	GuestExecs
	FileReader
	FileWriter
	PartWriter
	// Ping makes a round trip without starting a process.
	Ping(ctx context.Context) error
	// Resolve returns the absolute path that a user means by a path: one that is empty or relative counts from the default working
	// directory for the default user and from the home for any other, and "~" is the home. An empty user is the default user; one that
	// does not exist is invalid with field "user".
	Resolve(ctx context.Context, path, user string) (Place, error)
	// Watch follows what happens to files. It returns once everything is being watched, so that what happens from then on is told.
	Watch(ctx context.Context, path string, opts WatchOptions) (FileWatch, error)
	// Processes tells what runs, but for the agent itself, and what waits for connections. An agent of before version 6 answers
	// unsupported.
	Processes(ctx context.Context) (ProcessList, error)
	// DialPort connects to a TCP port on the sandbox's own loopback.
	DialPort(ctx context.Context, port uint16) (net.Conn, error)
}

// GuestExecs starts and follows processes.
type GuestExecs interface {
	// Exec starts a process and follows it from its first byte. The stream holds the process back while the caller is
	// slow, within bounds; closing it lets the process go on.
	Exec(ctx context.Context, id ExecID, spec ExecSpec) (ExecStream, error)
	// Attach follows an exec's output from an offset; an offset that the ring no longer holds yields a gap first.
	Attach(ctx context.Context, id ExecID, from int64) (ExecStream, error)
	GetExec(ctx context.Context, id ExecID) (Exec, error)
	ListExecs(ctx context.Context) ([]Exec, error)
	// Signal sends a signal by name ("SIGTERM") to the exec's whole group.
	Signal(ctx context.Context, id ExecID, signal string) error
	// Cancel kills the exec's whole group; its outcome is canceled.
	Cancel(ctx context.Context, id ExecID) error
	Resize(ctx context.Context, id ExecID, rows, cols uint16) error
	// WriteStdin appends to a running exec's input; end closes it afterwards.
	WriteStdin(ctx context.Context, id ExecID, data []byte, end bool) error
	// Acknowledge lets the agent forget the records of ended execs.
	Acknowledge(ctx context.Context, ids []ExecID) error
}

// FileReader reads a sandbox's files: through its guest agent while it runs, from its tree on the host while it doesn't. Both answer
// alike; internal/files/filestest is the suite that says how. Paths are absolute inside the sandbox. A symbolic link in the middle of
// a path is followed, and never leads out of the sandbox's root.
type FileReader interface {
	// Stat describes a file as lstat does: a symbolic link itself, with its target.
	Stat(ctx context.Context, path string) (FileInfo, error)
	// Walk returns a page of a tree, with Final set, and whether there is more. A link at the path itself is followed if Depth is
	// not zero; other links are not gone into.
	Walk(ctx context.Context, path string, opts WalkOptions) (page []FileInfo, more bool, err error)
	// ListFiles returns a page of a directory's entries in name order, at most limit, after the name `after`, and whether there are more. A
	// page is cut, but for one entry, where its names come to much.
	ListFiles(ctx context.Context, path, after string, limit int) (page []FileInfo, more bool, err error)
	// ReadFile returns content from offset, at most length bytes (length < 0: to the end), with the file's info. A link is followed.
	ReadFile(ctx context.Context, path string, offset, length int64) (FileInfo, io.ReadCloser, error)
	// Xattrs returns the extended attributes of what a path leads to that its user may see, in the order of their names.
	Xattrs(ctx context.Context, path string) ([]Xattr, error)
	// Checksum reads a regular file where it is and returns the digest of its content. A link is followed.
	Checksum(ctx context.Context, path string, algorithm ChecksumAlgorithm) (Checksum, error)
	// Pack returns a file or a tree as a tar stream. After io.EOF it is whole and Report tells what is in it; any other error means
	// that it is not.
	Pack(ctx context.Context, path string, opts PackOptions) (Archive, error)
}

// FileWriter changes a running sandbox's files.
type FileWriter interface {
	// WriteFile writes a whole file from r. Until it returns nil the old content stands.
	WriteFile(ctx context.Context, path string, opts WriteOptions, r io.Reader) (FileInfo, error)
	// Change changes what there is to know of a file besides its content, and its size. Not all of it happens at once: what was done
	// before an error stays done.
	Change(ctx context.Context, path string, change FileChange) (FileInfo, error)
	// Link makes a symbolic or a hard link at a path.
	Link(ctx context.Context, path, target string, opts LinkOptions) (FileInfo, error)
	// Unpack makes what a tar stream holds in a directory. What stands when it fails is not undone, but no file is half written.
	Unpack(ctx context.Context, path string, opts UnpackOptions, r io.Reader) (ArchiveReport, error)
	Mkdir(ctx context.Context, path string, opts WriteOptions) error
	Move(ctx context.Context, from, to string) error
	Remove(ctx context.Context, path string, opts RemoveOptions) error
}

// PartWriter writes files that come in parts, so that one that was cut off can go on where it was. At most 64 are under way in a
// sandbox; one to which nothing comes for an hour is thrown away. How the last 64 ended is known for as long. An agent of before version 5
// answers unsupported.
type PartWriter interface {
	// WritePart adds r to a partial file, which begins with its first part. If r breaks off, what has come is kept. A part that is not
	// at the end of what there is is a conflict with field "offset", another one that is being written one with field "partial". What
	// comes after the last part is a conflict too, but for an empty part at the end, which tells the result again.
	WritePart(ctx context.Context, path string, opts PartOptions, r io.Reader) (PartialFile, error)
	// PartialFile tells how far a file has come.
	PartialFile(ctx context.Context, partial string) (PartialFile, error)
	// DropPartial throws away what has come of a file, or forgets that it came. A part that is being written is a conflict.
	DropPartial(ctx context.Context, partial string) error
}

// FileWatch is one watcher's view of what happens to files.
type FileWatch interface {
	// Recv returns what happened next. The last event has kind gone, after which Recv returns io.EOF.
	Recv() (FileEvent, error)
	// Close stops watching. It may come from another goroutine, and ends a Recv that waits.
	Close() error
}

// Archive is a tar stream from a sandbox. It is for one goroutine, but Close may come from another.
type Archive interface {
	io.ReadCloser
	// Report may be called once Read has returned io.EOF.
	Report() ArchiveReport
}

// ExecStream is one caller's view of an exec.
type ExecStream interface {
	// Recv returns the next message. The last one has kind ended, after which Recv returns io.EOF. If the agent or
	// sandbox goes away first, the last message is ended with outcome lost.
	Recv() (ExecMessage, error)
	SendStdin(data []byte) error
	CloseStdin() error
	Signal(name string) error
	Resize(rows, cols uint16) error
	// Close stops following. The process goes on.
	Close() error
}
