package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
)

// The stacks of a sentry's goroutines.
const (
	stacksOther   = "goroutine 1 [select]:\ngvisor.dev/gvisor/runsc/boot.(*Loader).run(0x1)\n\tx.go:1"
	stacksEntered = "goroutine 1 [sync.Mutex.Lock]:\ngvisor.dev/gvisor/pkg/sentry/kernel.(*Kernel).Pause(0x1)\n\tx.go:1"
	stacksPausing = "goroutine 1 [sync.WaitGroup.Wait]:\nsync.(*WaitGroup).Wait(0x1)\n\tx.go:1\n" +
		"gvisor.dev/gvisor/pkg/sentry/kernel.(*Kernel).Pause(0x1)\n\tx.go:1"
)

func stacksTask(what string) string {
	return "goroutine 7 [x]:\ngvisor.dev/gvisor/pkg/sentry/kernel." + what + "(0x1)\n\tx.go:1\n" +
		"gvisor.dev/gvisor/pkg/sentry/kernel.(*Task).run(0x1, 0x2)\n\ttask_run.go:1"
}

func TestReadStacks(t *testing.T) {
	stopped, blocked := stacksTask("(*Task).doStop"), stacksTask("(*Task).block")
	for name, c := range map[string]struct {
		stacks  []string
		overdue int
		want    heldState
	}{
		"none":                  {[]string{stacksOther}, 0, stateUnclear},
		"nothing yet":           {nil, 0, stateUnclear},
		"all held":              {[]string{stacksOther, stopped, stopped}, 0, stateHeld},
		"one runs":              {[]string{stopped, stacksOther, blocked}, 0, stateFree},
		"all run":               {[]string{blocked}, 0, stateFree},
		"about to be held":      {[]string{blocked, stacksEntered}, 0, stateUnclear},
		"being held":            {[]string{stopped, blocked, stacksPausing}, 0, stateHolding},
		"of before, or not yet": {[]string{stopped, blocked, stacksPausing}, 1, stateUnclear},
		"again being held":      {[]string{blocked, stacksPausing, stacksPausing}, 1, stateHolding},
		"no longer overdue":     {[]string{blocked}, 1, stateFree},
	} {
		if got := readStacks(strings.Join(c.stacks, "\n\n"), c.overdue); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// fakeSentry counts as a sentry does. A method of mute is not answered, and done after so many looks at the sentry,
// or before what it is asked next.
type fakeSentry struct {
	t  *testing.T
	mu sync.Mutex
	// held is the sentry's count; slow says that a task does not stop, so that what holds the tasks waits.
	held    int
	slow    bool
	waiting int
	mute    map[string]int
	late    map[string]int
	did     []string
	// onPause is called before the tasks are held.
	onPause func()
}

func newFakeSentry(t *testing.T) (*fakeSentry, *freezer, *box) {
	t.Helper()
	self, _, err := lookProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	id := core.SandboxID(core.NewID())
	b := newBox(record{ID: id, Container: "c", Boot: bootID(), Sentry: self, Started: true})
	d := &Driver{cfg: Config{StateDir: dir}, boxes: map[core.SandboxID]*box{id: b}}
	s := &fakeSentry{t: t, mute: map[string]int{}, late: map[string]int{}, onPause: func() {}}
	l, err := net.Listen("unix", filepath.Join(dir, controlSocketPrefix+"c.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return s, &freezer{Driver: d, patience: 300 * time.Millisecond, lookAgain: 5 * time.Millisecond}, b
}

// serve answers one question, or does not.
func (s *fakeSentry) serve(c net.Conn) {
	defer c.Close()
	var q struct{ Method string }
	if json.NewDecoder(c).Decode(&q) != nil {
		return
	}
	result, answer := s.asked(q.Method)
	if !answer {
		_, _ = c.Read(make([]byte, 1)) // until the caller has left
		return
	}
	_ = json.NewEncoder(c).Encode(map[string]any{"success": true, "result": result})
}

func (s *fakeSentry) asked(method string) (result any, answer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.late {
		if s.late[m]--; s.late[m] == 0 || method != methodStacks {
			delete(s.late, m)
			s.do(m)
		}
	}
	if method == methodStacks {
		return s.stacks(), true
	}
	if looks, ok := s.mute[method]; ok {
		delete(s.mute, method)
		if looks == 0 {
			s.do(method)
		} else {
			s.late[method] = looks
		}
		return nil, false
	}
	s.do(method)
	return struct{}{}, true
}

func (s *fakeSentry) do(method string) {
	s.did = append(s.did, method)
	switch method {
	case methodPause:
		s.onPause()
		s.held++
		if s.slow {
			s.waiting++
		} else {
			s.waiting = 0
		}
	case methodResume:
		if s.held--; s.held < 0 {
			s.t.Error("the sentry was let go too often and ends")
		}
	}
}

func (s *fakeSentry) stacks() string {
	list := []string{stacksOther}
	for range s.waiting {
		list = append(list, stacksPausing)
	}
	task := "(*Task).block"
	if s.held > 0 && !s.slow {
		task = "(*Task).doStop"
	}
	return strings.Join(append(list, stacksTask(task)), "\n\n")
}

// want checks what the sentry has done, that nothing is held, and that the record says so.
func (s *fakeSentry) want(b *box, did ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.did, did) || s.held != 0 || b.current().Held {
		s.t.Errorf("it did %v and is held %d times, want %v; the record says %v", s.did, s.held, did, b.current().Held)
	}
}

// TestHeldLate: a sentry that holds its tasks only long after it was told to is let go.
func TestHeldLate(t *testing.T) {
	s, d, b := newFakeSentry(t)
	s.mute[methodPause] = 5
	if err := d.Freeze(t.Context(), b.id); err == nil {
		t.Error("it was held without an answer")
	}
	s.want(b, methodPause, methodResume)
}

// TestHeldNever: while it may still hold its tasks, nobody says that it doesn't.
func TestHeldNever(t *testing.T) {
	s, d, b := newFakeSentry(t)
	s.mute[methodPause] = 1 << 30
	if err := d.Freeze(t.Context(), b.id); err == nil {
		t.Error("it was held without an answer")
	}
	if err := d.Thaw(t.Context(), b.id); err == nil || !b.current().Held {
		t.Errorf("let go: %v; the record says %v", err, b.current().Held)
	}
	s.mu.Lock()
	s.late[methodPause] = 1
	s.mu.Unlock()
	if err := d.Thaw(t.Context(), b.id); err != nil {
		t.Error(err)
	}
	s.want(b, methodPause, methodResume)
}

// TestHeldForNobody: a caller who leaves does not keep the driver from learning that the tasks are held.
func TestHeldForNobody(t *testing.T) {
	s, d, b := newFakeSentry(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.onPause = cancel
	if err := d.Freeze(ctx, b.id); err != nil {
		t.Error(err)
	}
	if err := d.Thaw(t.Context(), b.id); err != nil {
		t.Error(err)
	}
	s.want(b, methodPause, methodResume)
}

// TestLetGoLate: a sentry that lets go only after the driver has given up on its answer is not let go twice.
func TestLetGoLate(t *testing.T) {
	for _, looks := range []int{0, 2} {
		s, d, b := newFakeSentry(t)
		s.mute[methodResume] = looks
		if err := d.Freeze(t.Context(), b.id); err != nil {
			t.Fatal(err)
		}
		if err := d.Thaw(t.Context(), b.id); err == nil {
			t.Error("it was let go without an answer")
		}
		if err := d.Thaw(t.Context(), b.id); err != nil {
			t.Error(err)
		}
		s.want(b, methodPause, methodResume)
	}
}

// TestHeldSlowly: what still waits for a task that does not stop is no sign that the tasks are held, once they were let go.
func TestHeldSlowly(t *testing.T) {
	s, d, b := newFakeSentry(t)
	s.slow = true
	var did []string
	for round := range 2 {
		s.mute[methodPause] = 0
		if err := d.Freeze(t.Context(), b.id); err == nil {
			t.Error("it was held without an answer")
		}
		did = append(did, methodPause, methodResume)
		s.want(b, did...)
		if got := b.current().Overdue; got != round+1 {
			t.Errorf("%d are overdue", got)
		}
	}
	// A record that still says that it is held, and a driver that knows nothing.
	if err := d.update(b, func(r *record) { r.Held = true }); err != nil {
		t.Fatal(err)
	}
	b.free = false
	if err := d.Thaw(t.Context(), b.id); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("let go: %v", err)
	}
	b.free = true
	s.mu.Lock()
	s.slow = false
	s.mu.Unlock()
	for range 2 {
		if err := d.Freeze(t.Context(), b.id); err != nil {
			t.Fatal(err)
		}
		if err := d.Thaw(t.Context(), b.id); err != nil {
			t.Fatal(err)
		}
		did = append(did, methodPause, methodResume)
	}
	s.want(b, did...)
	if got := b.current().Overdue; got != 0 {
		t.Errorf("%d are overdue after all have stopped", got)
	}
}
