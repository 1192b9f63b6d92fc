//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"shoal/internal/core"
)

// Enabled says whether points can be armed in this build.
const Enabled = true

type action struct {
	kind   string
	delay  time.Duration
	faster int
	// nth is the hit on which it acts; zero means every hit.
	nth, hits int
}

// armed is what SHOAL_FAILPOINTS asked for. It is read once: the environment of a process under test is its script.
var armed = sync.OnceValue(func() *table {
	t := &table{points: map[string]*action{}}
	for _, part := range strings.Split(os.Getenv("SHOAL_FAILPOINTS"), ";") {
		name, text, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			continue
		}
		a := &action{}
		if n, rest, ok := strings.Cut(text, "*"); ok {
			a.nth, _ = strconv.Atoi(n)
			text = rest
		}
		a.kind, text, _ = strings.Cut(text, ":")
		a.delay, _ = time.ParseDuration(text)
		a.faster, _ = strconv.Atoi(text)
		t.points[name] = a
	}
	return t
})

type table struct {
	mu     sync.Mutex
	points map[string]*action
}

// Hit carries out what the point is armed with: it returns an error, waits, kills the process, or does nothing.
func Hit(name string) error {
	t := armed()
	t.mu.Lock()
	a := t.points[name]
	if a != nil {
		a.hits++
		if a.nth != 0 && a.hits != a.nth {
			a = nil
		}
	}
	t.mu.Unlock()
	if a == nil {
		return nil
	}
	switch a.kind {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "delay":
		time.Sleep(a.delay)
		return nil
	case "error":
		return core.Wrap(core.CodeInternal, fmt.Errorf("failpoint %s", name), "an injected fault")
	}
	panic("failpoint " + name + ": unknown action " + a.kind)
}

// Clock returns c, or a clock that begins with it and runs as many times as fast as the point is armed with.
func Clock(name string, c core.Clock) core.Clock {
	t := armed()
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.points[name]
	if a == nil {
		return c
	}
	if a.kind != "faster" || a.faster < 1 {
		panic("failpoint " + name + ": unknown action " + a.kind)
	}
	return fastClock{Clock: c, begin: c.Now(), times: a.faster}
}

type fastClock struct {
	core.Clock
	begin time.Time
	times int
}

// Now returns the time of the faster clock.
func (c fastClock) Now() time.Time {
	return c.begin.Add(c.Clock.Now().Sub(c.begin) * time.Duration(c.times))
}

// After waits for d as the faster clock counts it.
func (c fastClock) After(d time.Duration) <-chan time.Time {
	return c.Clock.After(d / time.Duration(c.times))
}
