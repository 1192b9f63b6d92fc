package control

import (
	"context"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// expiryCheckMost bounds how long the ttl loop sleeps, so that a stepped clock is noticed.
const expiryCheckMost = 30 * time.Second

// expiryMoved tells the ttl loop to look again.
func (s *Service) expiryMoved() {
	select {
	case s.wakeExpiry <- struct{}{}:
	default:
	}
}

// expiryLoop deletes sandboxes whose ttl has passed, at the time it passes.
func (s *Service) expiryLoop(ctx context.Context) {
	for {
		wait, err := s.expire(ctx)
		if err != nil {
			s.log.Error("apply ttls", "err", err)
			wait = time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wakeExpiry:
		case <-s.clock.After(wait):
		}
	}
}

// expire deletes what has expired and returns how long nothing will expire.
func (s *Service) expire(ctx context.Context) (time.Duration, error) {
	var expired []core.Sandbox
	var next time.Time
	var ok bool
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		if expired, err = r.Expired(s.clock.Now()); err != nil {
			return err
		}
		next, ok, err = r.NextExpiry()
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, sb := range expired {
		if err := s.expireOne(ctx, sb.ID); err != nil {
			return 0, err
		}
	}
	if len(expired) > 0 {
		return 0, nil // there may be more by now, and next is out of date
	}
	if !ok {
		return expiryCheckMost, nil
	}
	return min(max(next.Sub(s.clock.Now()), 0), expiryCheckMost), nil
}

// expireOne deletes a sandbox if its ttl has still passed: a caller may have just extended it.
func (s *Service) expireOne(ctx context.Context, id core.SandboxID) error {
	err := s.delete(ctx, system("ttl"), "ttl", func(r store.Reader) (core.Sandbox, error) {
		sb, err := r.SandboxByID(id)
		if err == nil && (sb.ExpiresAt.IsZero() || sb.ExpiresAt.After(s.clock.Now())) {
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

// forgetLoop drops the records of sandboxes that were deleted long ago.
func (s *Service) forgetLoop(ctx context.Context) {
	for {
		err := s.store.Update(ctx, func(tx store.Tx) error {
			_, err := tx.ForgetSandboxes(s.clock.Now().Add(-keepDeleted))
			return err
		})
		if err != nil && ctx.Err() == nil {
			s.log.Error("forget deleted sandboxes", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.clock.After(forgetEvery):
		}
	}
}
