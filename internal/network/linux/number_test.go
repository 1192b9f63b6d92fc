package linux

import (
	"errors"
	"testing"
)

func TestNumbersRise(t *testing.T) {
	var remembered []uint32
	n := numbers{used: map[uint32]struct{}{}, reserve: func(v uint32) error {
		remembered = append(remembered, v)
		return nil
	}}
	for want := uint32(1); want <= numberBlock+2; want++ {
		got, err := n.take()
		if err != nil || got != want {
			t.Fatalf("take: %d, %v; want %d", got, err, want)
		}
		n.give(got)
	}
	if len(remembered) != 2 || remembered[0] != 1+numberBlock || remembered[1] != 2+2*numberBlock {
		t.Errorf("the kernel was told %v", remembered)
	}
}

func TestNumbersWrap(t *testing.T) {
	n := numbers{
		last: maxNumber - 1, reserved: maxNumber, used: map[uint32]struct{}{1: {}},
		reserve: func(uint32) error { return nil },
	}
	for _, want := range []uint32{maxNumber, 2, 3} {
		if got, err := n.take(); err != nil || got != want {
			t.Errorf("take: %d, %v; want %d", got, err, want)
		}
	}
	if n.reserved != 2+numberBlock {
		t.Errorf("after the wrap %d is reserved", n.reserved)
	}
}

func TestNumbersKeepTheirPlaceOnError(t *testing.T) {
	broken := errors.New("broken")
	n := numbers{used: map[uint32]struct{}{}, reserve: func(uint32) error { return broken }}
	if _, err := n.take(); !errors.Is(err, broken) {
		t.Errorf("take: %v, want %v", err, broken)
	}
	if len(n.used) != 0 || n.last != 0 {
		t.Errorf("a failed take changed %+v", n)
	}
}

func TestNames(t *testing.T) {
	for _, n := range []uint32{1, 42, maxNumber} {
		if got, ok := parseLinkName(linkName(n)); !ok || got != n {
			t.Errorf("parseLinkName(%q) = %d, %v", linkName(n), got, ok)
		}
		if len(linkName(n)) > 15 || !slotPrefix.Contains(slotAddr(n)) {
			t.Errorf("slot %d is named %q and has address %v", n, linkName(n), slotAddr(n))
		}
	}
	for _, name := range []string{"", "v", "v0", "v01", "v-1", "v4194303", "vx", "eth0", "lo", "v99999999999"} {
		if n, ok := parseLinkName(name); ok {
			t.Errorf("parseLinkName(%q) = %d", name, n)
		}
	}
	for alias, want := range map[string]uint32{
		routerAlias("a", 1024): 1024, "": 0, "shoal router a": 0, "shoal router a 99999999": 0,
	} {
		if got := parseRouterAlias(alias); got != want {
			t.Errorf("parseRouterAlias(%q) = %d, want %d", alias, got, want)
		}
	}
}

func TestOpenRefusesBadConfig(t *testing.T) {
	for _, cfg := range []Config{{}, {Name: "a b"}, {Name: "a"}, {Name: "a", StateDir: "/nowhere"}} {
		if d, err := Open(t.Context(), cfg); err == nil {
			_ = d.Close()
			t.Errorf("Open(%+v) succeeded", cfg)
		}
	}
}
