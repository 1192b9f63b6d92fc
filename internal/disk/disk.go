// Package disk is the contract of copy-on-write trees: where templates, sandboxes and checkpoints keep files.
//
// A tree is a directory that can be cloned in constant time. A writable tree becomes immutable by Freeze; a clone is writable,
// unless it is asked for frozen. The package knows nothing of sandboxes: a tree has a kind and an opaque id. Drivers live below
// (btrfs, fake); disktest is the suite that all of them pass.
package disk

import (
	"context"
	"regexp"
	"sync"
	"time"

	"shoal/internal/core"
)

// Kind says what a tree serves, and so where it is listed.
type Kind string

// The kinds of tree.
const (
	KindTemplate   Kind = "template"
	KindSandbox    Kind = "sandbox"
	KindCheckpoint Kind = "checkpoint"
	// KindView is a clone that is made to be read once, and removed: whoever finds one after a restart may remove it.
	KindView Kind = "view"
)

// Ref names a tree.
type Ref struct {
	Kind Kind
	ID   string
}

var refID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9]{0,62}$`) })

// Check returns an invalid error unless the reference is well formed: it becomes a path.
func (r Ref) Check() error {
	switch r.Kind {
	case KindTemplate, KindSandbox, KindCheckpoint, KindView:
	default:
		return core.Errorf(core.CodeInvalid, "unknown kind of tree")
	}
	if !refID().MatchString(r.ID) {
		return core.Errorf(core.CodeInvalid, "malformed id of a tree")
	}
	return nil
}

// Tree is one tree as the driver lists it.
type Tree struct {
	Ref    Ref
	Frozen bool
	// Complete is false for a tree whose Create was never followed by Freeze: a cut-off import.
	Complete bool
}

// Capabilities says what a driver can do here. What it can't answers core.CodeUnsupported.
type Capabilities struct {
	// Quota says that CloneOptions.LimitBytes is enforced, and that Usage can tell.
	Quota bool
	// QuotaReason says in plain words why Quota is false and what would mend it.
	QuotaReason string
}

// CloneOptions are the options of a clone.
type CloneOptions struct {
	// LimitBytes bounds what the clone itself keeps of what it wrote since its making, the file system's own records of
	// it included; writing more gives ENOSPC or EDQUOT inside it and nowhere else. What it shares with its source does not
	// count. Zero means no limit. A driver without quotas refuses any other value.
	LimitBytes int64
	// Live lets the source be writable, and be written meanwhile. The clone has every write that had returned before Clone was called,
	// flushed or not. Of what is written during the call it has some and not other: a later write may be in it without an
	// earlier one to another file, so whoever needs one moment holds the writers still. What they cache themselves is not in it.
	Live bool
	// Frozen makes the clone immutable at once: it is never writable, and is never there without being frozen. It has no limit.
	Frozen bool
}

// Check returns an invalid error unless the options make sense together.
func (o CloneOptions) Check() error {
	switch {
	case o.LimitBytes < 0:
		return core.Errorf(core.CodeInvalid, "a limit is negative")
	case o.Frozen && o.LimitBytes > 0:
		return core.Errorf(core.CodeInvalid, "a clone that is frozen has no limit")
	}
	return nil
}

// Usage is what a tree holds.
type Usage struct {
	// WrittenBytes is what the tree keeps of its own writes since its clone, or since Create; -1 where the driver can't tell.
	// Bytes that were removed or overwritten may count for a few seconds more, and those that clones of the tree have count until
	// these are gone too.
	WrittenBytes int64
	// Origin names the tree's own writes for Driver.Written, for ever: no other tree's have the same. Empty where the driver can't tell.
	Origin string
}

// Space is what the whole store of trees has.
type Space struct {
	// TotalBytes is what it may grow to, FreeBytes what can still be written, AllocatedBytes what is taken from the host.
	TotalBytes, FreeBytes, AllocatedBytes int64
}

// Driver keeps trees. All methods may be used from many goroutines; calls on one tree are serialised by the caller, and so
// are a Clone and what would remove or change its source.
//
// Life cycle: Create, fill, Freeze makes a template; Clone makes a sandbox's tree, which its runtime then writes; a frozen Clone of
// that is a checkpoint; Clone and Freeze make a template of what a sandbox has. A tree keeps its path for life.
//
// Crash: every method is atomic, whether the process is killed or power is lost: afterwards a tree is there whole or not at
// all, except that a tree under Create is listed as not Complete. What Clone, Freeze, Delete and Quarantine did is durable
// when they return. Create is not: after a power loss the tree may be gone, half filled or empty, until Freeze has made all of
// it durable. What is written into a clone is durable when its writer has synced it, or half a minute later.
//
// Access: the directories above a tree can be passed, but not listed, by those that must (the driver's Open says who);
// nobody but root can reach a tree's path otherwise. The tree's own root directory is made 0755, owned by the caller: who
// fills it sets mode and owner.
//
// Errors are *core.Error: invalid for a malformed reference, not_found, exists, conflict and unsupported as told below,
// exhausted if there is no space, canceled or timeout if ctx ended before anything was done, data_loss if the disk can't be
// read or written, unavailable after Close or if the kernel made the disk read-only.
type Driver interface {
	Capabilities() Capabilities
	// Create makes an empty writable tree and returns its host path. It fails with exists if there is one.
	Create(ctx context.Context, ref Ref) (path string, err error)
	// Freeze makes a tree durable and then immutable, for root too. It is idempotent. Nobody may have a file of the tree
	// open for writing any more.
	Freeze(ctx context.Context, ref Ref) error
	// Clone makes a tree that starts with from's files, and returns its host path. It is writable unless opts say otherwise. It fails
	// with conflict if from is not frozen and opts are not Live, exists if to is there, unsupported for a limit that can't be
	// enforced, invalid for one of a frozen clone.
	Clone(ctx context.Context, from, to Ref, opts CloneOptions) (path string, err error)
	// Replace makes to a clone of from, as Clone does, in the place of the tree that it is, whose path it gets: nobody may use that any
	// more. It fails as Clone does, then with to as it was, and with not_found if to is not there. A crash leaves all of the one or of the
	// other. What was replaced is gone, as by Delete.
	Replace(ctx context.Context, from, to Ref, opts CloneOptions) (path string, err error)
	// Flush writes out what has been written to a tree so far, as Clone does of one that is Live: the less is left to flush then, the
	// shorter need its writers be held.
	Flush(ctx context.Context, ref Ref) error
	// Path returns the host path of a tree, not_found if there is none.
	Path(ref Ref) (string, error)
	// Delete removes a tree: it is gone for every method when Delete returns, its space is reclaimed in the background, and
	// if a file in it is open, once it is closed. Deleting what is not there succeeds. Trees cloned from it are not touched.
	Delete(ctx context.Context, ref Ref) error
	// Quarantine sets a tree aside, out of List and the way, for at least the time that PurgeQuarantine is given. It keeps
	// what a lost record would otherwise destroy. The reference may be used again. It fails with not_found if there is none.
	Quarantine(ctx context.Context, ref Ref) error
	// PurgeQuarantine removes what was set aside longer ago than age, and returns how many trees that was.
	PurgeQuarantine(ctx context.Context, age time.Duration) (int, error)
	// List returns every tree that is not set aside, in no order.
	List(ctx context.Context) ([]Tree, error)
	Accounts
	// Close stops background work and waits for calls under way. It leaves mounted what running sandboxes use. It is
	// idempotent.
	Close() error
}

// Accounts tells and limits what trees keep.
type Accounts interface {
	// Usage returns what a tree holds, not_found if there is none.
	Usage(ctx context.Context, ref Ref) (Usage, error)
	// Written returns how many bytes are kept of the writes that an origin names, by the tree and its clones together: also once the
	// tree is gone. It is 0 for what is kept by nobody, and unsupported where the driver can't tell.
	Written(ctx context.Context, origin string) (int64, error)
	// Limit changes what CloneOptions.LimitBytes is of a tree, also while it is written; less than it keeps already stops
	// its writes and takes nothing away. It holds at once and is durable half a minute later. It fails with unsupported where a
	// limit can't be enforced.
	Limit(ctx context.Context, ref Ref, bytes int64) error
	Space(ctx context.Context) (Space, error)
}
