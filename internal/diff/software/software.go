// Package software reads what package managers write down about what is installed: dpkg, pip, npm and cargo, and what Go programs say of
// themselves.
//
// Whoever wrote these files is a stranger. Each parser takes a bounded reader and has bounds of its own, keeps what is well formed and
// passes over the rest, and never fails: a file that makes no sense has no packages. It must not know of trees or what the names are for.
// Start reading here.
package software

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"shoal/internal/core"
)

// The bounds: of a file that lists many packages, of one that is about one, and of what is kept of them.
const (
	MaxList     = 64 << 20
	MaxManifest = 1 << 20
	maxPackages = 100_000
	maxText     = 256
)

// Package is one that is installed.
type Package struct{ Name, Version string }

// ok reports whether a package can be shown. Names and versions have no spaces or control characters anywhere.
func (p Package) ok() bool { return p.Name != "" && shown(p.Name) && shown(p.Version) }

func shown(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) })
}

// Manifest is a file that says what is installed in a place.
type Manifest struct {
	Manager core.PackageManager
	// Place is where the packages are.
	Place string
}

// Find returns what a file says by its absolute path, if it is one that says something. Go programs are told by their content alone.
func Find(name string) (Manifest, bool) {
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	switch {
	case name == "/var/lib/dpkg/status", strings.HasPrefix(name, "/var/lib/dpkg/status.d/") && !strings.HasSuffix(base, ".md5sums"):
		return Manifest{core.PackageDpkg, "/"}, true
	case base == "METADATA" && strings.HasSuffix(dir, ".dist-info"), base == "PKG-INFO" && strings.HasSuffix(dir, ".egg-info"):
		return Manifest{core.PackagePip, path.Dir(dir)}, true
	case strings.HasSuffix(base, ".egg-info"):
		return Manifest{core.PackagePip, dir}, true
	case base == "package.json":
		return npmPlace(dir)
	case base == ".crates.toml":
		return Manifest{core.PackageCargo, dir}, true
	}
	return Manifest{}, false
}

// npmPlace returns the directory of packages that a package's directory is in, if that is not another package's own.
func npmPlace(dir string) (Manifest, bool) {
	place := path.Dir(dir)
	if strings.HasPrefix(path.Base(place), "@") {
		place = path.Dir(place)
	}
	if path.Base(place) != "node_modules" || strings.Contains(path.Dir(place)+"/", "/node_modules/") {
		return Manifest{}, false
	}
	return Manifest{core.PackageNpm, place}, true
}
