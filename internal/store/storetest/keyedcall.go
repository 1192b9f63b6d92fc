package storetest

import (
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func newKeyedCall(tenant core.TenantID, key string) core.KeyedCall {
	return core.KeyedCall{
		Tenant: tenant, Route: "create", Key: key, Digest: "d1", Sandbox: core.SandboxID(core.NewID()), At: epoch(),
	}
}

func testKeyedCall(t *testing.T, open Open) {
	t.Helper()
	t.Run("every field comes back", func(t *testing.T) {
		s := start(t, open)
		want := newKeyedCall(alice, "k")
		want.Operation = core.OperationID(core.NewID())
		want.Exec, want.Fed, want.Result = core.ExecID(core.NewID()), true, []byte("\x00bytes\xff")
		other := newKeyedCall(alice, "k")
		other.Route = "exec"
		s.putCalls(want, other, newKeyedCall(bob, "k"))
		wantSame(t, s.call(alice, "create", "k"), want)
		wantSame(t, s.call(alice, "exec", "k"), other)
		want.Operation = ""
		want.Digest, want.Exec, want.Fed, want.Result, want.At = "d2", "", false, nil, epoch().Add(time.Second)
		s.putCalls(want)
		wantSame(t, s.call(alice, "create", "k"), want)
		s.view(func(r store.Reader) error {
			_, absent := r.KeyedCall(bob, "create", "none")
			_, foreign := r.KeyedCall(bob, "exec", "k")
			sameNotFound(t, absent, foreign)
			return nil
		})
	})
	t.Run("a deleted one is gone", func(t *testing.T) {
		s := start(t, open)
		s.putCalls(newKeyedCall(alice, "k"), newKeyedCall(bob, "k"))
		for range 2 { // also if it is gone already
			s.update(func(tx store.Tx) error { return tx.DeleteKeyedCall(alice, "create", "k") })
		}
		s.wantNoCall(alice, "k")
		s.call(bob, "create", "k")
	})
	t.Run("old ones are forgotten", func(t *testing.T) {
		s := start(t, open)
		old, young := newKeyedCall(alice, "old"), newKeyedCall(bob, "young")
		young.At = epoch().Add(time.Hour)
		s.putCalls(old, young)
		s.update(func(tx store.Tx) error {
			n, err := tx.ForgetKeyedCalls(epoch().Add(time.Hour))
			wantSame(t, n, 1)
			return err
		})
		s.wantNoCall(alice, "old")
		wantSame(t, s.call(bob, "create", "young"), young)
	})
	t.Run("what can't be found again is refused", func(t *testing.T) {
		s := start(t, open)
		for _, spoil := range []func(*core.KeyedCall){
			func(c *core.KeyedCall) { c.Tenant = "" }, func(c *core.KeyedCall) { c.Route = "" },
			func(c *core.KeyedCall) { c.Key = "" }, func(c *core.KeyedCall) { c.At = time.Time{} },
		} {
			c := newKeyedCall(alice, "k")
			spoil(&c)
			wantCode(t, s.try(func(tx store.Tx) error { return tx.PutKeyedCall(c) }), core.CodeInvalid)
		}
	})
}

func (s *suite) putCalls(list ...core.KeyedCall) {
	s.Helper()
	s.update(func(tx store.Tx) error {
		for _, c := range list {
			if err := tx.PutKeyedCall(c); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *suite) call(tenant core.TenantID, route, key string) (c core.KeyedCall) {
	s.Helper()
	s.view(func(r store.Reader) (err error) {
		c, err = r.KeyedCall(tenant, route, key)
		return err
	})
	return c
}

func (s *suite) wantNoCall(tenant core.TenantID, key string) {
	s.Helper()
	s.view(func(r store.Reader) error {
		_, err := r.KeyedCall(tenant, "create", key)
		wantCode(s.T, err, core.CodeNotFound)
		return nil
	})
}
