package httpserve_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// TestStrangersInTime: failures are forgiven, and the next line tells how many were not logged.
func TestStrangersInTime(t *testing.T) {
	s := httpserve.NewStrangers()
	now := time.Now()
	for range 1000 {
		s.Failed("192.0.2.1:1", "", now)
	}
	err := s.Admit("192.0.2.1:1", "", now)
	if !core.IsCode(err, core.CodeQuota) {
		t.Fatalf("admit: %v", err)
	}
	if err := s.Admit("192.0.2.1:1", "", now.Add(30*time.Second)); err != nil {
		t.Errorf("half a minute later: %v", err)
	}
	for i, want := range []struct {
		after    time.Duration
		unlogged int
		ok       bool
	}{{0, 0, true}, {time.Second, 0, false}, {59 * time.Second, 0, false}, {time.Minute, 2, true}, {61 * time.Second, 0, false}, {2 * time.Minute, 1, true}} {
		if n, ok := s.MayLog("192.0.2.1:1", now.Add(want.after)); n != want.unlogged || ok != want.ok {
			t.Errorf("line %d: %d, %v", i, n, ok)
		}
	}
	// However many addresses come, the table does not grow.
	for i := range 3 * httpserve.MaxStrangers {
		s.Failed(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), "", now)
	}
	if n := s.Len(); n != httpserve.MaxStrangers {
		t.Errorf("%d addresses are remembered", n)
	}
}

// TestMadeUpKeys: who makes up keys all the time costs a bounded number of look-ups, and a good key that met no budget is looked up
// when it comes again, sooner or later by how fast the other is.
func TestMadeUpKeys(t *testing.T) {
	s := httpserve.NewStrangers()
	now := time.Now()
	const perSecond, seconds = 200, 30
	lookups, tries := 0, 0
	for i := range perSecond * seconds {
		at := now.Add(time.Duration(i) * time.Second / perSecond)
		if i >= 10*perSecond && i%(perSecond+1) == 0 && tries >= 0 { // once a second, after all bursts
			tries++
			err := s.Admit("192.0.2.1:1", "good", at)
			var e *core.Error
			switch {
			case err == nil:
				tries = -1
			case !errors.As(err, &e) || e.RetryAfter <= 0 || e.RetryAfter > time.Second:
				t.Fatalf("admit: %v", err)
			}
		}
		secret := "made-up-" + strconv.Itoa(i)
		if s.Admit("192.0.2.1:1", secret, at) == nil {
			lookups++
			s.Failed("192.0.2.1:1", secret, at)
		}
	}
	if most := 200 + 52*seconds + 5; lookups > most {
		t.Errorf("%d look-ups, want at most %d", lookups, most)
	}
	if tries >= 0 {
		t.Errorf("a good key was refused %d times", tries)
	}
	// A key is not wrong for ever: a minute after its last look-up it is as one that was never seen.
	s.Failed("192.0.2.9:1", "back", now)
	for _, tc := range []struct {
		after    time.Duration
		admitted bool
	}{{30 * time.Second, false}, {90 * time.Second, true}} {
		at := now.Add(tc.after)
		for range 200 {
			s.Failed("192.0.2.9:1", "", at)
		}
		if got := s.Admit("192.0.2.9:1", "back", at) == nil; got != tc.admitted {
			t.Errorf("after %s: admitted is %v", tc.after, got)
		}
	}
}
