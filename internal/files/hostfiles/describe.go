package hostfiles

import (
	"context"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/files"
)

// Stat describes a file as lstat does.
func (t *Tree) Stat(_ context.Context, name string) (core.FileInfo, error) {
	name, err := clean("path", name)
	if err != nil {
		return core.FileInfo{}, files.Failure(err, "path", name)
	}
	r, err := t.open()
	if err != nil {
		return core.FileInfo{}, err
	}
	defer func() { _ = r.Close() }()
	info, err := r.describe(name, path.Base(name))
	return info, files.Failure(err, "path", name)
}

// describe describes what is at a path itself.
func (r *root) describe(full, name string) (core.FileInfo, error) {
	place, err := r.at(full, unix.O_NOFOLLOW)
	if err != nil {
		return core.FileInfo{}, err
	}
	defer func() { _ = place.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(place.Fd()), &st); err != nil {
		return core.FileInfo{}, err
	}
	info := r.info(full, name, &st)
	if info.Type == core.FileSymlink {
		if info.Target, err = readlink(place); err != nil {
			return core.FileInfo{}, err
		}
	}
	return info, nil
}

func (r *root) info(full, name string, st *unix.Stat_t) core.FileInfo {
	uid, gid := r.owners.inside(st.Uid), r.owners.inside(st.Gid)
	version := ""
	if typeOf(st.Mode) == core.FileRegular {
		version = files.Version(st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
	}
	return core.FileInfo{
		Version: version, Name: name, Path: full, Type: typeOf(st.Mode), Size: st.Size, Mode: st.Mode & 0o7777, UID: uid, GID: gid,
		Owner: r.owner(user, uid), Group: r.owner(group, gid), MTime: time.Unix(st.Mtim.Sec, st.Mtim.Nsec).UTC(),
	}
}

func typeOf(mode uint32) core.FileType {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return core.FileRegular
	case unix.S_IFDIR:
		return core.FileDirectory
	case unix.S_IFLNK:
		return core.FileSymlink
	}
	return core.FileOther
}

// readlink returns what an open link says.
func readlink(place *os.File) (string, error) {
	buf := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(int(place.Fd()), "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// final returns what a link leads to; nil if that is nowhere, or a circle.
func (r *root) final(full string) *core.FinalFile {
	place, err := r.at(full, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = place.Close() }()
	var st unix.Stat_t
	if unix.Fstat(int(place.Fd()), &st) != nil {
		return nil
	}
	// The kernel says where on the host it is, without a link in it, and where the root is.
	base, err := os.Readlink(selfPath(r.File))
	if err != nil {
		return nil
	}
	where, err := os.Readlink(selfPath(place))
	if err != nil {
		return nil
	}
	inside, ok := strings.CutPrefix(where, strings.TrimSuffix(base, "/"))
	if !ok || inside != "" && !strings.HasPrefix(inside, "/") {
		return nil
	}
	if inside == "" {
		inside = "/"
	}
	return &core.FinalFile{Path: inside, Type: typeOf(st.Mode), Mode: st.Mode & 0o7777}
}

// join puts a name below a directory.
func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }
