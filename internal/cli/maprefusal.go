package cli

import (
	"context"
	"sync"

	shoal "shoal/sdk/go"
)

// refusal is why no item of a map can have a sandbox: what is wrong with the first is wrong with all. Once one was made, none is refused so.
type refusal struct {
	end context.CancelFunc // ends what is under way

	mu   sync.Mutex
	made bool
	why  error
}

// note takes what came of making a sandbox.
func (r *refusal) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.made = true
	}
	if r.made || r.why != nil {
		return
	}
	switch shoal.ErrorCode(err) { //nolint:exhaustive // The others may be over by the next item.
	case shoal.CodeInvalid, shoal.CodeNotFound, shoal.CodeUnsupported, shoal.CodeDenied, shoal.CodeUnauthenticated:
		if r.why = err; r.end != nil {
			r.end()
		}
	}
}

// reason returns why, nil if there is none.
func (r *refusal) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}
