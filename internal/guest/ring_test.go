package guest

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"shoal/internal/guest/wire"
)

// TestRingModel appends at random and compares what followers get with a plain record of everything.
func TestRingModel(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		r := newRing(8<<10, time.Hour, &budget{limit: 1 << 20}, func(int64) {}, true)
		var all []byte
		var kinds []wire.FrameType
		f, err := r.follow(0)
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			data := make([]byte, rnd.IntN(1500))
			for i := range data {
				data[i] = byte(rnd.Uint32())
			}
			kind := wire.FrameStdout + wire.FrameType(rnd.IntN(2))
			if len(data) > 0 {
				r.append(kind, data)
			}
			all = append(all, data...)
			for range data {
				kinds = append(kinds, kind)
			}
			if rnd.IntN(3) == 0 {
				checkFollower(t, r, f, all, kinds, rnd.IntN(2000)+1)
			}
		}
		if start, end := r.bounds(); end != int64(len(all)) || end-start > 8<<10 {
			t.Fatalf("seed %d: bounds %d, %d of %d", seed, start, end, len(all))
		}
	}
}

// checkFollower takes everything that there is and compares it.
func checkFollower(t *testing.T, r *ring, f *follower, all []byte, kinds []wire.FrameType, size int) {
	t.Helper()
	buf := make([]byte, size)
	for {
		c := f.next(buf, -1)
		if c.caught {
			return
		}
		if c.missing > 0 {
			if start, _ := r.bounds(); c.from+c.missing != start {
				t.Fatalf("gap to %d, the oldest is %d", c.from+c.missing, start)
			}
			f.advance(c.from + c.missing)
			continue
		}
		end := c.from + int64(len(c.data))
		if !bytes.Equal(c.data, all[c.from:end]) {
			t.Fatalf("wrong bytes at %d", c.from)
		}
		for _, k := range kinds[c.from:end] {
			if k != c.kind {
				t.Fatalf("wrong stream at %d", c.from)
			}
		}
		f.advance(end)
	}
}

// TestRingBudgetRefused: a ring that may not grow keeps what fits, and still waits for its reader.
func TestRingBudgetRefused(t *testing.T) {
	b := &budget{}
	r := newRing(1<<20, 20*time.Millisecond, b, func(int64) {}, false)
	f, err := r.follow(0)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		r.append(wire.FrameStdout, make([]byte, 10_000))
	}
	start, end := r.bounds()
	if end != 1_000_000 || end-start > freeRing {
		t.Errorf("bounds %d, %d", start, end)
	}
	if c := f.next(make([]byte, 10), -1); c.missing != start {
		t.Errorf("%+v", c)
	}
	r.drop()
	if b.used != 0 {
		t.Errorf("%d bytes are still counted", b.used)
	}
}

// TestUnreadOutputStays: output of a process that has ended is not dropped while its reader is about to take it.
func TestUnreadOutputStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const holdBack = 10 * time.Second
		for _, tc := range []struct {
			name     string
			detached bool
			read     int64 // how much a reader took; none came if negative
			after    time.Duration
			dropped  bool
		}{
			{"its reader hasn't come yet", false, -1, holdBack - 1, false},
			{"its reader never came", false, -1, holdBack, true},
			{"nobody follows what is detached", true, -1, 0, true},
			{"a reader begins", false, 0, holdBack - 1, false},
			{"a reader of what is detached begins", true, 0, holdBack - 1, false},
			{"a reader is in the middle", false, 1, holdBack - 1, false},
			{"a reader is stuck", false, 1, holdBack, true},
			{"it has been read", false, 2, 0, true},
		} {
			b := &budget{limit: 0}
			r := newRing(1<<20, holdBack, b, func(int64) {}, tc.detached)
			r.append(wire.FrameStdout, []byte("ok"))
			r.release()
			if tc.read >= 0 {
				f, err := r.follow(0)
				if err != nil {
					t.Fatal(err)
				}
				if tc.read > 0 {
					f.advance(tc.read)
				}
			}
			<-time.After(tc.after) // of the bubble's clock
			start, _ := r.bounds()
			if got := r.drop(); got != tc.dropped || got != (b.used == 0) {
				t.Errorf("%s: dropped %v, %d bytes are used", tc.name, got, b.used)
			}
			if now, end := r.bounds(); !tc.dropped && (now != start || end != 2) {
				t.Errorf("%s: %d to %d is left", tc.name, now, end)
			}
		}
	})
}

// TestManySegments: alternating single bytes don't make the bookkeeping larger than the ring.
func TestManySegments(t *testing.T) {
	r := newRing(64<<10, time.Hour, &budget{limit: 1 << 20}, func(int64) {}, true)
	for i := range 200_000 {
		r.append(wire.FrameStdout+wire.FrameType(i%2), []byte{byte(i)})
	}
	if n := len(r.segments); n > 64<<10/16+64 {
		t.Errorf("%d segments", n)
	}
}
