package guest

import (
	"strings"
	"testing"
)

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "~", "~/a", "~x", "a/./b", "../..", "//", "/a/", "a\x00", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := expand(name, "/base", "/home/u")
		if err != nil {
			return
		}
		if !strings.HasPrefix(got, "/") || strings.Contains(got, "//") || strings.Contains(got+"/", "/./") || strings.ContainsRune(got, 0) {
			t.Errorf("%q became %q", name, got)
		}
		if again, err := expand(got, "/other", "/other"); err != nil || again != got {
			t.Errorf("%q became %q and then %q, %v", name, got, again, err)
		}
	})
}
