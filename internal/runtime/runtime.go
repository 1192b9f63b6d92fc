// Package runtime is the contract of what isolates and runs one sandbox's processes on one machine.
//
// It knows nothing of tenants, names or the store: a driver is handed a Spec and keeps what it needs to find its
// sandboxes again. Drivers live below (gvisor, fake); runtimetest is the suite that all of them pass. A driver may
// import core, the leaves, this package and its own library, never another driver.
package runtime

import (
	"context"
	"net"
	"time"

	"shoal/internal/core"
)

// Spec is all that a driver needs to run one sandbox. It is the same for every sandbox but for these fields: no
// environment, user, limit or token is in what the guest's memory image could hold.
type Spec struct {
	ID core.SandboxID
	// Incarnation tells one start of a sandbox from the next.
	Incarnation int64
	// RootFS is the host path of the sandbox's tree. Its files are owned by the driver's mapped range.
	RootFS string
	// RunDir is a host directory that the guest sees read-only at /run/shoal. It holds the guest agent's binary as
	// "agent".
	RunDir string
	// NetNS is the path of the network namespace that the sandbox takes over. A namespace serves one start only.
	NetNS string
	// Parts, if set, stands for RootFS and NetNS, which are then empty: Create calls it once, when it comes to need them. So
	// they can be made beside what Create does first. Its error is Create's, with its code.
	Parts    func(ctx context.Context) (rootFS, netNS string, err error)
	Hostname string
	// Resources are enforced on the sandbox's cgroup from outside. DiskBytes is not the runtime's business.
	Resources core.Resources
}

// Capabilities says what a driver can do. What it can't answers core.CodeUnsupported.
type Capabilities struct {
	// CPULimit and MemoryLimit say that Spec.Resources are enforced on this host.
	CPULimit    bool
	MemoryLimit bool
	// CPUWeight says that Spec.Resources.CPUWeight is.
	CPUWeight bool
	// IOWeight is the greatest Spec.Resources.IOWeight, zero where the host can't weigh what goes to and from the disk;
	// IOWeightReason then says in plain words what it lacks.
	IOWeight       int
	IOWeightReason string
	// OpenFiles is how many files of its tree all processes of a sandbox together can have open.
	OpenFiles int
	// Survives says that sandboxes go on when the process that started them dies, and can be adopted.
	Survives bool
	// OwnerUID is the first host uid (and gid) of the range that the guest's ids 0 to OwnerCount-1 are mapped to. A
	// tree is stored with its owners shifted by it.
	OwnerUID   int
	OwnerCount int
}

// Status is a sandbox as the driver finds it.
type Status struct {
	ID          core.SandboxID
	Incarnation int64
	// Digest names the binary that its sentry runs, as hex sha256.
	Digest string
	// Running says that the sentry has answered just now; a state file or a live pid alone don't count.
	Running bool
	PID     int
}

// Stats is what one sandbox uses now, everything in it counted.
type Stats struct {
	At               time.Time
	CPUSeconds       float64
	MemoryBytes      int64
	MemoryLimitBytes int64
	// PSSBytes is the proportional memory of sentry and gofer on the host; -1 where it can't be told.
	PSSBytes int64
	// Processes is -1 while the sandbox's kernel does not answer: what the host counts is told all the same.
	Processes int
}

// Exit tells that a sandbox ended without Kill.
type Exit struct {
	ID          core.SandboxID
	Incarnation int64
	Reason      string
}

// Driver runs sandboxes.
//
// Life cycle: Create builds the isolation with nothing of the guest running; Start runs the guest agent; DialGuest
// reaches it; Freeze and Thaw hold it for a while; Kill ends everything, held or not, and removes every trace. Commands for one sandbox are serialised by the caller,
// except that Kill may come at any time, also during Create and Start, which then return core.CodeCanceled or
// core.CodeUnavailable, and leave nothing. Different sandboxes may be used from different goroutines.
//
// Every sandbox lives in processes and cgroups outside the caller's own, so that the caller may die at any
// instruction (where Capabilities.Survives). A new driver on the same state directory finds them by List.
//
// Errors are *core.Error: not_found for a sandbox that isn't there, exists for a Create of one that is, exhausted if
// the host is out of something, unsupported for what the driver can't do.
type Driver interface {
	Capabilities() Capabilities
	// Create builds the isolation. On any error, or when ctx ends first, nothing is left of it.
	Create(ctx context.Context, spec Spec) error
	// Start runs the guest agent in a created sandbox. It returns once the agent's process runs, which may be before it
	// listens. A failed Start leaves the sandbox to be killed.
	Start(ctx context.Context, id core.SandboxID) error
	// DialGuest opens one more connection to the guest agent. It fails fast with unavailable while nothing listens.
	DialGuest(ctx context.Context, id core.SandboxID) (net.Conn, error)
	// Kill ends every process of the sandbox and removes its cgroups, mounts and state, in any condition, also when it
	// is half made or dead. It is idempotent: killing what is not there succeeds.
	Kill(ctx context.Context, id core.SandboxID) error
	// Resize changes the limits of a sandbox that has been started, those of Capabilities; what zero is in Resources stays as
	// it is. It fails with conflict if more memory is in use than there is to be. On an error any of the limits may have been
	// changed: the caller sets the old ones again.
	Resize(ctx context.Context, id core.SandboxID, r core.Resources) error
	// Freeze holds all of the guest's tasks, the guest agent's too, and keeps memory, open files and connections. When it returns, none
	// runs, and nothing that they were writing is half written; Status still says that the sandbox runs. Freezing what is frozen
	// succeeds. It fails with unavailable if the sandbox does not run or can't be held in time. After an
	// error it may be held if Thaw fails too: then it has to be killed.
	Freeze(ctx context.Context, id core.SandboxID) error
	// Thaw lets go of what Freeze holds, also when that was called by a driver that is gone, wherever it came to. Thawing what is not
	// frozen succeeds, also of a sandbox that does not run.
	Thaw(ctx context.Context, id core.SandboxID) error
	Stats(ctx context.Context, id core.SandboxID) (Stats, error)
	// Status looks at one sandbox and asks its sentry for a sign of life.
	Status(ctx context.Context, id core.SandboxID) (Status, error)
	// List returns every sandbox that has left any trace in the driver's state directory or cgroups.
	List(ctx context.Context) ([]Status, error)
	// Adopt takes over a running sandbox after a restart: its exit is reported from now on. One that is frozen stays so. It fails
	// with unavailable if the sandbox does not run or runs another incarnation.
	Adopt(ctx context.Context, id core.SandboxID, incarnation int64) error
	// Exits delivers each end of a started or adopted sandbox that Kill did not ask for. It is closed by Close.
	Exits() <-chan Exit
	// Close stops watching. Sandboxes go on.
	Close() error
}
