package cli

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestPlaces: more run with every sandbox that was made, and what runs already is enough when there is no room for more.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(0)
		for range 4 {
			if err := p.take(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		go func() { done <- p.take(t.Context()) }()
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("a fifth place before anything was made")
		}
		p.made()
		if err := <-done; err != nil || p.limit != 5 {
			t.Fatalf("%v, limit %d", err, p.limit)
		}
		if others := p.full(); !others || p.limit != 4 {
			t.Fatalf("others %v, limit %d", others, p.limit)
		}
		for range 100 {
			p.made()
		}
		if p.limit != mostPlaces {
			t.Fatalf("limit %d", p.limit)
		}
		for range 4 {
			p.give()
		}
		if others := p.full(); others || p.limit != 1 {
			t.Fatalf("others %v, limit %d", others, p.limit)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- p.take(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-done; err == nil {
			t.Fatal("a place for nobody")
		}
		fixed := newPlaces(2)
		fixed.made()
		fixed.full()
		if fixed.limit != 2 {
			t.Fatalf("a number that was given became %d", fixed.limit)
		}
	})
}
