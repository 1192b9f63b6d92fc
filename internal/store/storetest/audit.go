package storetest

import (
	"strconv"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// testAudit: entries are numbered per tenant, come back newest first, by filter and in pages, and go with age.
func testAudit(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	var want []core.AuditEntry
	for i := range 9 {
		e := core.AuditEntry{
			Seq: int64(i + 1), Tenant: alice, At: epoch().Add(time.Duration(i) * time.Minute), Actor: core.Actor{Kind: "key", ID: "k" + strconv.Itoa(i%2)},
			ActorName: "ci", Remote: "192.0.2.7", Operation: "deleteSandbox", Target: "s" + strconv.Itoa(i), RequestID: "r" + strconv.Itoa(i),
		}
		if i%3 == 0 {
			e.Code, e.Detail = core.CodeDenied, "1 created, 2 failed"
		}
		want = append([]core.AuditEntry{e}, want...)
	}
	for i := len(want) - 1; i >= 0; i -= 3 { // in three writes
		batch := []core.AuditEntry{want[i], want[i-1], want[i-2]}
		s.update(func(tx store.Tx) error {
			if err := tx.AppendAudit(bob, []core.AuditEntry{{Operation: "createKey", At: epoch()}}); err != nil {
				return err
			}
			return tx.AppendAudit(alice, batch)
		})
	}
	list := func(f store.AuditFilter, limit int) (all []core.AuditEntry) {
		page := store.Page{Limit: limit}
		for more := true; more; more = page.Cursor != "" {
			s.view(func(r store.Reader) (err error) {
				var part []core.AuditEntry
				part, page.Cursor, err = r.Audit(alice, f, page)
				all = append(all, part...)
				return err
			})
		}
		return all
	}
	only := func(keep func(core.AuditEntry) bool) (out []core.AuditEntry) {
		for _, e := range want {
			if keep(e) {
				out = append(out, e)
			}
		}
		return out
	}
	wantSame(t, list(store.AuditFilter{}, 100), want)
	wantSame(t, list(store.AuditFilter{}, 2), want)
	wantSame(t, list(store.AuditFilter{Actor: "k1"}, 2), only(func(e core.AuditEntry) bool { return e.Actor.ID == "k1" }))
	wantSame(t, list(store.AuditFilter{Failed: true}, 1), only(func(e core.AuditEntry) bool { return e.Code != "" }))
	s.update(func(tx store.Tx) error { return tx.ForgetAudit(epoch().Add(5 * time.Minute)) })
	wantSame(t, list(store.AuditFilter{}, 100), only(func(e core.AuditEntry) bool { return e.Seq > 5 }))
	s.update(func(tx store.Tx) error {
		return tx.AppendAudit(alice, []core.AuditEntry{{Operation: "x", At: epoch()}})
	})
	if got := list(store.AuditFilter{}, 1); got[0].Seq != 10 {
		t.Errorf("the next number is %d", got[0].Seq)
	}
}
