package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{
		"512M": 512 << 20, "4G": 4 << 30, "1.5g": 3 << 29, "64k": 64 << 10, "1T": 1 << 40, "100B": 100, "1048576": 1 << 20, "2097152.0": 2 << 20, "10MiB": 10 << 20, "2gb": 2 << 30,
	} {
		var b byteSize
		if err := b.Set(text); err != nil || int64(b) != want {
			t.Errorf("%s = %d, %v, want %d", text, int64(b), err, want)
		}
		var again byteSize
		if err := again.Set(b.String()); err != nil || again != b {
			t.Errorf("%s is shown as %s, which is %d", text, b.String(), int64(again))
		}
	}
	for _, text := range []string{"", "M", "-1G", "0", "1E", "lots", "1e300G", "inf", "nan", "9999999T", "1 2", "512", "0.5"} {
		var b byteSize
		if err := b.Set(text); err == nil {
			t.Errorf("%q is accepted as %d", text, int64(b))
		}
	}
}

func TestLifetime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "0.5d": 12 * time.Hour, "100ms": 100 * time.Millisecond,
	} {
		var l lifetime
		if err := l.Set(text); err != nil || time.Duration(l) != want {
			t.Errorf("%s = %v, %v, want %v", text, time.Duration(l), err, want)
		}
	}
	for _, text := range []string{"", "0", "-1h", "soon", "7", "d", "1d2h", "99999999d"} {
		var l lifetime
		if err := l.Set(text); err == nil {
			t.Errorf("%q is accepted as %v", text, time.Duration(l))
		}
	}
}

func TestPairs(t *testing.T) {
	env := func(k string) (string, bool) { return "the " + k, k != "UNSET" }
	got, err := pairs([]string{"A=1", "B=x=y", "C=", "D", "UNSET", "1 E=z"}, "-e", env)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "1", "B": "x=y", "C": "", "D": "the D", "1 E": "z"}, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"=1", "D"} {
		if _, err := pairs([]string{bad}, "--label", nil); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestParsePair(t *testing.T) {
	for text, want := range map[string]pathPair{
		"a": {"a", ""}, "a:/b": {"a", "/b"}, "a:b:/c": {"a:b", "/c"}, "-:x": {"-", "x"}, "x:-": {"x", "-"},
	} {
		got, err := parsePair(text)
		if err != nil || got != want {
			t.Errorf("%q = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", ":", ":b", "a:"} {
		if got, err := parsePair(bad); err == nil {
			t.Errorf("%q is accepted as %v", bad, got)
		}
	}
}

func TestParseLocation(t *testing.T) {
	for text, want := range map[string]location{
		"lab:/tmp": {"lab", "/tmp"}, "./a:b": {"", "./a:b"}, "/a:b": {"", "/a:b"}, "-": {"", "-"}, ":x": {"", ":x"}, "a": {"", "a"},
		"lab:/a:b": {"lab", "/a:b"},
	} {
		if got := parseLocation(text); got != want {
			t.Errorf("%q = %v, want %v", text, got, want)
		}
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		12 * time.Millisecond: "12 ms", 1500 * time.Millisecond: "1.5 s", 95 * time.Second: "95 s", 59 * time.Minute: "59 min",
		30 * time.Hour: "30 h", 72 * time.Hour: "3 d",
	} {
		if got := duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 512 << 20: "512 MiB", 1 << 40: "1 TiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	if got := printableLines("a\n\tb\x1b[2J"); got != "a\n\tb?[2J" {
		t.Errorf("lines: %q", got)
	}
	if got := printable("a\x1b[2Jb\tc\u009bd\ufffd"); got != "a?[2Jb?c?d?" {
		t.Errorf("printable lets %q through", got)
	}
}
