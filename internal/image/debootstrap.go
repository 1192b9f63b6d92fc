package image

import (
	"path/filepath"
	"strings"

	"shoal/internal/image/jail"
)

// debootstrapScript returns a shell script that makes the tree with debootstrap at path, which knows one suite only, and
// then lets the tree's own apt add updates and the recipe's packages.
func (j job) debootstrapScript(path string) string {
	target := filepath.Join(jail.Dir, targetName)
	first := j.sources[0]
	for _, s := range j.sources {
		if s.Suite == j.distribution.codename {
			first = s
			break
		}
	}
	var conf []string
	for _, option := range j.aptOptions() {
		conf = append(conf, option+";")
	}
	user := ":"
	if j.recipe.user != "" {
		user = j.addUser()
	}
	return strings.Join([]string{
		"set -eu",
		"set -- " + quote(target),
		`echo "I: running apt-get update and debootstrap"`,
		strings.Join([]string{
			quote(path), "--variant=minbase", "--arch=" + quote(j.arch), "--keyring=" + quote(j.distribution.keyring),
			"--components=" + quote(strings.Join(first.Components, ",")), "--include=ca-certificates",
			"--cache-dir=" + quote(filepath.Join(jail.Dir, archivesName)), quote(first.Suite), `"$1"`, quote(first.URI),
		}, " "),
		`mount --bind ` + quote(filepath.Join(jail.Dir, archivesName)) + ` "$1/var/cache/apt/archives"`,
		`mount -t proc proc "$1/proc"`,
		`for d in null zero full random urandom tty; do [ -e "$1/dev/$d" ] || : >"$1/dev/$d"; mount --bind "/dev/$d" "$1/dev/$d"; done`,
		`printf '%s\n' ` + quote(strings.Join(conf, "\n")) + ` >"$1/etc/apt/apt.conf.d/99mmdebstrap"`,
		`printf '%s\n' ` + quote(strings.Join(append(excluded(), "force-unsafe-io"), "\n")) + ` >"$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap"`,
		`cp ` + quote(filepath.Join(jail.Dir, sourcesName)) + ` "$1/etc/apt/sources.list"`,
		`mkdir -p "$1/tmp" && cp ` + quote(filepath.Join(jail.Dir, authName)) + ` "$1/tmp/"`,
		`printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d" && chmod 0755 "$1/usr/sbin/policy-rc.d"`,
		`rm -f "$1/etc/resolv.conf" && cp /etc/resolv.conf "$1/etc/resolv.conf"`,
		`echo "I: installing remaining packages inside the chroot..."`,
		`chroot "$1" apt-get -q update`,
		`chroot "$1" apt-get -q --yes dist-upgrade`,
		`chroot "$1" apt-get -q --yes install ` + strings.Join(j.recipe.packages, " "),
		user,
		`echo "I: cleaning up"`,
		`for d in dev/null dev/zero dev/full dev/random dev/urandom dev/tty proc var/cache/apt/archives; do umount "$1/$d"; done`,
		"",
	}, "\n")
}

// quote makes s one word of a shell script.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
