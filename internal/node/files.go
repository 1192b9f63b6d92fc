package node

import (
	"context"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/files/hostfiles"
)

// guestIDs is how many ids a sandbox has.
const guestIDs = 65536

// resting reads what sandboxes that don't run have left.
type resting struct {
	machines *machines
	disk     disk.Driver
	ownerUID int
}

// Files returns what reads the files of a sandbox that doesn't run, from its tree.
func (r *resting) Files(_ context.Context, id core.SandboxID) (core.FileReader, error) {
	if _, err := r.machines.get(id); err == nil {
		return nil, core.Errorf(core.CodeConflict, "the sandbox runs: its files are its guest agent's to read")
	}
	dir, err := r.disk.Path(sandboxTree(id))
	if err != nil {
		return nil, err
	}
	return hostfiles.New(dir, hostfiles.Owners{First: uint32(r.ownerUID), Count: guestIDs}), nil
}
