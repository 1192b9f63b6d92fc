package control

import (
	"context"

	"shoal/internal/core"
	"shoal/internal/store"
)

// boot knows whether the node's machine was restarted since the last server was there: then all that ran has ended, and nothing of it was
// wrong.
type boot struct {
	*deps
	node core.NodeID
	// id names the machine's boot; empty if nobody knows.
	id string
}

func (b *boot) setting() string { return "boot_id." + string(b.node) }

// isAnother reports whether this is another boot than the one that was noted. If that can't be told it isn't.
func (b *boot) isAnother(ctx context.Context) (another bool, err error) {
	if b.id == "" {
		return false, nil
	}
	err = b.store.View(ctx, func(r store.Reader) error {
		noted, err := r.Setting(b.setting())
		another = err == nil && noted != b.id
		return goneIsDone(err)
	})
	return another, err
}

// note writes down which boot this is, once all that follows from it is on record.
func (b *boot) note(ctx context.Context) error {
	if b.id == "" {
		return nil
	}
	return b.store.Update(ctx, func(tx store.Tx) error { return tx.PutSetting(b.setting(), b.id) })
}
