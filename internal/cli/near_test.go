package cli

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"name", "name", 0},
		{"nam", "name", 1},
		{"mame", "name", 1},
		{"tiemout", "timeout", 1},
		{"labels", "label", 1},
		{"state", "template", 5},
		{"", "abc", 3},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q is %d, want %d", c.a, c.b, got, c.want)
		}
		if distance(c.a, c.b) != distance(c.b, c.a) {
			t.Errorf("%q and %q are not as far from each other both ways", c.a, c.b)
		}
	}
}
