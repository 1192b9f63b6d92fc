package httpserve_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// TestRates: a tenant has what its quota says, or what all have, in calls a second and in calls at once, whatever others do.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rates := httpserve.NewRates(1, 2)
		three, zero, ten, none := int64(3), int64(0), 10.0, 0.0
		begin := func(tenant core.TenantID, q core.Quota) (func(), *core.Error) {
			end, err := rates.Begin(tenant, q)
			var e *core.Error
			if err != nil && (!errors.As(err, &e) || e.Code != core.CodeQuota || e.RetryAfter <= 0) {
				t.Fatalf("refused by %v", err)
			}
			return end, e
		}
		for i := range 3 {
			if end, err := begin("all", core.Quota{}); (err != nil) != (i == 2) {
				t.Errorf("call %d: %v", i, err)
			} else if end != nil {
				end()
			}
		}
		<-time.After(time.Second)
		if _, err := begin("all", core.Quota{}); err != nil {
			t.Errorf("a second later: %v", err)
		}
		for i := range 21 {
			if _, err := begin("fast", core.Quota{RequestsPerSecond: &ten}); (err != nil) != (i == 20) {
				t.Errorf("call %d of a faster one: %v", i, err)
			}
		}
		for range 5000 { // neither rate nor number
			if _, err := begin("free", core.Quota{RequestsPerSecond: &none, Calls: &zero}); err != nil {
				t.Fatal(err)
			}
		}
		q := core.Quota{RequestsPerSecond: &none, Calls: &three}
		var ends []func()
		for i := range 4 {
			end, err := begin("few", q)
			if (err != nil) != (i == 3) {
				t.Errorf("call %d at once: %v", i, err)
			}
			ends = append(ends, end)
		}
		ends[0]()
		if _, err := begin("few", q); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
	})
}
