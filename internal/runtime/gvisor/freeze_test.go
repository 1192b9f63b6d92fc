package gvisor

import (
	"strings"
	"testing"
)

func TestShowHeld(t *testing.T) {
	task := func(what string) string {
		return "goroutine 7 [x]:\ngvisor.dev/gvisor/pkg/sentry/kernel." + what + "(0x1)\n\tx.go:1\n" +
			"gvisor.dev/gvisor/pkg/sentry/kernel.(*Task).run(0x1, 0x2)\n\ttask_run.go:1"
	}
	const other = "goroutine 1 [select]:\ngvisor.dev/gvisor/runsc/boot.(*Loader).run(0x1)\n\tx.go:1"
	const pausing = "goroutine 1 [semacquire]:\ngvisor.dev/gvisor/pkg/sentry/kernel.(*Kernel).Pause(0x1)\n\tx.go:1"
	for name, c := range map[string]struct {
		stacks []string
		want   bool
	}{
		"none":        {[]string{other}, false},
		"all held":    {[]string{other, task("(*Task).doStop"), task("(*Task).doStop")}, true},
		"one runs":    {[]string{task("(*Task).doStop"), other, task("(*Task).block")}, false},
		"all run":     {[]string{task("(*Task).block")}, false},
		"being held":  {[]string{task("(*Task).doStop"), task("(*Task).block"), pausing}, true},
		"nothing yet": {nil, false},
	} {
		if got := showHeld(strings.Join(c.stacks, "\n\n")); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
