package httpserve

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"shoal/internal/core"
)

// Rates bounds the request rate of each tenant, and how many of its calls are under way at once.
type Rates struct {
	perSecond float64
	burst     int

	mu      sync.Mutex
	tenants map[core.TenantID]*pace
}

// pace is what one tenant has used.
type pace struct {
	bucket *rate.Limiter
	// calls are under way. It is guarded by Rates.mu.
	calls int64
}

// RequestsPerSecond and RequestBurst are what each tenant may ask of all listeners together, MaxCalls how many of its calls may be under
// way at once, if its quota says nothing else.
const (
	RequestsPerSecond = 200
	RequestBurst      = 400
	MaxCalls          = 2000
)

// maxLimiters is how many tenants are remembered before those with a full bucket are forgotten, which changes nothing
// for them.
const maxLimiters = 4096

// callsAgain is when a tenant with too many calls under way may come back.
const callsAgain = time.Second

// NewRates returns limits that no tenant has used yet. The rate is that of tenants whose quota says nothing of it.
func NewRates(perSecond float64, burst int) *Rates {
	return &Rates{perSecond: perSecond, burst: burst, tenants: map[core.TenantID]*pace{}}
}

// Begin takes one request off the tenant's bucket, or says when the next will be possible. end must be called once when it has been
// answered.
func (l *Rates) Begin(tenant core.TenantID, quota core.Quota) (end func(), err error) {
	now := time.Now()
	limit, burst := l.limit(quota)
	most := int64(MaxCalls)
	if quota.Calls != nil {
		most = *quota.Calls
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tenant(tenant, now, limit, burst)
	if most > 0 && t.calls >= most {
		return nil, &core.Error{
			Code: core.CodeQuota, Field: "quota.calls", RetryAfter: callsAgain,
			Message: "the tenant has as many calls under way as it may have at once, streams and transfers included",
		}
	}
	reservation := t.bucket.ReserveN(now, 1)
	if wait := reservation.DelayFrom(now); wait != 0 {
		reservation.CancelAt(now)
		return nil, &core.Error{
			Code: core.CodeQuota, Field: "quota.requests_per_second", RetryAfter: wait,
			Message: "the tenant's request rate is above its limit",
		}
	}
	t.calls++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		t.calls--
	}, nil
}

// limit is the rate of a tenant with a quota.
func (l *Rates) limit(quota core.Quota) (rate.Limit, int) {
	switch own := quota.RequestsPerSecond; {
	case own == nil:
		return rate.Limit(l.perSecond), l.burst
	case *own == 0:
		return rate.Inf, 1
	default:
		return rate.Limit(*own), int(math.Ceil(2 * *own))
	}
}

// tenant is under Rates.mu.
func (l *Rates) tenant(id core.TenantID, now time.Time, limit rate.Limit, burst int) *pace {
	if t, ok := l.tenants[id]; ok {
		if t.bucket.Limit() != limit || t.bucket.Burst() != burst {
			t.bucket.SetLimitAt(now, limit)
			t.bucket.SetBurstAt(now, burst)
		}
		return t
	}
	if len(l.tenants) >= maxLimiters {
		for id, t := range l.tenants {
			if t.calls == 0 && t.bucket.TokensAt(now) >= float64(t.bucket.Burst()) {
				delete(l.tenants, id)
			}
		}
	}
	t := &pace{bucket: rate.NewLimiter(limit, burst)}
	l.tenants[id] = t
	return t
}
