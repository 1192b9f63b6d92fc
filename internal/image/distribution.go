package image

import (
	"path/filepath"
	"slices"
	"strings"
)

// distribution is one release of Debian or Ubuntu.
type distribution struct {
	// id is "debian" or "ubuntu".
	id       string
	codename string
	// keyring is the host's copy of the distribution's keys. Only what they sign gets into a tree.
	keyring string
	// insideKeyring is where the tree's own copy lies.
	insideKeyring string
}

const (
	debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	ubuntuKeyring = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
)

// newDistribution returns the release of a distribution that we know; ok is false for any other.
func newDistribution(id, codename string) (d distribution, ok bool) {
	switch id {
	case "debian":
		return distribution{id: id, codename: codename, keyring: debianKeyring, insideKeyring: debianKeyring}, codename != ""
	case "ubuntu":
		return distribution{id: id, codename: codename, keyring: ubuntuKeyring, insideKeyring: ubuntuKeyring}, codename != ""
	}
	return distribution{}, false
}

// hostDistribution reads os-release. A derivative stands for what it derives from, where it says the codename.
func hostDistribution(osRelease []byte) (d distribution, ok bool) {
	fields := map[string]string{}
	for line := range strings.SplitSeq(string(osRelease), "\n") {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			fields[key] = strings.Trim(value, `"'`)
		}
	}
	if d, ok := newDistribution(fields["ID"], fields["VERSION_CODENAME"]); ok {
		return d, true
	}
	like := strings.Fields(fields["ID_LIKE"])
	if slices.Contains(like, "ubuntu") {
		return newDistribution("ubuntu", fields["UBUNTU_CODENAME"])
	}
	if slices.Contains(like, "debian") {
		return newDistribution("debian", fields["DEBIAN_CODENAME"])
	}
	return distribution{}, false
}

// suites are the suites of a release that make up a current tree.
func (d distribution) suites() []string {
	return []string{d.codename, d.codename + "-updates", d.codename + "-security"}
}

// components are the archive areas that a distribution itself serves.
func (d distribution) components() []string {
	if d.id == "ubuntu" {
		return []string{"main", "restricted", "universe", "multiverse"}
	}
	return []string{"main", "contrib", "non-free", "non-free-firmware"}
}

// own returns which of the host's sources are the distribution's, in their order and once each. origin tells what the
// host's last download of a repository's release file says of its origin, empty if unknown.
func (d distribution) own(all []source, origin func(source) string) []source {
	var out []source
	seen := map[string]bool{}
	for _, s := range all {
		s.Suite = d.named(s.Suite)
		if !slices.Contains(d.suites(), s.Suite) || s.check() != nil || !d.signs(s.SignedBy) {
			continue
		}
		if from := origin(s); from != "" && !strings.EqualFold(from, d.id) {
			continue
		}
		s.Components = slices.DeleteFunc(slices.Clone(s.Components), func(c string) bool {
			return !slices.Contains(d.components(), c)
		})
		key := s.URI + " " + s.Suite
		if len(s.Components) == 0 || seen[key] {
			continue
		}
		seen[key] = true
		out = append(out, s)
	}
	return out
}

// named turns the names that move with a release into the codename: a tree says what it is.
func (d distribution) named(suite string) string {
	if d.id != "debian" {
		return suite
	}
	if rest, ok := strings.CutPrefix(suite, "stable"); ok && (rest == "" || rest[0] == '-') {
		return d.codename + rest
	}
	return suite
}

// signs reports whether a Signed-By value may be the distribution's own keys: unset, or a keyring named after it.
func (d distribution) signs(signedBy string) bool {
	return signedBy == "" || strings.HasPrefix(filepath.Base(signedBy), d.id+"-archive")
}

// public returns the sources that a tree names: the distribution's public mirrors, whatever mirror the host uses, so that
// nothing of the host's network is told to a guest.
func (d distribution) public(arch string) []source {
	main, security := "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"
	components := []string{"main"}
	if d.id == "ubuntu" {
		main, security = "http://archive.ubuntu.com/ubuntu", "http://security.ubuntu.com/ubuntu"
		if arch != "amd64" && arch != "i386" {
			main, security = "http://ports.ubuntu.com/ubuntu-ports", "http://ports.ubuntu.com/ubuntu-ports"
		}
		components = []string{"main", "universe"}
	}
	return []source{
		{URI: main, Suite: d.codename, Components: components},
		{URI: main, Suite: d.codename + "-updates", Components: components},
		{URI: security, Suite: d.codename + "-security", Components: components},
	}
}
