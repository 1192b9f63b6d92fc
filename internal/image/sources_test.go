package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSources(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, data string
		want             []source
	}{
		{
			"deb822 with comments, several suites and a disabled stanza", "debian.sources",
			"# made by hand\nTypes: deb deb-src\n# a comment inside\nURIs: http://deb.debian.org/debian\nSuites: bookworm bookworm-updates\n" +
				"Components: main\n contrib\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\n" +
				"Types: deb\nURIs: http://off.example/\nSuites: x\nComponents: main\nEnabled: no\n\n" +
				"Types: deb-src\nURIs: http://source.example/\nSuites: x\nComponents: main\n",
			[]source{
				{"http://deb.debian.org/debian", "bookworm", []string{"main", "contrib"}, debianKeyring},
				{"http://deb.debian.org/debian", "bookworm-updates", []string{"main", "contrib"}, debianKeyring},
			},
		},
		{
			"deb822 with a key of its own and another architecture", "x.sources",
			"Types: deb\nURIs: http://a.example/\nSuites: s\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n\n" +
				"Types: deb\nURIs: http://b.example/\nSuites: s\nComponents: main\nArchitectures: arm64\n",
			[]source{{"http://a.example/", "s", []string{"main"}, "inline"}},
		},
		{
			"one-line with options, comments and source packages", "sources.list",
			"# deb http://commented.example x main\ndeb-src http://source.example x main\n" +
				"deb [arch=amd64,arm64 signed-by=/k.gpg] http://a.example/debian bookworm main contrib # why\n" +
				"deb [arch=arm64] http://b.example/debian bookworm main\n  deb\thttp://c.example/d  bookworm/updates   main\n" +
				"deb [arch=amd64 http://broken.example x main\ndebris\ndeb\n",
			[]source{
				{"http://a.example/debian", "bookworm", []string{"main", "contrib"}, "/k.gpg"},
				{"http://c.example/d", "bookworm/updates", []string{"main"}, ""},
			},
		},
		{"nothing", "sources.list", "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, parseSources(test.file, []byte(test.data), "amd64")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseSources(f *testing.F) {
	f.Add("x.sources", "Types: deb\nURIs: u\nSuites: s\nComponents: c\n")
	f.Add("x.list", "deb [a=b] u s c")
	f.Fuzz(func(t *testing.T, name, data string) {
		for _, s := range parseSources(name, []byte(data), "amd64") {
			if s.check() == nil && strings.Count(s.line("/k"), "\n") != 1+strings.Count(strings.Join(s.Components, ""), "\n") {
				t.Errorf("%q becomes more than one line", s)
			}
		}
	})
}

func TestOwnSources(t *testing.T) {
	t.Parallel()
	d, _ := newDistribution("debian", "bookworm")
	all := []source{
		{"http://mirror.example/debian", "stable", []string{"main", "non-free"}, ""},
		{"http://mirror.example/debian", "bookworm-updates", []string{"main"}, debianKeyring},
		{"http://mirror.example/debian", "bookworm-updates", []string{"main"}, debianKeyring},
		{"http://mirror.example/debian", "bookworm-backports", []string{"main"}, ""},
		{"https://deb.nodesource.com/node_20.x", "nodistro", []string{"main"}, "/usr/share/keyrings/nodesource.gpg"},
		{"https://download.docker.com/linux/debian", "bookworm", []string{"stable"}, "/etc/apt/keyrings/docker.asc"},
		{"https://vendor.example/debian", "bookworm", []string{"main"}, ""},
		{"https://packages.cloud.google.com/apt", "cloud-sdk-bookworm", []string{"main"}, ""},
		{"http://keyed.example/debian", "bookworm", []string{"main"}, "/etc/apt/keyrings/vendor.gpg"},
		{"http://bad uri", "bookworm", []string{"main"}, ""},
	}
	want := []source{
		{"http://mirror.example/debian", "bookworm", []string{"main", "non-free"}, ""},
		{"http://mirror.example/debian", "bookworm-updates", []string{"main"}, debianKeyring},
	}
	got := d.own(all, func(s source) string {
		if strings.Contains(s.URI, "vendor") {
			return "Vendor Inc"
		}
		return "Debian"
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHostDistribution(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, release string
		id, codename  string
		ok            bool
	}{
		{"debian", "ID=debian\nVERSION_CODENAME=bookworm\n", "debian", "bookworm", true},
		{"ubuntu", "ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=\"noble\"\n", "ubuntu", "noble", true},
		{"mint", "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_CODENAME=wilma\nUBUNTU_CODENAME=noble\n", "ubuntu", "noble", true},
		{"fedora", "ID=fedora\n", "", "", false},
		{"debian without a name", "ID=debian\n", "", "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d, ok := hostDistribution([]byte(test.release))
			if ok != test.ok || d.id != test.id || d.codename != test.codename {
				t.Errorf("got %q %q %v, want %q %q %v", d.id, d.codename, ok, test.id, test.codename, test.ok)
			}
		})
	}
}

func TestOriginOf(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	lists := filepath.Join(root, "var/lib/apt/lists")
	if err := os.MkdirAll(lists, 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(lists, "mirror.example_a%5fb_debian_dists_bookworm_InRelease")
	if err := os.WriteFile(name, []byte("-----BEGIN PGP SIGNED MESSAGE-----\nOrigin: Debian\nLabel: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := originOf(root, source{URI: "http://mirror.example/a_b/debian/", Suite: "bookworm"}); got != "Debian" {
		t.Errorf("origin is %q, want Debian", got)
	}
	if got := originOf(root, source{URI: "http://other.example/debian", Suite: "bookworm"}); got != "" {
		t.Errorf("origin of an unknown repository is %q", got)
	}
}

func TestDownloadOptions(t *testing.T) {
	t.Parallel()
	dump := `Acquire "";
Acquire::http "";
Acquire::http::Proxy "http://proxy.example:3128/";
Acquire::http::Proxy::deb.debian.org "DIRECT";
Acquire::https::CaInfo "/etc/ssl/corp.pem";
Acquire::Check-Valid-Until "false";
Acquire::Languages "";
DPkg::Post-Invoke:: "rm -rf /";
APT::Update::Pre-Invoke:: "curl evil";
Acquire::http::Empty "";
`
	want := []string{
		`Acquire::http::Proxy "http://proxy.example:3128/"`, `Acquire::http::Proxy::deb.debian.org "DIRECT"`,
		`Acquire::https::CaInfo "/etc/ssl/corp.pem"`, `Acquire::Check-Valid-Until "false"`,
	}
	if diff := cmp.Diff(want, downloadOptions(dump)); diff != "" {
		t.Error(diff)
	}
}

func TestPublicSourcesNameNoHost(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"debian", "ubuntu"} {
		d, _ := newDistribution(id, "x")
		for _, arch := range []string{"amd64", "arm64"} {
			for _, s := range d.public(arch) {
				if err := s.check(); err != nil {
					t.Errorf("%s %s: %v", id, arch, err)
				}
				if !strings.HasSuffix(strings.Split(s.URI, "/")[2], "."+map[string]string{"debian": "debian.org", "ubuntu": "ubuntu.com"}[id]) {
					t.Errorf("%s: %s is not a public mirror", id, s.URI)
				}
			}
		}
	}
}
