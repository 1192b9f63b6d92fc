package wire

import (
	"encoding/json"
	"time"
)

// Op names an operation.
type Op string

// The operations. "stream" ones answer with an exec stream, "data" ones have data after the reply.
const (
	OpPing      Op = "ping"
	OpConfigure Op = "configure"
	OpLimit     Op = "limit" // since version 4
	OpMetrics   Op = "metrics"

	OpExec   Op = "exec"   // stream
	OpAttach Op = "attach" // stream
	OpGet    Op = "get"
	OpList   Op = "list"
	OpSignal Op = "signal"
	OpCancel Op = "cancel"
	OpResize Op = "resize"
	OpStdin  Op = "stdin" // a data frame, unless empty, and an end frame follow the request
	OpAck    Op = "ack"

	OpStat      Op = "stat"
	OpListFiles Op = "list_files"
	OpResolve   Op = "resolve" // since version 2
	OpWalk      Op = "walk"    // since version 2
	OpRead      Op = "read"    // reply, then data from the agent
	OpWrite     Op = "write"   // reply, then data to the agent, then a second reply
	OpPack      Op = "pack"    // since version 3: reply, data from the agent, then a second reply
	OpUnpack    Op = "unpack"  // since version 3: reply, then data to the agent, then a second reply
	OpMkdir     Op = "mkdir"
	OpMove      Op = "move"
	OpRemove    Op = "remove"
	OpDial      Op = "dial" // reply, then data both ways

	OpChange   Op = "change"   // since version 3
	OpLink     Op = "link"     // since version 3
	OpXattrs   Op = "xattrs"   // since version 3
	OpChecksum Op = "checksum" // since version 3
	OpWatch    Op = "watch"    // since version 3; reply, then changes until the end
	OpSync     Op = "sync"     // since version 3

	OpWritePart   Op = "write_part"   // since version 5: reply, then data to the agent, then a second reply
	OpPartial     Op = "partial"      // since version 5
	OpDropPartial Op = "drop_partial" // since version 5

	OpProcesses Op = "processes" // since version 6
)

// Envelope is the payload of a request frame.
type Envelope struct {
	Op   Op              `json:"op"`
	Args json.RawMessage `json:"args,omitempty"`
}

// Empty is the reply of an operation that has nothing to say.
type Empty struct{}

// Hello is the reply to a ping.
type Hello struct {
	// Version is the protocol that the agent speaks.
	Version uint16 `json:"version"`
	// Sandbox and Incarnation are those of the last configure; empty before the first.
	Sandbox     string `json:"sandbox,omitempty"`
	Incarnation int64  `json:"incarnation,omitempty"`
}

// Identity is what makes an agent this sandbox's: it comes after every start, restore and fork. Before the first one no
// process is started.
type Identity struct {
	Sandbox     string `json:"sandbox"`
	Incarnation int64  `json:"incarnation"`
	Hostname    string `json:"hostname"`
	// Env is the sandbox's own environment; it goes over TemplateEnv, and an exec's own over both.
	Env         map[string]string `json:"env,omitempty"`
	TemplateEnv map[string]string `json:"template_env,omitempty"`
	// User and Workdir are the defaults of an exec; empty means root and /.
	User    string `json:"user,omitempty"`
	Workdir string `json:"workdir,omitempty"`
	// Limits are since version 4.
	Limits *Limits `json:"limits,omitempty"`
}

// Limits are those of a sandbox's limits that the agent itself sees to. Zero leaves one as it is.
type Limits struct {
	// MemoryBytes is where the agent begins to kill. Less than what is used is a conflict, unless Force is set.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// Pids bounds the processes and threads of all execs together.
	Pids int `json:"pids,omitempty"`
	// OpenFiles bounds the descriptors of each process that is started from now on.
	OpenFiles int  `json:"open_files,omitempty"`
	Force     bool `json:"force,omitempty"`
}

// ExecRequest starts a process and follows it from its first byte.
type ExecRequest struct {
	ID        string            `json:"id"`
	Cmd       []Bytes           `json:"cmd,omitempty"`
	Shell     Bytes             `json:"shell,omitempty"`
	Cwd       Bytes             `json:"cwd,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	User      string            `json:"user,omitempty"`
	Stdin     bool              `json:"stdin,omitempty"`
	TimeoutMS int64             `json:"timeout_ms,omitempty"`
	Detach    bool              `json:"detach,omitempty"`
	TTY       bool              `json:"tty,omitempty"`
	Rows      uint16            `json:"rows,omitempty"`
	Cols      uint16            `json:"cols,omitempty"`
}

// AttachRequest follows an exec's output from an offset.
type AttachRequest struct {
	ID   string `json:"id"`
	From int64  `json:"from"`
}

// ExecRef names an exec.
type ExecRef struct {
	ID string `json:"id"`
}

// ExecInfo is what the agent knows of an exec. It does not repeat the request.
type ExecInfo struct {
	ID          string `json:"id"`
	PID         int    `json:"pid"`
	Outcome     string `json:"outcome,omitempty"`
	ExitCode    *int   `json:"exit_code,omitempty"`
	Signal      string `json:"signal,omitempty"`
	OutOfMemory bool   `json:"out_of_memory,omitempty"`
	// Shortage has the figures of that. It is since version 4.
	Shortage    *Shortage `json:"shortage,omitempty"`
	StartedAt   time.Time `json:"started_at"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	OutputBytes int64     `json:"output_bytes"`
	OutputFrom  int64     `json:"output_from"`
	Processes   int       `json:"processes"`
}

// Shortage is how memory was used up, in bytes.
type Shortage struct {
	Used  int64 `json:"used"`
	Held  int64 `json:"held"`
	Limit int64 `json:"limit"`
}

// ListRequest asks for at most Limit execs after the one with the id After, in the order in which they started.
type ListRequest struct {
	After string `json:"after,omitempty"`
	Limit int    `json:"limit"`
}

// ListReply is one page of execs.
type ListReply struct {
	Execs []ExecInfo `json:"execs"`
	More  bool       `json:"more,omitempty"`
}

// SignalRequest sends a signal by name to an exec's group.
type SignalRequest struct {
	ID     string `json:"id"`
	Signal string `json:"signal"`
}

// ResizeRequest changes the size of an exec's terminal.
type ResizeRequest struct {
	ID   string `json:"id"`
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// StdinRequest appends the data frames that follow to an exec's input; End closes it afterwards.
type StdinRequest struct {
	ID  string `json:"id"`
	End bool   `json:"end,omitempty"`
}

// AckRequest lets the agent forget ended execs.
type AckRequest struct {
	IDs []string `json:"ids"`
}

// PathRequest names a file.
type PathRequest struct {
	Path Bytes `json:"path"`
}

// ListFilesRequest asks for at most Limit entries of a directory, in name order, after the name After.
type ListFilesRequest struct {
	Path  Bytes `json:"path"`
	After Bytes `json:"after,omitempty"`
	Limit int   `json:"limit"`
}

// ListFilesReply is one page of a directory.
type ListFilesReply struct {
	Files []FileInfo `json:"files"`
	// More says that the page was cut for its size and goes on after its last file. It is since version 2.
	More bool `json:"more,omitempty"`
}

// ReadRequest reads a file from Offset, at most Length bytes; a negative Length means to the end.
type ReadRequest struct {
	Path   Bytes `json:"path"`
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
}

// WriteRequest writes a whole file, or makes a directory.
type WriteRequest struct {
	Path    Bytes  `json:"path"`
	Mode    uint32 `json:"mode,omitempty"`
	User    string `json:"user,omitempty"`
	Parents bool   `json:"parents,omitempty"`
	// Exclusive is since version 2.
	Exclusive bool `json:"exclusive,omitempty"`
	// Append is since version 3.
	Append bool `json:"append,omitempty"`
}

// ResolveRequest asks what a user means by a path.
type ResolveRequest struct {
	Path Bytes  `json:"path,omitempty"`
	User string `json:"user,omitempty"`
}

// ResolveReply is an absolute path and the user that was meant.
type ResolveReply struct {
	Path Bytes  `json:"path"`
	User string `json:"user"`
}

// WalkRequest asks for at most Limit files of a tree, in the order of a walk, after the one with the path After.
type WalkRequest struct {
	Path  Bytes `json:"path"`
	Depth int   `json:"depth"`
	After Bytes `json:"after,omitempty"`
	Limit int   `json:"limit"`
}

// WalkReply is one page of a tree.
type WalkReply struct {
	Files []FileInfo `json:"files"`
	More  bool       `json:"more,omitempty"`
}

// PackRequest asks for a tree as a tar stream.
type PackRequest struct {
	Path    Bytes   `json:"path"`
	Exclude []Bytes `json:"exclude,omitempty"`
	Gzip    bool    `json:"gzip,omitempty"`
}

// UnpackRequest makes a tree of the tar stream that follows.
type UnpackRequest struct {
	Path       Bytes  `json:"path"`
	User       string `json:"user,omitempty"`
	KeepOwners bool   `json:"keep_owners,omitempty"`
	Parents    bool   `json:"parents,omitempty"`
	Gzip       bool   `json:"gzip,omitempty"`
}

// ArchiveReport is the last reply of pack and unpack.
type ArchiveReport struct {
	Files       int64         `json:"files"`
	Directories int64         `json:"directories"`
	Bytes       int64         `json:"bytes"`
	Skipped     int64         `json:"skipped,omitempty"`
	Notes       []ArchiveNote `json:"notes,omitempty"`
}

// ArchiveNote says what of a file could not be kept.
type ArchiveNote struct {
	Path   Bytes  `json:"path"`
	Reason string `json:"reason"`
}

// MoveRequest renames a file.
type MoveRequest struct {
	From Bytes `json:"from"`
	To   Bytes `json:"to"`
}

// RemoveRequest removes a file, or a whole tree.
type RemoveRequest struct {
	Path      Bytes `json:"path"`
	Recursive bool  `json:"recursive,omitempty"`
}

// DialRequest connects to a port on the sandbox's loopback.
type DialRequest struct {
	Port uint16 `json:"port"`
}

// FileInfo describes a file.
type FileInfo struct {
	Name  Bytes     `json:"name"`
	Path  Bytes     `json:"path"`
	Type  string    `json:"type"`
	Size  int64     `json:"size"`
	Mode  uint32    `json:"mode"`
	UID   int       `json:"uid"`
	GID   int       `json:"gid"`
	Owner string    `json:"owner,omitempty"`
	Group string    `json:"group,omitempty"`
	MTime time.Time `json:"mtime"`
	// Version is another whenever the content may be: it means nothing else. It is since version 3.
	Version string `json:"version,omitempty"`
	Target  Bytes  `json:"target,omitempty"`
	// Final is what a symbolic link leads to in the end; only a walk says it.
	Final *FinalFile `json:"final,omitempty"`
}

// FinalFile describes what a symbolic link leads to.
type FinalFile struct {
	Path Bytes  `json:"path"`
	Type string `json:"type"`
	Mode uint32 `json:"mode"`
}

// Metrics is what the agent sees of the whole sandbox from inside.
type Metrics struct {
	Processes      int   `json:"processes"`
	MemoryTotal    int64 `json:"memory_total"`
	MemoryFree     int64 `json:"memory_free"`
	RunningExecs   int   `json:"running_execs"`
	RememberedExec int   `json:"remembered_execs"`
	AgentHeapBytes int64 `json:"agent_heap_bytes"`
}
