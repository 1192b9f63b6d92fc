package core

import (
	"strings"
	"testing"
)

func TestParseTemplateRef(t *testing.T) {
	t.Parallel()
	id, digest := "t0p9o8i7u6y5t4r3e2w1qa", "sha256:"+strings.Repeat("0a", 32)
	for s, want := range map[string]TemplateRef{
		id:         {ID: TemplateID(id)},
		digest:     {Digest: digest},
		"app":      {Name: "app"},
		"app@3":    {Name: "app", Version: 3},
		"a:latest": {Name: "a"},
		"a:1.2_x":  {Name: "a", Tag: "1.2_x"},
		"sha256:a": {Name: "sha256", Tag: "a"},
	} {
		if got, ok := ParseTemplateRef(s); !ok || got != want {
			t.Errorf("%s: %+v, %v", s, got, ok)
		}
	}
	for _, s := range []string{
		"", "@", ":", "App", "app@", "app@0", "app@-1", "app@01", "app@+1", "app@1:x", "app:x@1", "app:", "app:-x", "app:X", "@3", ":x", id + "@1", id + ":x",
		"app@99999999999999999999", "app:" + strings.Repeat("x", 64), "a/b", "a\n", "app:a\n", digest + "\n", strings.ToUpper(digest),
	} {
		if got, ok := ParseTemplateRef(s); ok {
			t.Errorf("%q is taken for %+v", s, got)
		}
	}
}

func FuzzParseTemplateRef(f *testing.F) {
	for _, s := range []string{"app@3", "app:x", "t0p9o8i7u6y5t4r3e2w1qa", "sha256:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, ok := ParseTemplateRef(s)
		named := 0
		for _, set := range []bool{ref.ID != "", ref.Name != "", ref.Digest != ""} {
			if set {
				named++
			}
		}
		if ok != (named == 1) || (ref.Version != 0 && ref.Tag != "") || (ref.Name != "" && CheckName("", ref.Name) != nil) {
			t.Errorf("%q: %+v, %v", s, ref, ok)
		}
	})
}

func TestCheckTag(t *testing.T) {
	t.Parallel()
	for s, good := range map[string]bool{"stable": true, "1.2.3": true, "3": true, "latest": false, "": false, "A": false, "a b": false, ".a": false} {
		if err := CheckTag("tag", s); (err == nil) != good {
			t.Errorf("%q: %v", s, err)
		}
	}
}
