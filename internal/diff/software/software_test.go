package software_test

import (
	"bytes"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
	"shoal/internal/diff/software"
)

func TestFind(t *testing.T) {
	t.Parallel()
	const site = "/usr/lib/python3/dist-packages"
	for name, want := range map[string]software.Manifest{
		"/var/lib/dpkg/status":                            {core.PackageDpkg, "/"},
		"/var/lib/dpkg/status.d/libc6":                    {core.PackageDpkg, "/"},
		"/var/lib/dpkg/status.d/libc6.md5sums":            {},
		"/var/lib/dpkg/status-old":                        {},
		site + "/six-1.0.dist-info/METADATA":              {core.PackagePip, site},
		site + "/six.egg-info/PKG-INFO":                   {core.PackagePip, site},
		site + "/six.egg-info":                            {core.PackagePip, site},
		site + "/six/METADATA":                            {},
		"/usr/lib/node_modules/npm/package.json":          {core.PackageNpm, "/usr/lib/node_modules"},
		"/srv/node_modules/@a/b/package.json":             {core.PackageNpm, "/srv/node_modules"},
		"/srv/node_modules/a/node_modules/b/package.json": {},
		"/srv/node_modules/a/lib/package.json":            {},
		"/srv/package.json":                               {},
		"/root/.cargo/.crates.toml":                       {core.PackageCargo, "/root/.cargo"},
	} {
		got, ok := software.Find(name)
		if got != want || ok != (want != software.Manifest{}) {
			t.Errorf("%s: %+v %v", name, got, ok)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for name, tc := range map[string]struct {
		manager core.PackageManager
		text    string
		want    []software.Package
	}{
		"dpkg": {
			core.PackageDpkg,
			"Package: a\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:2-3\nDescription: x\n Package: no\n\n" +
				"Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\nPackage: b\nVersion: 2\n" +
				"\nPackage: a\nStatus: install ok installed\nArchitecture: i386\nVersion: 9\n\nPackage: \x01\nVersion: 1\n\nVersion: 4\n\n",
			[]software.Package{{"a", "1:2-3"}, {"b", "2"}, {"a:i386", "9"}},
		},
		"dpkg, long lines": {core.PackageDpkg, "Package: a\nDepends: " + long + "\nVersion: 1\n\nPackage: " + long + "\n", []software.Package{{"a", "1"}}},
		"pip":              {core.PackagePip, "Metadata-Version: 2.1\nName: Typing_Extensions\nVersion: 4.1\n\nName: no\n", []software.Package{{"typing-extensions", "4.1"}}},
		"pip, none":        {core.PackagePip, "\nName: no\nVersion: 1\n", nil},
		"npm":              {core.PackageNpm, `{"name": "@a/b", "version": "1.0.0", "x": [1]}`, []software.Package{{"@a/b", "1.0.0"}}},
		"npm, wrong":       {core.PackageNpm, `{"name": 1}`, nil},
		"npm, deep":        {core.PackageNpm, strings.Repeat("[", 100_000), nil},
		"npm, a newline":   {core.PackageNpm, `{"name": "a\nb", "version": "1"}`, nil},
		"cargo": {
			core.PackageCargo, "[v1]\n\"ripgrep 14.1.0 (registry+https://x)\" = [\"rg\"]\n\"broken\" = []\n",
			[]software.Package{{"ripgrep", "14.1.0"}},
		},
	} {
		got := software.Manifest{Manager: tc.manager}.Parse(strings.NewReader(tc.text))
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestProgram reads the test's own binary.
func TestProgram(t *testing.T) {
	t.Parallel()
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, ok := software.Program(f)
	info, _ := debug.ReadBuildInfo()
	if !ok || got.Name != info.Path {
		t.Errorf("%+v %v, want %s", got, ok, info.Path)
	}
	for _, bad := range []string{"", "\x7fELF", "\x7fELF" + strings.Repeat("\xff", 1000), strings.Repeat("\x00", 5000)} {
		if got, ok := software.Program(strings.NewReader(bad)); ok {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("Package: a\nStatus: install ok installed\nVersion: 1\n\nPackage: b\n x\n")
	f.Add("Name: A.b\nVersion: 1\n\n")
	f.Add(`{"name": "a", "version": "2"}`)
	f.Add("[v1]\n\"a 1 (x)\" = []\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range []core.PackageManager{core.PackageDpkg, core.PackagePip, core.PackageNpm, core.PackageCargo, core.PackageGo} {
			for _, p := range (software.Manifest{Manager: m}).Parse(strings.NewReader(text)) {
				if p.Name == "" || strings.ContainsAny(p.Name+p.Version, "\n\x00 ") || len(p.Name) > 300 {
					t.Errorf("%s: %q", m, p)
				}
			}
		}
	})
}

func FuzzProgram(f *testing.F) {
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(exe[:min(len(exe), 64<<10)])
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := software.Program(bytes.NewReader(b)); ok && p.Name == "" {
			t.Error("a program without a name")
		}
	})
}
