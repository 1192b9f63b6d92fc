package guest

import (
	"runtime"
	"testing"
	"time"
)

func TestNap(t *testing.T) {
	second := int64(runtime.NumCPU() * fillRate)
	for name, c := range map[string]struct {
		left  int64
		quiet time.Duration
		want  time.Duration
	}{
		"an eighth of a second left": {second/8 - slack, 0, 125 * time.Millisecond},
		"the same, quiet for little": {second/8 - slack, time.Second, 125 * time.Millisecond},
		"the same, quiet":            {second/8 - slack, 2 * time.Second, 250 * time.Millisecond},
		"the same, quiet for long":   {second/8 - slack, time.Hour, quietNap},
		"much left":                  {100 * second, 0, longestNap},
		"nothing left, quiet":        {0, time.Second, 125 * time.Millisecond},
	} {
		if got := nap(c.left, c.quiet).Round(time.Millisecond); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := nap(0, 0); got <= 0 || got > 10*time.Millisecond {
		t.Errorf("nothing left: %s", got)
	}
}
