package dialect

import (
	"context"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// maxSecret bounds a key that is looked at.
const maxSecret = 512

// Gate decides who may make a call. All listeners share one set of limits, so that nobody gets more by speaking another protocol.
type Gate struct {
	keys      Keys
	strangers *httpserve.Strangers
	rates     *httpserve.Rates
}

// Keys finds who a secret belongs to.
type Keys interface {
	Authenticate(ctx context.Context, secret string) (control.Principal, error)
}

// NewGate returns a gate on keys with limits that it shares with other listeners.
func NewGate(keys Keys, strangers *httpserve.Strangers, rates *httpserve.Rates) *Gate {
	return &Gate{keys: keys, strangers: strangers, rates: rates}
}

// Admit finds who a secret belongs to and takes the request off the tenant's rate. An address from which too many requests without a
// good key came is refused before that. An empty secret is none.
func (g *Gate) Admit(ctx context.Context, remote, secret string) (control.Principal, error) {
	var p control.Principal
	err := g.Guard(remote, secret, func() (err error) {
		if secret == "" || len(secret) > maxSecret {
			return core.Errorf(core.CodeUnauthenticated, "the API key is missing, unknown or expired")
		}
		p, err = g.keys.Authenticate(ctx, secret)
		return err
	})
	if err != nil {
		return control.Principal{}, err
	}
	return p, g.rates.Allow(p.Tenant)
}

// Guard runs a check of a secret that is no API key, such as a sandbox's access token, within the same bounds for those who fail it.
func (g *Gate) Guard(remote, secret string, check func() error) error {
	now := time.Now()
	if err := g.strangers.Admit(remote, secret, now); err != nil {
		return err
	}
	err := check()
	switch {
	case err == nil && secret != "":
		g.strangers.Welcome(secret)
	case core.IsCode(err, core.CodeUnauthenticated):
		g.strangers.Failed(remote, secret, now)
	}
	return err
}

// Allow takes a request off a tenant's rate, for a caller who came through Guard.
func (g *Gate) Allow(tenant core.TenantID) error { return g.rates.Allow(tenant) }

// MayLog reports whether a failure of a caller without a good key is to be logged, and how many before it were not.
func (g *Gate) MayLog(remote string, now time.Time) (unlogged int, ok bool) {
	return g.strangers.MayLog(remote, now)
}
