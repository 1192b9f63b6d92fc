package dialect

import (
	"context"
	"net/http"
	"strings"
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

// Keys finds who a secret belongs to, and knows of the calls while they are answered.
type Keys interface {
	Authenticate(ctx context.Context, secret string) (control.Principal, error)
	// Tie has end called when the caller may no longer act.
	Tie(p control.Principal, end func(cause error)) (release func(), err error)
	// Note writes down, soon, that a call was made.
	Note(p control.Principal, e core.AuditEntry)
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
	return p, g.Let(ctx, p)
}

// Let lets a caller in who came through Guard: within the bounds of its tenant, and for as long as what it was let in by holds. ctx is
// that of a request that came through Handler, which gives back what is taken here.
func (g *Gate) Let(ctx context.Context, p control.Principal) error {
	c := CallOf(ctx)
	end, err := g.rates.Begin(p.Tenant, p.Quota)
	if err != nil {
		return err
	}
	c.after = append(c.after, end)
	if c.tether == nil {
		return nil
	}
	release, err := g.keys.Tie(p, c.tether.End)
	if err != nil {
		return err //nolint:wrapcheck // Control's errors are made for the edge.
	}
	c.after = append(c.after, release)
	c.let = true
	return nil
}

// note writes down what a call of a dialect did.
func (g *Gate) note(name string, c *Call, r *http.Request) {
	if !c.let || c.Looks || r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return
	}
	operation := name + "." + strings.ReplaceAll(c.Operation, " ", ".")
	g.keys.Note(c.Principal, core.AuditEntry{
		At: c.began.UTC(), Remote: httpserve.RemoteHost(r.RemoteAddr), Operation: printable(operation), Target: printable(c.Sandbox), Code: c.code,
		RequestID: c.ID,
	})
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

// MayLog reports whether a failure of a caller without a good key is to be logged, and how many before it were not.
func (g *Gate) MayLog(remote string, now time.Time) (unlogged int, ok bool) {
	return g.strangers.MayLog(remote, now)
}
