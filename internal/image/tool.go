package image

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"shoal/internal/core"
	"shoal/internal/image/jail"
)

// tool is a program of the host that can make a tree.
type tool string

const (
	mmdebstrap  tool = "mmdebstrap"
	debootstrap tool = "debootstrap"
)

// findTool returns the tool to use and its path, by a lookup like exec.LookPath.
func findTool(look func(string) (string, error)) (tool, string, error) {
	for _, name := range []string{"apt-get", "dpkg", "apt-config"} {
		if _, err := look(name); err != nil {
			return "", "", core.Wrap(core.CodeUnsupported, err,
				"this host has no apt, which makes templates from Debian packages; import an image in its place: `shoal template import NAME REF`")
		}
	}
	for _, t := range []tool{mmdebstrap, debootstrap} {
		if path, err := look(string(t)); err == nil {
			return t, path, nil
		}
	}
	return "", "", core.Errorf(core.CodeUnsupported,
		"this host has neither mmdebstrap nor debootstrap: `apt-get install mmdebstrap`")
}

// The names below jail.Dir of what a bootstrap needs there.
const (
	targetName   = "target"
	archivesName = "archives"
	sourcesName  = "shoal.list"
	authName     = "auth.conf"
	scriptName   = "bootstrap.sh"
)

// job is one bootstrap as its tool sees it.
type job struct {
	distribution distribution
	arch         string
	sources      []source
	options      []string
	recipe       recipe
}

// list is the content of the sources file. Every repository is held to the distribution's own keys.
func (j job) list() []byte {
	var b bytes.Buffer
	for _, s := range j.sources {
		b.WriteString(s.line(j.distribution.keyring))
	}
	return b.Bytes()
}

// aptOptions are apt settings for the time of the bootstrap only.
func (j job) aptOptions() []string {
	return append([]string{
		`Dir::Etc::netrc "` + filepath.Join(jail.Dir, authName) + `"`,
		`Acquire::Retries "3"`,
		`Acquire::Languages "none"`,
		`APT::Install-Recommends "false"`,
		`APT::Keep-Downloaded-Packages "true"`,
	}, j.options...)
}

// proxies are the environment variables that tell debootstrap's wget what apt's options tell apt.
func (j job) proxies() []string {
	var out []string
	for _, option := range j.options {
		name, value, _ := strings.Cut(option, " ")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "acquire::http::proxy":
			out = append(out, "http_proxy="+value)
		case "acquire::https::proxy":
			out = append(out, "https_proxy="+value)
		}
	}
	return out
}

// excluded are the files of packages that a sandbox has no use for: manuals, translations and documents, but not the
// licences. It stays in the tree, so that packages installed later are as quick.
func excluded() []string {
	return []string{
		"path-exclude=/usr/share/man/*",
		"path-exclude=/usr/share/locale/*",
		"path-include=/usr/share/locale/locale.alias",
		"path-exclude=/usr/share/doc/*",
		"path-include=/usr/share/doc/*/copyright",
		"path-exclude=/usr/share/info/*",
		"path-exclude=/usr/share/lintian/*",
	}
}

// addUser is a shell command that makes the recipe's user in the tree at "$1". sudo is told in a file of its
// own, and the home directory gets what /etc/skel holds.
func (j job) addUser() string {
	user := j.recipe.user
	return `chroot "$1" useradd --create-home --uid 1000 --user-group --shell /bin/bash ` + user +
		` && printf '%s ALL=(ALL:ALL) NOPASSWD: ALL\n' ` + user + ` >"$1/etc/sudoers.d/90-` + user + `"` +
		` && chmod 0440 "$1/etc/sudoers.d/90-` + user + `"`
}

// mmdebstrapArgs returns the command line of mmdebstrap at path.
func (j job) mmdebstrapArgs(path string) []string {
	archives := filepath.Join(jail.Dir, archivesName)
	args := []string{
		path, "--mode=root", "--format=directory", "--variant=minbase", "--verbose",
		"--architectures=" + j.arch,
		"--include=" + strings.Join(j.recipe.packages, ","),
		// The keys are named in the sources file, and the architecture is the host's.
		"--skip=check/signed-by", "--skip=check/qemu",
		// Downloaded packages are kept for the next tree: the cache's directory is mounted where apt puts them.
		"--skip=download/empty", "--skip=essential/unlink",
		`--setup-hook=mkdir -p "$1/var/cache/apt/archives" && mount --bind ` + archives + ` "$1/var/cache/apt/archives"`,
		`--customize-hook=umount "$1/var/cache/apt/archives"`,
		// A tree that a crash cuts short is thrown away whole, so nothing needs to reach the disk package by package.
		"--dpkgopt=force-unsafe-io",
	}
	if j.recipe.user != "" {
		args = append(args, "--customize-hook="+j.addUser())
	}
	if slices.ContainsFunc(j.sources, func(s source) bool { return strings.HasPrefix(s.URI, "file:") }) {
		// Packages that need no download have to be visible inside the tree while they are installed.
		args = append(args, "--hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount")
	}
	for _, option := range excluded() {
		args = append(args, "--dpkgopt="+option)
	}
	for _, option := range j.aptOptions() {
		args = append(args, "--aptopt="+option)
	}
	return append(args, j.distribution.codename, filepath.Join(jail.Dir, targetName), filepath.Join(jail.Dir, sourcesName))
}
