package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nearFlags says which of a command's flags may have been meant by a name; empty if none is near.
func nearFlags(c *cobra.Command, name string) string {
	var near []string
	best := 1 + len(name)/4 // Of a short name, few letters may be wrong.
	c.Flags().VisitAll(func(f *pflag.Flag) {
		d := distance(name, f.Name)
		if len(name) > 1 && strings.HasPrefix(f.Name, name) {
			d = 1
		}
		switch {
		case f.Hidden || d > best:
		case d < best:
			best, near = d, []string{"--" + f.Name}
		default:
			near = append(near, "--"+f.Name)
		}
	})
	if len(near) == 0 {
		return ""
	}
	return ": did you mean " + either(near, "or") + "?"
}

// distance is how many letters must be added, taken away, replaced or swapped with the next to make b of a.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
