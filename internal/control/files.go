package control

import (
	"context"
	"errors"

	"shoal/internal/core"
)

// files opens the files of sandboxes.
type files struct {
	*finder
}

// Files returns the guest agent of a running sandbox for its file methods.
func (f *files) Files(ctx context.Context, p Principal, ref string) (core.Guest, error) {
	if err := p.may("Files"); err != nil {
		return nil, err
	}
	sb, g, err := f.running(ctx, p, ref)
	if err == nil {
		err = f.activity.touch(ctx, sb.ID)
	}
	if err != nil {
		return nil, stillReadable(sb, err)
	}
	return heldGuest{g, f.activity, sb.ID}, nil
}

// ReadFiles returns what reads the files of a sandbox: its guest agent while it runs, otherwise its tree, which starts nothing.
func (f *files) ReadFiles(ctx context.Context, p Principal, ref string) (core.FileReader, error) {
	if err := p.may("ReadFiles"); err != nil {
		return nil, err
	}
	sb, g, err := f.running(ctx, p, ref)
	if err == nil {
		if err := f.activity.touch(ctx, sb.ID); err != nil {
			return nil, err
		}
		return heldGuest{g, f.activity, sb.ID}, nil
	}
	if !readable(sb) || !core.IsCode(err, core.CodeConflict) {
		return nil, err
	}
	if err := f.activity.touch(ctx, sb.ID); err != nil {
		return nil, err
	}
	r, err := f.node.Files(ctx, sb.ID)
	if err != nil {
		return nil, err
	}
	return heldReader{r, f.activity, sb.ID}, nil
}

// readable reports whether a sandbox that doesn't run has its files on the node.
func readable(sb core.Sandbox) bool {
	switch sb.State {
	case core.StateFailed, core.StateStopped, core.StateStandby:
		return sb.Operation == core.OpNone
	case core.StateCreating, core.StateRunning, core.StateFrozen, core.StateHibernated, core.StateDeleted:
	}
	return false
}

// stillReadable adds to the reason why nothing can be changed that all can be read.
func stillReadable(sb core.Sandbox, err error) error {
	var e *core.Error
	if !readable(sb) || !errors.As(err, &e) || e.Code != core.CodeConflict {
		return err
	}
	return &core.Error{Code: e.Code, Message: e.Message + "; its files can be read and not changed", Err: e.Err}
}
