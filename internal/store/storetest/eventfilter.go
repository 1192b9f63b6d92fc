package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// testEventFilter holds filters against what a loop over all events selects.
func testEventFilter(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	rng := rand.New(rand.NewPCG(3, 5)) // A test that can be repeated.
	labels := map[core.SandboxID]map[string]string{"": nil}
	var ids []core.SandboxID
	for i := range 4 {
		b := newSandbox(alice)
		b.Labels = map[string]string{"app": []string{"web", "db"}[i%2], "n": fmt.Sprint(i)}
		s.put(b)
		ids, labels[b.ID] = append(ids, b.ID), b.Labels
	}
	// The last one's record is forgotten, and only what it used is still known.
	gone := core.MeterOf(core.Sandbox{ID: core.SandboxID(core.NewID()), Tenant: alice, State: core.StateRunning, Labels: map[string]string{"app": "web"}}, epoch())
	s.meter(gone)
	ids, labels[gone.Sandbox] = append(ids, gone.Sandbox, ""), gone.Labels
	types := []core.EventType{core.EventSandboxRunning, core.EventExecStarted, core.EventExecEnded, core.EventKeyCreated}
	actors := []string{"k1", "k2", "ttl"}
	var all []core.Event
	s.update(func(tx store.Tx) error {
		for i := range 300 {
			e, err := tx.AppendEvent(core.Event{
				Tenant: alice, Sandbox: ids[rng.IntN(len(ids))], Type: types[rng.IntN(len(types))], Actor: core.Actor{Kind: "key", ID: actors[rng.IntN(3)]},
				At: epoch().Add(time.Duration(i+rng.IntN(20)) * time.Second), // not quite in order
			})
			if err != nil {
				return err
			}
			all = append(all, e)
			if _, err := tx.AppendEvent(core.Event{Tenant: bob, Sandbox: e.Sandbox, Type: e.Type, Actor: e.Actor, At: e.At}); err != nil {
				return err
			}
		}
		return nil
	})
	pick := func(n int) bool { return rng.IntN(n) == 0 }
	for range 200 {
		var f store.EventFilter
		if pick(3) {
			f.Sandbox = ids[rng.IntN(len(ids))]
		}
		if pick(2) {
			f.Types = types[:1+rng.IntN(3)]
		}
		if pick(3) {
			f.Actor = append(actors, "nobody")[rng.IntN(4)]
		}
		if pick(3) {
			f.Labels = map[string]string{"app": []string{"web", "db", "x"}[rng.IntN(3)]}
		}
		if pick(3) {
			f.Since = epoch().Add(time.Duration(rng.IntN(330)) * time.Second)
		}
		if pick(3) {
			f.Until = epoch().Add(time.Duration(rng.IntN(330)) * time.Second)
		}
		after := int64(0)
		if pick(3) {
			after = rng.Int64N(310)
		}
		var want []int64
		for _, e := range all {
			if e.Seq > after && selects(f, e, labels[e.Sandbox]) {
				want = append(want, e.Seq)
			}
		}
		if got := s.found(f, after, 1+rng.IntN(40)); !slices.Equal(got, want) {
			t.Fatalf("%+v after %d: %v, want %v", f, after, got, want)
		}
	}
	s.view(func(r store.Reader) error {
		for field, f := range map[string]store.EventFilter{"type": {Types: make([]core.EventType, store.MaxEventTypes+1)}, "label": {Labels: many(101)}} {
			_, err := r.FindEvents(alice, f, 0, 1)
			wantField(t, err, field)
		}
		return nil
	})
}

func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint(i)] = ""
	}
	return m
}

func selects(f store.EventFilter, e core.Event, labels map[string]string) bool {
	for k, v := range f.Labels {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return (f.Sandbox == "" || f.Sandbox == e.Sandbox) && (len(f.Types) == 0 || slices.Contains(f.Types, e.Type)) &&
		(f.Actor == "" || f.Actor == e.Actor.ID) && (f.Since.IsZero() || !e.At.Before(f.Since)) && (f.Until.IsZero() || e.At.Before(f.Until))
}

// found pages through what a filter selects, until all is looked at.
func (s *suite) found(f store.EventFilter, after int64, limit int) (list []int64) {
	s.Helper()
	for {
		var page store.EventPage
		s.view(func(r store.Reader) (err error) {
			page, err = r.FindEvents(alice, f, after, limit)
			return err
		})
		list = append(list, numbers(page.Events)...)
		if page.Through < after || len(page.Events) > limit {
			s.Fatalf("after %d: %d events through %d", after, len(page.Events), page.Through)
		}
		if page.Through == after {
			return list
		}
		after = page.Through
	}
}
