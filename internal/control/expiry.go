package control

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// expiryCheckMost bounds how long the ttl loop sleeps, so that a stepped clock is noticed.
const expiryCheckMost = 30 * time.Second

// expiry ends what has lived for long enough: sandboxes by their ttl, and the records of deleted ones.
type expiry struct {
	*deps
	removal *removal
	once    *once
	// moved says that an earlier deadline may have come.
	moved chan struct{}
}

// lookAgain tells the ttl loop that a deadline was set or moved.
func (x *expiry) lookAgain() {
	select {
	case x.moved <- struct{}{}:
	default:
	}
}

// loop deletes sandboxes whose ttl has passed, at the time it passes.
func (x *expiry) loop(ctx context.Context) {
	for {
		wait, err := x.expire(ctx)
		if err != nil {
			x.log.Error("apply ttls", slog.Any("err", err))
			wait = time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-x.moved:
		case <-x.clock.After(wait):
		}
	}
}

// expire deletes what has expired and returns how long nothing will expire.
func (x *expiry) expire(ctx context.Context) (time.Duration, error) {
	var expired []core.Sandbox
	var next time.Time
	var ok bool
	err := x.store.View(ctx, func(r store.Reader) (err error) {
		if expired, err = r.Expired(x.clock.Now()); err != nil {
			return err
		}
		next, ok, err = r.NextExpiry()
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, sb := range expired {
		if err := x.expireOne(ctx, sb.ID); err != nil {
			return 0, err
		}
	}
	if len(expired) > 0 {
		return 0, nil // there may be more by now, and next is out of date
	}
	if !ok {
		return expiryCheckMost, nil
	}
	return min(max(next.Sub(x.clock.Now()), 0), expiryCheckMost), nil
}

// expireOne deletes a sandbox if its ttl has still passed: a caller may have just extended it.
func (x *expiry) expireOne(ctx context.Context, id core.SandboxID) error {
	err := x.removal.start(ctx, system("ttl"), "ttl", func(r store.Reader) (core.Sandbox, error) {
		sb, err := r.SandboxByID(id)
		if err == nil && (sb.ExpiresAt.IsZero() || sb.ExpiresAt.After(x.clock.Now())) {
			return sb, core.Errorf(core.CodeConflict, "the ttl was extended")
		}
		return sb, err
	})
	if core.IsCode(err, core.CodeConflict) || core.IsCode(err, core.CodeNotFound) {
		return nil
	}
	return err
}

// keepDeleted is how long the record of a deleted sandbox is kept for its owner to look at; forgetEvery is how often old ones
// are dropped.
const (
	keepDeleted = 24 * time.Hour
	forgetEvery = time.Hour
)

// forgetLoop drops the records of sandboxes that were deleted, of keys that expired, of calls with an idempotency key, and the audit, of
// long ago.
func (x *expiry) forgetLoop(ctx context.Context) {
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
