package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

func TestFindTool(t *testing.T) {
	t.Parallel()
	apt := []string{"apt-get", "dpkg", "apt-config"}
	tests := []struct {
		name    string
		have    []string
		want    tool
		message string
	}{
		{"both", append([]string{"mmdebstrap", "debootstrap"}, apt...), mmdebstrap, ""},
		{"the old one", append([]string{"debootstrap"}, apt...), debootstrap, ""},
		{"neither", apt, "", "apt-get install mmdebstrap"},
		{"no apt", []string{"mmdebstrap"}, "", "shoal template import"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, path, err := findTool(func(name string) (string, error) {
				for _, have := range test.have {
					if have == name {
						return "/bin/" + name, nil
					}
				}
				return "", exec.ErrNotFound
			})
			if test.message != "" {
				var e *core.Error
				if !errors.As(err, &e) || e.Code != core.CodeUnsupported || !strings.Contains(e.Message, test.message) {
					t.Fatalf("got %v, want unsupported that names %q", err, test.message)
				}
				return
			}
			if err != nil || got != test.want || path != "/bin/"+string(test.want) {
				t.Errorf("got %q %q %v", got, path, err)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		output string
		code   core.Code
		public string
	}{
		{"Err:1 http://deb.debian.org bookworm\n  Temporary failure resolving 'deb.debian.org'", core.CodeUnavailable, "resolved"},
		{"W: GPG error: NO_PUBKEY 0E98404D386FA1D9", core.CodeUnavailable, "keyring"},
		{"dpkg: write error: No space left on device", core.CodeExhausted, "space"},
		{"Could not connect to 10.9.8.7:3128 (secret-host). - connect (111: Connection refused)", core.CodeUnavailable, "reached"},
		{"E: Release file for http://x is not valid yet (invalid for another 3d)", core.CodeUnavailable, "clock"},
		{"E: Unable to locate package npm", core.CodeUnavailable, "universe"},
		{"E: something new", core.CodeInternal, "server's log"},
	}
	for _, test := range tests {
		err := explain(mmdebstrap, errors.New("exit status 25"), test.output)
		var e *core.Error
		if !errors.As(err, &e) || e.Code != test.code || !strings.Contains(e.Message, test.public) {
			t.Errorf("%q is explained as %v", test.output, err)
			continue
		}
		if strings.Contains(e.Message, "secret-host") || !strings.Contains(e.Err.Error(), test.output) {
			t.Errorf("%q: the output belongs in the cause alone: %v", test.output, err)
		}
	}
}

func TestWrapContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cause := errors.New("x")
	if got := wrapContext(ctx, cause); !errors.Is(got, cause) || core.CodeOf(got) != core.CodeInternal {
		t.Errorf("a live context changes the error to %v", got)
	}
	cancel()
	if got := wrapContext(ctx, cause); core.CodeOf(got) != core.CodeCanceled {
		t.Errorf("got %v, want canceled", got)
	}
	late, cancelLate := context.WithTimeout(t.Context(), 0)
	defer cancelLate()
	if got := wrapContext(late, cause); core.CodeOf(got) != core.CodeTimeout {
		t.Errorf("got %v, want timeout", got)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var percents []int
	var steps []string
	p := &progress{report: func(step string, percent int) { steps, percents = append(steps, step), append(percents, percent) }}
	for _, chunk := range []string{
		"I: running apt-", "get update...\nGet:1 http://x InRelease\nI: downloading packages with apt...\n",
		"I: extracting archives...\nI: installing essential packages...\nSetting up dash (1) ...\n",
		"I: installing remaining packages inside the chroot...\n0 upgraded, 2 newly installed, 0 to remove\n",
		"Get:1 http://x a\nGet:2 http://x b\nSetting up a (1) ...\nSetting up b (1) ...\nSetting up more (1) ...\nI: cleaning package lists",
	} {
		if n, err := p.Write([]byte(chunk)); n != len(chunk) || err != nil {
			t.Fatalf("Write returned %d, %v", n, err)
		}
	}
	for i := 1; i < len(percents); i++ {
		if percents[i] < percents[i-1] {
			t.Errorf("progress goes back: %v", percents)
		}
	}
	if last := steps[len(steps)-1]; last != "installing packages (2 of 2)" || percents[len(percents)-1] != 93 {
		t.Errorf("ends at %q %v", last, percents)
	}
	if out := p.output(); !strings.HasSuffix(out, "Setting up more (1) ...\nI: cleaning package lists") {
		t.Errorf("the tail is %q", out)
	}
	for i := range 3 * tailLines {
		_, _ = fmt.Fprintf(p, "line %d\n", i)
	}
	if n := len(strings.Split(p.output(), "\n")); n != tailLines {
		t.Errorf("keeps %d lines, want %d", n, tailLines)
	}
	_, _ = p.Write(make([]byte, 10*maxLine))
	if len(p.partial) > maxLine {
		t.Errorf("a line without an end grows to %d bytes", len(p.partial))
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	data := "Package: zlib1g\nStatus: install ok installed\nVersion: 1:1.2\nDescription: x\n more\n Package: trick\n\n" +
		"Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\nPackage: apt\nStatus: install ok installed\nVersion: 2.6\n"
	want := []core.Package{{Name: "apt", Version: "2.6"}, {Name: "zlib1g", Version: "1:1.2"}}
	if diff := cmp.Diff(want, parseStatus([]byte(data))); diff != "" {
		t.Error(diff)
	}
}

func TestNewJob(t *testing.T) {
	t.Parallel()
	r, err := lookup(Minimal)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newJob(BootstrapConfig{Mirror: "http://x"}, r, host{}); !core.IsCode(err, core.CodeUnsupported) {
		t.Errorf("a mirror without a suite on an unknown host gives %v", err)
	}
	if _, err := newJob(BootstrapConfig{}, r, host{}); !core.IsCode(err, core.CodeUnsupported) {
		t.Errorf("an unknown host gives %v", err)
	}
	missing := distribution{id: "debian", codename: "bookworm", keyring: "/nonexistent/keyring.gpg"}
	_, err = newJob(BootstrapConfig{}, r, host{known: true, distribution: missing})
	if !core.IsCode(err, core.CodeUnsupported) || !strings.Contains(err.Error(), "install debian-archive-keyring") {
		t.Errorf("missing keys give %v", err)
	}
	if _, err := lookup("nope"); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("an unknown recipe gives %v", err)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"plain", "two words", "it's", "$(boom)", "a\nb", ""} {
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q comes back as %q, %v", word, out, err)
		}
	}
}

func TestNewJobSources(t *testing.T) {
	t.Parallel()
	keyring := filepath.Join(t.TempDir(), "keyring.gpg")
	if err := os.WriteFile(keyring, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := distribution{id: "debian", codename: "bookworm", keyring: keyring}
	own := []source{{URI: "http://own.example/debian", Suite: "bookworm", Components: []string{"main"}}}
	tests := []struct {
		name string
		cfg  BootstrapConfig
		have []source
		want []string
	}{
		{"the host's own", BootstrapConfig{}, own, []string{"http://own.example/debian bookworm"}},
		{"the host's release, named", BootstrapConfig{Suite: "bookworm"}, own, []string{"http://own.example/debian bookworm"}},
		{"none of its own", BootstrapConfig{}, nil, []string{
			"http://deb.debian.org/debian bookworm", "http://deb.debian.org/debian bookworm-updates",
			"http://deb.debian.org/debian-security bookworm-security",
		}},
		{"a mirror", BootstrapConfig{Mirror: "http://near.example/debian"}, own, []string{"http://near.example/debian bookworm"}},
	}
	for _, test := range tests {
		j, err := newJob(test.cfg, recipe{}, host{known: true, distribution: d, arch: "amd64", sources: test.have})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var got []string
		for _, s := range j.sources {
			got = append(got, s.URI+" "+s.Suite)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
	bad := BootstrapConfig{Mirror: "http://x y"}
	if _, err := newJob(bad, recipe{}, host{known: true, distribution: d}); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("a malformed mirror gives %v", err)
	}
}
