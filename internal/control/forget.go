package control

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/store"
)

// forgetting drops records of what is over.
type forgetting struct {
	*deps
	once *once
}

// keepDeleted is how long the record of a deleted sandbox is kept for its owner to look at; forgetEvery is how often old ones
// are dropped.
const (
	keepDeleted = 24 * time.Hour
	forgetEvery = time.Hour
)

// loop drops the records of sandboxes that were deleted, of keys that expired, of calls with an idempotency key, and the audit, of
// long ago.
func (x *forgetting) loop(ctx context.Context) {
	for {
		err := x.store.Update(ctx, func(tx store.Tx) error {
			if err := tx.ForgetAudit(x.clock.Now().Add(-keepAudit)); err != nil {
				return err
			}
			if err := tx.ForgetKeys(x.clock.Now().Add(-keepExpired)); err != nil {
				return err
			}
			if _, err := tx.ForgetSandboxes(x.clock.Now().Add(-keepDeleted)); err != nil {
				return err
			}
			return x.once.forget(tx)
		})
		if err != nil && ctx.Err() == nil {
			x.log.Error("forget old records", slog.Any("err", err))
		}
		if !pause(ctx, x.clock, forgetEvery) {
			return
		}
	}
}
