package httpserve

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"shoal/internal/core"
)

// Rates bounds the request rate of each tenant.
type Rates struct {
	perSecond rate.Limit
	burst     int

	mu      sync.Mutex
	tenants map[core.TenantID]*rate.Limiter
}

// RequestsPerSecond and RequestBurst are what each tenant may ask of all listeners together.
const (
	RequestsPerSecond = 200
	RequestBurst      = 400
)

// maxLimiters is how many tenants are remembered before those with a full bucket are forgotten, which changes nothing
// for them.
const maxLimiters = 4096

// NewRates returns limits that no tenant has used yet.
func NewRates(perSecond float64, burst int) *Rates {
	return &Rates{perSecond: rate.Limit(perSecond), burst: burst, tenants: map[core.TenantID]*rate.Limiter{}}
}

// Allow takes one request off the tenant's bucket or says when the next will be possible.
func (l *Rates) Allow(tenant core.TenantID) error {
	now := time.Now()
	reservation := l.bucket(tenant, now).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	reservation.CancelAt(now)
	return &core.Error{
		Code: core.CodeQuota, RetryAfter: wait,
		Message: "the tenant's request rate is above its limit",
	}
}

func (l *Rates) bucket(tenant core.TenantID, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, ok := l.tenants[tenant]; ok {
		return b
	}
	if len(l.tenants) >= maxLimiters {
		for t, b := range l.tenants {
			if b.TokensAt(now) >= float64(l.burst) {
				delete(l.tenants, t)
			}
		}
	}
	b := rate.NewLimiter(l.perSecond, l.burst)
	l.tenants[tenant] = b
	return b
}
