package httpapi

import (
	"context"
	"time"

	"shoal/internal/core"
)

// readiness remembers the last answer to a readiness probe, which costs a read of the store. Its one token is held by whoever
// asks anew, so that all others wait for that answer.
type readiness struct {
	// holds is how long an answer does.
	holds time.Duration
	token chan struct{}
	at    time.Time
	err   error
}

func newReadiness(holds time.Duration) *readiness {
	return &readiness{holds: holds, token: make(chan struct{}, 1)}
}

// check returns the last answer, or asks if it is too old. One that was cut off is not kept.
func (r *readiness) check(ctx context.Context, ask func(context.Context) error) error {
	select {
	case r.token <- struct{}{}:
	case <-ctx.Done():
		return core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
	}
	defer func() { <-r.token }()
	if !r.at.IsZero() && time.Since(r.at) < r.holds {
		return r.err
	}
	err := ask(ctx)
	if ctx.Err() == nil {
		r.at, r.err = time.Now(), err
	}
	return err
}
