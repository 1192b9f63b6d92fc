package cli

import (
	"strings"
	"testing"

	shoal "shoal/sdk/go"
)

// TestTreeOf draws trees; each word is child<parent, the oldest first.
func TestTreeOf(t *testing.T) {
	for _, c := range []struct{ list, want string }{
		{"", ""},
		{"a", "a"},
		{"a b<a c<b", "a/└ b/└ c"},
		{"a b<gone c<b", "a/b/└ c"},
		{"a b<a c<a", "a/├ b/└ c"},
		{"a b<a c<b d<b e<c f<d", "a/└ b/  ├ c/  │ └ e/  └ d/  └ f"},
		{"a b<a c<a d<b e<c f<c g<f", "a/├ b/│ └ d/└ c/  ├ e/  └ f/  └ g"},
	} {
		var list []shoal.Checkpoint
		for _, word := range strings.Fields(c.list) {
			id, parent, _ := strings.Cut(word, "<")
			list = append([]shoal.Checkpoint{{ID: id, Parent: parent}}, list...)
		}
		var got []string
		for _, b := range treeOf(list) {
			got = append(got, b.lines+b.ID)
		}
		if got := strings.Join(got, "/"); got != c.want {
			t.Errorf("%s is drawn as\n%s\nwant\n%s", c.list, got, c.want)
		}
	}
}
