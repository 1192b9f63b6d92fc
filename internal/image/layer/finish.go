package layer

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// ResolvConf is a sandbox's /etc/resolv.conf: the resolver that every sandbox sees at the same address.
const ResolvConf = "nameserver 10.88.0.1\n"

// Hosts is what /etc/hosts has before a sandbox adds its own name.
const Hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"

// Finish makes an image's tree one that a sandbox can start from: the directories that something is mounted on, the files in /etc by
// which a machine knows itself and its resolver, and the image's working directory. It needs nothing of the image: no shell, no library
// and no list of users.
func (t *Tree) Finish(workdir string) error {
	for _, dir := range []struct {
		name string
		mode uint32
	}{{"proc", 0o755}, {"sys", 0o755}, {"dev", 0o755}, {"tmp", 0o1777}, {"run", 0o755}, {"run/shoal", 0o755}} {
		if err := t.realDir(dir.name, dir.mode); err != nil {
			return failed("make", dir.name, err)
		}
	}
	etc, err := t.dir("etc")
	if err != nil {
		// A link that leads nowhere in the image leads nowhere at all.
		if err := t.realDir("etc", 0o755); err != nil {
			return failed("make", "etc", err)
		}
		if etc, err = t.dir("etc"); err != nil {
			return failed("make", "etc", err)
		}
	}
	for _, file := range []struct {
		name, data string
		always     bool
	}{{"resolv.conf", ResolvConf, true}, {"hostname", "sandbox\n", true}, {"hosts", Hosts, false}} {
		if err := t.etcFile(etc.fd, file.name, file.data, file.always); err != nil {
			return failed("write", "etc/"+file.name, err)
		}
	}
	return t.workdir(workdir)
}

// realDir sees to it that a name is a directory and not a link to one: something is mounted there.
func (t *Tree) realDir(path string, mode uint32) error {
	above, base := split(path)
	d, err := t.dir(above)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstatat(d.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	if err == nil {
		err = t.remove(d.fd, base, 0)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := unix.Mkdirat(d.fd, base, 0o755); err != nil {
		return err
	}
	if err := impliedDir(d.fd, base); err != nil {
		return err
	}
	return unix.Fchmodat(d.fd, base, mode, 0)
}

// etcFile writes a file of /etc: always, or if there is no regular file with content.
func (t *Tree) etcFile(etc int, name, data string, always bool) error {
	var st unix.Stat_t
	err := unix.Fstatat(etc, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && !always && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size > 0 {
		return nil
	}
	if err == nil {
		err = t.remove(etc, name, 0)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	fd, err := unix.Openat(etc, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(writeAll(fd, []byte(data), 0), unix.Fchown(fd, 0, 0), unix.Fchmod(fd, 0o644), unix.Close(fd))
}

// workdir makes the image's working directory if it has none of that name.
func (t *Tree) workdir(path string) error {
	clean, err := cleanName(path)
	if err != nil {
		return err
	}
	if clean == "" {
		return nil
	}
	if _, err := t.parent(clean); err != nil {
		return refuse("the image's WORKDIR %s is no directory and can't be made: %s", clip(path), strings.TrimPrefix(publicText(err), clip(clean)+": "))
	}
	return nil
}
