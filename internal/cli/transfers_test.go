package cli

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	shoal "shoal/sdk/go"
)

// TestTransfersFailAsInOrder holds that whichever of several transfers fails first, the error is the one that copying one
// after another would have met, and that nothing is begun after it.
func TestTransfersFailAsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransfers()
		var most, now atomic.Int64
		for i := range 100 {
			began := tr.begin(t.Context(), func(ctx context.Context) error {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				switch i {
				case 20:
					<-time.After(30 * time.Millisecond)
					return errors.New("twenty")
				case 22:
					<-time.After(10 * time.Millisecond)
					return errors.New("twenty-two")
				case 23:
					<-ctx.Done() // Only the failure before it ends this.
					return ctx.Err()
				}
				<-time.After(5 * time.Millisecond)
				return ctx.Err()
			})
			if !began && i < 24 {
				t.Errorf("transfer %d was not begun", i)
			}
			if began && i > 60 {
				t.Errorf("transfer %d was begun long after a failure", i)
			}
		}
		if err := tr.wait(); err == nil || err.Error() != "twenty" {
			t.Errorf("wait = %v, want the first failure in order", err)
		}
		if most.Load() != maxTransfers {
			t.Errorf("%d at once, want %d", most.Load(), maxTransfers)
		}
	})
}

// crowd is a tree with a directory of many files, of which some can't be opened.
type crowd struct {
	liar
	bad map[string]bool
}

func (c crowd) open(_ context.Context, name string, _ shoal.Resume) (io.ReadCloser, error) {
	if c.bad[name[strings.LastIndexByte(name, '/')+1:]] {
		return nil, errors.New("unreadable")
	}
	return io.NopCloser(strings.NewReader("x")), nil
}

func TestCopyNamesTheFirstFailure(t *testing.T) {
	c := crowd{bad: map[string]bool{"040": true, "041": true, "042": true, "090": true}}
	for i := range 100 {
		c.names = append(c.names, strings.Repeat("0", 3-len(strconv.Itoa(i)))+strconv.Itoa(i))
	}
	for range 20 {
		a := &app{err: io.Discard}
		if err := a.copy(t.Context(), c, "/src", a.local(), t.TempDir()+"/in"); err == nil || err.Error() != "/src/040: unreadable" {
			t.Fatalf("copy = %v, want the failure of file 040", err)
		}
	}
}

// TestPaceWaitsWhenToldTo holds that a server which wants fewer calls gets them later, and that other errors are not tried
// again.
func TestPaceWaitsWhenToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, calls := time.Now(), 0
		err := newPace().call(t.Context(), func() error {
			if calls++; calls < 3 {
				return &shoal.Error{Code: shoal.CodeQuota, RetryAfter: 2 * time.Second}
			}
			return nil
		})
		if err != nil || calls != 3 || time.Since(begin) != 4*time.Second {
			t.Errorf("%v after %d calls and %s", err, calls, time.Since(begin))
		}
		calls = 0
		err = newPace().call(t.Context(), func() error { calls++; return &shoal.Error{Code: shoal.CodeExhausted} })
		if calls != 1 || shoal.ErrorCode(err) != shoal.CodeExhausted {
			t.Errorf("%v after %d calls", err, calls)
		}
		begin = time.Now()
		p := newPace()
		for range callsAtOnce + callsPerSecond {
			if err := p.call(t.Context(), func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took < 900*time.Millisecond || took > 1100*time.Millisecond {
			t.Errorf("%d calls took %s, want a second", callsAtOnce+callsPerSecond, took)
		}
	})
}

// TestMeterShowsATerminalHowFarItIs holds that a terminal is told, and that the line is gone afterwards.
func TestMeterShowsATerminalHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		var m meter
		stop := m.show(&progress{w: &out, terminal: true})
		m.files.Add(7)
		if _, err := io.Copy(io.Discard, m.count(strings.NewReader(strings.Repeat("x", 2048)))); err != nil {
			t.Fatal(err)
		}
		<-time.After(meterStep + time.Millisecond)
		stop()
		if got, want := out.String(), "\r\x1b[Kcopying: 7 files, 2 KiB\r\x1b[K"; got != want {
			t.Errorf("shows %q, want %q", got, want)
		}
		var log strings.Builder
		stop = m.show(&progress{w: &log})
		<-time.After(time.Minute)
		stop()
		if log.Len() > 0 {
			t.Errorf("tells a log %q", log.String())
		}
	})
}
