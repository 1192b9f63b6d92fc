package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"shoal/internal/core"
	"shoal/internal/image/layer"
)

// tree writes into a finished root tree. Its paths never lead out of it: a symlink of a package that would is an error.
type tree struct {
	root     *os.Root
	ownerUID int
}

// finish makes a tree what a sandbox expects, takes out what is the host's, and returns its packages.
func finish(dir string, ownerUID int, j job) ([]core.Package, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the tree: %w", err)
	}
	defer func() { _ = root.Close() }()
	t := tree{root: root, ownerUID: ownerUID}
	if err := t.clean(); err != nil {
		return nil, err
	}
	if err := t.configure(j); err != nil {
		return nil, err
	}
	status, err := root.ReadFile("var/lib/dpkg/status")
	if err != nil {
		return nil, fmt.Errorf("read the list of packages: %w", err)
	}
	packages := parseStatus(status)
	if len(packages) == 0 {
		return nil, errors.New("read the list of packages: it is empty")
	}
	return packages, nil
}

// clean removes what the bootstrap left behind: its settings and sources, caches, logs and device nodes.
func (t tree) clean() error {
	for _, dir := range []string{"etc/apt/sources.list.d", "var/lib/apt/lists", "var/cache/apt", "tmp", "var/tmp", "run", "dev"} {
		if err := t.empty(dir); err != nil {
			return err
		}
	}
	for _, file := range []string{
		"etc/apt/sources.list", "etc/apt/auth.conf", "etc/apt/apt.conf.d/99mmdebstrap", "etc/apt/apt.conf.d/00mmdebstrap",
		"etc/dpkg/dpkg.cfg.d/99mmdebstrap", "etc/hostname", "var/lib/dbus/machine-id", "usr/sbin/policy-rc.d",
		"var/log/dpkg.log", "var/log/bootstrap.log", "var/log/alternatives.log", "var/log/apt/history.log",
		"var/log/apt/term.log", "var/log/apt/eipp.log.xz", "var/cache/debconf/config.dat-old",
		"var/cache/debconf/templates.dat-old", "var/lib/dpkg/status-old", "etc/passwd-", "etc/group-", "etc/shadow-",
		"etc/gshadow-", "etc/subuid-", "etc/subgid-", "root/.bash_history",
	} {
		if err := t.root.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", file, err)
		}
	}
	return nil
}

// empty removes all that is in a directory of the tree, or makes it.
func (t tree) empty(dir string) error {
	d, err := t.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return t.mkdir(dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close()
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, name := range names {
		if err := t.root.RemoveAll(dir + "/" + name); err != nil {
			return fmt.Errorf("remove %s/%s: %w", dir, name, err)
		}
	}
	return nil
}

// configure writes the files that make a tree a sandbox's.
func (t tree) configure(j job) error {
	for _, dir := range []struct {
		name string
		mode os.FileMode
	}{
		{"tmp", 0o777 | os.ModeSticky},
		{"var/tmp", 0o777 | os.ModeSticky},
		{"run/lock", 0o777 | os.ModeSticky},
		{"run/shoal", 0o755},
		{"dev/shm", 0o777 | os.ModeSticky},
		{"dev/pts", 0o755},
		{"proc", 0o755},
		{"sys", 0o755},
		{"var/lib/apt/lists/partial", 0o700},
		{"var/cache/apt/archives/partial", 0o700},
		// Some packages' scripts link manual pages and fail without the directories, though the pages are left out.
		{"usr/share/man/man1", 0o755},
		{"usr/share/man/man5", 0o755},
		{"usr/share/man/man7", 0o755},
		{"usr/share/man/man8", 0o755},
	} {
		if err := t.mkdir(dir.name, dir.mode); err != nil {
			return err
		}
	}
	for _, file := range t.files(j) {
		if err := t.write(file.name, file.data); err != nil {
			return err
		}
	}
	return nil
}

type treeFile struct{ name, data string }

// files are the contents of what configure writes.
func (t tree) files(j job) []treeFile {
	var stanzas []string
	for _, s := range j.distribution.public(j.arch) {
		stanzas = append(stanzas, fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\nSigned-By: %s\n",
			s.URI, s.Suite, strings.Join(s.Components, " "), j.distribution.insideKeyring))
	}
	return []treeFile{
		{"etc/hostname", "sandbox\n"},
		{"etc/hosts", "127.0.0.1\tlocalhost\n127.0.1.1\tsandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n"},
		{"etc/resolv.conf", layer.ResolvConf},
		// Empty says "not yet set": each sandbox gets its own.
		{"etc/machine-id", ""},
		{"etc/default/locale", "LANG=C.UTF-8\n"},
		{"etc/environment", "LANG=C.UTF-8\nPATH=\"" + environment()["PATH"] + "\"\n"},
		{"etc/apt/sources.list.d/" + j.distribution.id + ".sources", strings.Join(stanzas, "\n")},
		{"etc/apt/apt.conf.d/90sandbox", "Acquire::Languages \"none\";\n"},
		{"etc/dpkg/dpkg.cfg.d/90sandbox", strings.Join(excluded(), "\n") + "\nforce-unsafe-io\n"},
		// The sandbox's Python is nobody else's: pip may install into it, which Debian refuses for a shared machine's sake.
		{"etc/pip.conf", "[global]\nbreak-system-packages = true\n"},
		// Services don't start by themselves when a package is installed: there is no init system to start them.
		{"usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n"},
	}
}

// mkdir makes a directory and sets its mode; its new parents get 0755.
func (t tree) mkdir(name string, mode os.FileMode) error {
	parts := strings.Split(name, "/")
	for i := range parts {
		path := strings.Join(parts[:i+1], "/")
		err := t.root.Mkdir(path, 0o755)
		if errors.Is(err, fs.ErrExist) && i < len(parts)-1 {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make %s: %w", path, err)
		}
		if err == nil {
			if err := t.root.Lchown(path, t.ownerUID, t.ownerUID); err != nil {
				return fmt.Errorf("make %s: %w", path, err)
			}
		}
	}
	if err := t.root.Chmod(name, mode); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	return nil
}

// write replaces a file, whatever was there, by one of root's. Programs below usr/sbin may be run.
func (t tree) write(name, data string) error {
	if err := t.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(name, "usr/sbin/") {
		mode = 0o755
	}
	if err := t.root.WriteFile(name, []byte(data), mode); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := t.root.Lchown(name, t.ownerUID, t.ownerUID); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := t.root.Chmod(name, mode); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
