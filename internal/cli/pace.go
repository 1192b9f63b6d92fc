package cli

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	shoal "shoal/sdk/go"
)

// A server takes 200 calls a second from a tenant, and 400 at once. A copy leaves some to the tenant's other programs.
const (
	callsPerSecond = 180
	callsAtOnce    = 360
	// maxPauses is how often a call is made again that came too early all the same.
	maxPauses = 60
)

// pace keeps many calls below the rate that a server allows.
type pace struct{ limit *rate.Limiter }

func newPace() pace { return pace{rate.NewLimiter(callsPerSecond, callsAtOnce)} }

// call makes a call when its time has come, and again if the server says that it came too early: it has done nothing then.
func (p pace) call(ctx context.Context, do func() error) error {
	for range maxPauses {
		if err := p.limit.Wait(ctx); err != nil {
			return err
		}
		err := do()
		if shoal.ErrorCode(err) != shoal.CodeQuota {
			return err
		}
		select {
		case <-time.After(pauseOf(err)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return do()
}

// pauseOf is how long the server wants to be left alone.
func pauseOf(err error) time.Duration {
	var e *shoal.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	return time.Second
}
