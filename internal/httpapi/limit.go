package httpapi

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"shoal/internal/core"
)

// limiter bounds the request rate of each tenant.
type limiter struct {
	perSecond rate.Limit
	burst     int

	mu      sync.Mutex
	tenants map[core.TenantID]*rate.Limiter
}

// maxLimiters is how many tenants are remembered before those with a full bucket are forgotten, which changes nothing
// for them.
const maxLimiters = 4096

func newLimiter(perSecond float64, burst int) *limiter {
	return &limiter{perSecond: rate.Limit(perSecond), burst: burst, tenants: map[core.TenantID]*rate.Limiter{}}
}

// allow takes one request off the tenant's bucket or says when the next will be possible.
func (l *limiter) allow(tenant core.TenantID) error {
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

func (l *limiter) bucket(tenant core.TenantID, now time.Time) *rate.Limiter {
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
