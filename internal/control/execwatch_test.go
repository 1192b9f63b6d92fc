package control

import (
	"testing"
	"time"
)

func TestNextWatch(t *testing.T) {
	wait := time.Duration(0)
	for i, step := range []struct {
		news bool
		want time.Duration
	}{
		{true, watchEvery},
		{false, 2 * watchEvery},
		{false, 4 * watchEvery},
		{false, watchSeldom},
		{false, watchSeldom},
		{true, watchEvery},
		{false, 2 * watchEvery},
	} {
		if wait = nextWatch(wait, step.news); wait != step.want {
			t.Errorf("pause %d is %s, want %s", i, wait, step.want)
		}
	}
	if got := nextWatch(0, false); got != watchEvery {
		t.Errorf("after a new exec woke the watcher: %s", got)
	}
}
