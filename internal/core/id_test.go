package core

import (
	"errors"
	"strings"
	"testing"
)

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	first, rest := map[byte]int{}, map[byte]int{}
	const n = 20_000
	for range n {
		id := NewID()
		if len(id) != IDLength || !IsID(id) {
			t.Fatalf("%q is no id", id)
		}
		if seen[id] {
			t.Fatalf("%q came twice", id)
		}
		seen[id] = true
		first[id[0]]++
		rest[id[7]]++
	}
	// Each character comes about equally often: six standard deviations leave one false alarm in millions of runs.
	for name, tc := range map[string]struct {
		counts map[byte]int
		of     string
	}{"first": {first, letters}, "later": {rest, alphanumeric}} {
		want := float64(n) / float64(len(tc.of))
		for i := range len(tc.of) {
			if got := float64(tc.counts[tc.of[i]]); (got-want)*(got-want) > 36*want {
				t.Errorf("%s: %q came %v times, want about %.0f", name, tc.of[i], got, want)
			}
		}
	}
}

func TestIsID(t *testing.T) {
	good := "a" + strings.Repeat("0", 21)
	for s, want := range map[string]bool{
		good: true, "abcdefghijklmnopqrstuv": true,
		"": false, good[1:]: false, good + "0": false, "0" + good[1:]: false, strings.ToUpper(good): false,
		good[:21] + "-": false, good[:21] + "\n": false, good + "\n": false, "é" + good[2:]: false,
	} {
		if got := IsID(s); got != want {
			t.Errorf("%q: got %v", s, got)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "0": true, "web-1": true, "a-": true, strings.Repeat("x", 63): true, strings.Repeat("0", 22): true,
		strings.Repeat("x", 21): true, strings.Repeat("x", 23): true, strings.Repeat("x", 21) + "-": true,
		"": false, "-a": false, "A": false, "a_b": false, "a.b": false, "a/b": false, "a b": false, "ä": false, "a\n": false,
		"..": false, strings.Repeat("x", 64): false, strings.Repeat("x", 22): false,
	} {
		err := CheckName("name", name)
		if (err == nil) != want {
			t.Errorf("%q: got %v", name, err)
		}
		if err == nil {
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeInvalid || e.Field != "name" || e.Message == "" {
			t.Errorf("%q: %+v doesn't blame the field", name, err)
		}
	}
	if err := CheckName("name", NewID()); err == nil {
		t.Error("an id is taken for a name")
	}
}

func TestHashSecret(t *testing.T) {
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, "abc"
	if got := HashSecret("abc"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
