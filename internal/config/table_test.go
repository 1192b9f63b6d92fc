package config

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/reference/config.md anew")

func TestReferenceIsFresh(t *testing.T) {
	const path = "../../docs/reference/config.md"
	if *update {
		if err := os.WriteFile(path, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Reference() {
		t.Fatalf("%s is not what the table says: run go test ./internal/config -update", path)
	}
}

// TestTable holds each row to what the others rely on.
func TestTable(t *testing.T) {
	keys := map[string]bool{}
	names := map[string]string{}
	for _, s := range currentSchema().settings {
		if keys[s.key] {
			t.Errorf("%s is there twice", s.key)
		}
		keys[s.key] = true
		if strings.Count(s.key, ".") > 1 {
			t.Errorf("%s: sections don't nest", s.key)
		}
		for _, name := range []string{s.variable(), s.flag()} {
			if other, taken := names[name]; taken {
				t.Errorf("%s and %s share the name %s", s.key, other, name)
			}
			names[name] = s.key
		}
		if s.doc == "" || s.allowed == "" || !strings.HasSuffix(s.doc, ".") {
			t.Errorf("%s lacks words", s.key)
		}
		var c Config
		if err := s.set(&c, s.def); err != nil {
			t.Errorf("%s: the default: %v", s.key, err)
		}
		if got := s.get(&c); got != s.def {
			t.Errorf("%s: the default %q is printed as %q", s.key, s.def, got)
		}
	}
	for _, name := range notSettings() {
		if key, taken := names[name]; taken {
			t.Errorf("%s is also the variable of %s", name, key)
		}
	}
}

// TestFlagHelp holds that help names the kind and default of each flag.
func TestFlagHelp(t *testing.T) {
	help := flags(t).FlagUsages()
	for _, want := range []string{"--sandbox-memory size", "(default 512M)", "--listen string", "--ttl-max duration"} {
		if !strings.Contains(help, want) {
			t.Errorf("%q is missing in\n%s", want, help)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "512M": 512 * MiB, "4G": 4 * GiB, "4Gi": 4 * GiB, "4GiB": 4 * GiB, "2T": 2 * TiB, "1500K": 1500 * KiB,
		"": -1, "M": -1, "-1": -1, "+1": -1, "1.5G": -1, "1 G": -1, "1MB": -1, "1B": -1, "1g": -1, "1GG": -1, "9999999999T": -1,
		"9223372036854775808": -1, "0x10": -1,
	} {
		got, err := ParseSize(text)
		if want < 0 {
			if err == nil {
				t.Errorf("%q was read as %d", text, got)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
		if back, err := ParseSize(got.String()); err != nil || back != got {
			t.Errorf("%q is printed as %q", text, got)
		}
	}
}

func TestDurations(t *testing.T) {
	const bad = -1
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0, "0": 0,
		"": bad, "d": bad, "7": bad, "1.5d": bad, "-1d": bad, "+1d": bad, "1d-1h": bad, "1d+1h": bad, "1d2d": bad, "1h1d": bad,
		"106752d": bad, "106751d24h": bad, "99999999999999999999d": bad, "1w": bad,
	} {
		got, err := ParseDuration(text)
		if want == bad {
			if err == nil {
				t.Errorf("%q was read as %v", text, got)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
		if back, err := ParseDuration(FormatDuration(got)); err != nil || back != got {
			t.Errorf("%q is printed as %q", text, FormatDuration(got))
		}
	}
	for d, want := range map[time.Duration]string{24 * time.Hour: "24h", time.Minute: "1m", 90 * time.Second: "1m30s", 10 * time.Second: "10s"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v is printed as %q, want %q", d, got, want)
		}
	}
}

// FuzzFile holds that no file crashes the program or is taken without its version.
func FuzzFile(f *testing.F) {
	for _, s := range []string{"version: 1\n", "", "version: 1\nlog: {level: info}\n", "a: &a [*a]\n", "? [x]\n: y\n", "version: 1\n<<: {listen: x}\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := t.TempDir() + "/shoal.yaml"
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(Sources{DefaultFile: path})
		if err == nil && (c == nil || !strings.Contains(string(data), "version")) {
			t.Fatalf("accepted: %q", data)
		}
	})
}
