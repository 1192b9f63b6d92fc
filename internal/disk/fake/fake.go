// Package fake keeps trees as ordinary directories and clones them by copying: the contract of internal/disk without
// root, btrfs or a loop device, for the tests of what stands on it. Faults and a hook script what goes wrong and when.
//
// It must not be used by a server: a clone costs as much as its tree is large, nothing outlives a power loss, a limit is
// refused, and a frozen tree is guarded by permission bits, which root overrides.
//
// Start reading at Driver; where things lie is in layout.go.
package fake

import (
	"context"
	"path/filepath"
	"sync"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// Op names a method of the driver.
type Op string

// The methods that can be scripted.
const (
	OpCreate          Op = "create"
	OpFreeze          Op = "freeze"
	OpClone           Op = "clone"
	OpReplace         Op = "replace"
	OpFlush           Op = "flush"
	OpPath            Op = "path"
	OpDelete          Op = "delete"
	OpQuarantine      Op = "quarantine"
	OpPurgeQuarantine Op = "purge_quarantine"
	OpList            Op = "list"
	OpUsage           Op = "usage"
	OpWritten         Op = "written"
	OpLimit           Op = "limit"
	OpSpace           Op = "space"
)

// Call is one call of a method, as Hook sees it.
type Call struct {
	Op Op
	// Ref is the tree that is made, changed or asked for; zero if the method has none.
	Ref disk.Ref
	// From and Options are those of a clone.
	From    disk.Ref
	Options disk.CloneOptions
}

// Driver keeps trees in a directory. See disk.Driver for its terms.
type Driver struct {
	dir string

	// mu is held for reading by every call, so that Close waits for them. It guards closed.
	mu     sync.RWMutex
	closed bool

	// scriptMu guards the script and is never held while a hook runs.
	scriptMu sync.Mutex
	faults   map[Op]error
	hook     func(context.Context, Call) error
	space    *disk.Space
}

var _ disk.Driver = (*Driver)(nil)

// Open opens the trees of a directory, which is made if it is not there. What a killed process left half done there is
// finished or removed.
func Open(dir string) (*Driver, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, core.Wrap(core.CodeInternal, err, "the fake disk failed")
	}
	d := &Driver{dir: dir}
	if err := d.settle(); err != nil {
		return nil, failure(err)
	}
	return d, nil
}

// Fail makes every later call of a method fail with err before it does anything; nil takes that back.
func (d *Driver) Fail(op Op, err error) {
	d.scriptMu.Lock()
	defer d.scriptMu.Unlock()
	if d.faults == nil {
		d.faults = map[Op]error{}
	}
	d.faults[op] = err
}

// SetHook has f called before each call does anything, after faults. f may block, to hold a call back, and its error is the
// call's. nil takes it away.
func (d *Driver) SetHook(f func(context.Context, Call) error) {
	d.scriptMu.Lock()
	defer d.scriptMu.Unlock()
	d.hook = f
}

// SetSpace makes Space answer this instead of what the host's filesystem has.
func (d *Driver) SetSpace(s disk.Space) {
	d.scriptMu.Lock()
	defer d.scriptMu.Unlock()
	d.space = &s
}

// begin checks what every call checks, runs the script, and holds the driver open until end is called.
func (d *Driver) begin(ctx context.Context, call Call, refs ...disk.Ref) (end func(), err error) {
	for _, ref := range refs {
		if err := ref.Check(); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, failure(err)
	}
	d.mu.RLock()
	if d.closed {
		d.mu.RUnlock()
		return nil, core.Errorf(core.CodeUnavailable, "the disk is closed")
	}
	if err := d.runScript(ctx, call); err != nil {
		d.mu.RUnlock()
		return nil, err
	}
	return d.mu.RUnlock, nil
}

func (d *Driver) runScript(ctx context.Context, call Call) error {
	d.scriptMu.Lock()
	err, hook := d.faults[call.Op], d.hook
	d.scriptMu.Unlock()
	if err != nil || hook == nil {
		return err
	}
	return hook(ctx, call)
}
