package guest

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/files"
	"shoal/internal/guest/wire"
)

// changeFile changes what there is to know of a file.
func changeFile(c *session, q wire.ChangeRequest) (wire.FileInfo, error) {
	name, err := c.srv.absolute("path", q.Path)
	if err != nil {
		return wire.FileInfo{}, err
	}
	ch, err := changeOf(q)
	if err != nil {
		return wire.FileInfo{}, err
	}
	if err := ch.apply(c, name); err != nil {
		return wire.FileInfo{}, fileError(err, "path", name)
	}
	if q.NoFollow {
		st, err := os.Lstat(name)
		if err != nil {
			return wire.FileInfo{}, fileError(err, "path", name)
		}
		return fileInfo(name, st, &names{}), nil
	}
	st, err := os.Stat(name)
	if err != nil {
		return wire.FileInfo{}, fileError(err, "path", name)
	}
	return fileInfo(name, st, &names{}), nil
}

// fileChange is a change whose names have been looked up.
type fileChange struct {
	wire.ChangeRequest
	// uid and gid are -1 if they stay.
	uid, gid int
}

// changeOf checks a change before anything is done.
func changeOf(q wire.ChangeRequest) (fileChange, error) {
	ch := fileChange{ChangeRequest: q, uid: -1, gid: -1}
	switch {
	case q.Mode != nil && *q.Mode > 0o7777:
		return ch, core.Invalid("mode", "a mode is at most 07777")
	case q.Size != nil && *q.Size < 0:
		return ch, core.Invalid("size", "a size is not negative")
	case q.Recursive && (q.Size != nil || q.ModifiedAt != nil || q.AccessedAt != nil || len(q.Xattrs) > 0):
		return ch, core.Invalid("recursive", "owner, group and mode are what can be changed of a whole tree")
	case q.Recursive && q.NoFollow:
		return ch, core.Invalid("no_follow", "a link alone has nothing below it")
	}
	if err := checkXattrs(q.Xattrs); err != nil {
		return ch, err
	}
	if q.Owner != "" {
		acc, err := lookupUser(q.Owner)
		if err != nil {
			return ch, renamed(err, "owner")
		}
		ch.uid = int(acc.uid)
	}
	if q.Group != "" {
		gid, err := lookupGroup(q.Group)
		if err != nil {
			return ch, renamed(err, "group")
		}
		ch.gid = int(gid)
	}
	return ch, nil
}

// renamed says by the request's own field what was invalid.
func renamed(err error, field string) error {
	var e *core.Error
	if errors.As(err, &e) && e.Code == core.CodeInvalid {
		return &core.Error{Code: e.Code, Field: field, Message: e.Message, Err: e.Err}
	}
	return err
}

// apply carries the change out.
func (ch *fileChange) apply(c *session, name string) error {
	st, err := os.Lstat(name)
	if err != nil {
		return err
	}
	link := ch.NoFollow && st.Mode().Type() == fs.ModeSymlink
	if link && (ch.Mode != nil || ch.Size != nil || len(ch.Xattrs) > 0) {
		return core.Errorf(core.CodeUnsupported, "a symbolic link has only owner, group and times: %s", quote(name))
	}
	if ch.Size != nil {
		if err := os.Truncate(name, *ch.Size); err != nil {
			return err
		}
	}
	if err := ch.owner(name, link); err != nil {
		return err
	}
	for _, x := range ch.Xattrs {
		if err := setXattr(name, x); err != nil {
			return err
		}
	}
	if ch.Recursive {
		if err := ch.below(c.ctx, name); err != nil {
			return err
		}
	}
	return ch.times(name, link)
}

// owner changes owner, group and mode of one file.
func (ch *fileChange) owner(name string, link bool) error {
	if ch.uid >= 0 || ch.gid >= 0 {
		chown := os.Chown
		if link {
			chown = os.Lchown
		}
		if err := chown(name, ch.uid, ch.gid); err != nil {
			return err
		}
	}
	if ch.Mode != nil && !link {
		return os.Chmod(name, permissions(*ch.Mode))
	}
	return nil
}

// ignoreGone drops the error of a file that isn't there any more, or is no directory now.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}

// times changes a file's times.
func (ch *fileChange) times(name string, link bool) error {
	if ch.ModifiedAt == nil && ch.AccessedAt == nil {
		return nil
	}
	flags := 0
	if link {
		flags = unix.AT_SYMLINK_NOFOLLOW
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{timespec(ch.AccessedAt), timespec(ch.ModifiedAt)}, flags)
}

func timespec(t *time.Time) unix.Timespec {
	if t == nil {
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	return unix.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
}

func checkXattrs(list []wire.XattrChange) error {
	if len(list) > core.MaxXattrChanges {
		return core.Invalid("xattrs", "at most %d attributes can be changed together", core.MaxXattrChanges)
	}
	for _, x := range list {
		switch name := string(x.Name); {
		case !strings.HasPrefix(name, files.UserXattrs):
			return &core.Error{Code: core.CodeUnsupported, Field: "xattrs", Message: "only attributes whose names begin with user. can be changed: " + quote(name)}
		case len(name) == len(files.UserXattrs) || len(name) > core.MaxXattrName || strings.ContainsRune(name, 0):
			return core.Invalid("xattrs", "no name of an attribute: %s", quote(name))
		case len(x.Value) > core.MaxXattrValue:
			return core.Invalid("xattrs", "a value has at most %d bytes: %s", core.MaxXattrValue, quote(name))
		}
	}
	return nil
}

func setXattr(name string, x wire.XattrChange) error {
	if x.Remove {
		return xattrError(unix.Removexattr(name, string(x.Name)), string(x.Name))
	}
	return xattrError(unix.Setxattr(name, string(x.Name), x.Value, 0), string(x.Name))
}

// xattrsOf returns the extended attributes of what a path leads to.
func xattrsOf(c *session, q wire.PathRequest) (wire.XattrsReply, error) {
	name, err := c.srv.absolute("path", q.Path)
	if err != nil {
		return wire.XattrsReply{}, err
	}
	list, err := readXattrs(name)
	return wire.XattrsReply{Xattrs: list}, fileError(err, "path", name)
}

func readXattrs(name string) ([]wire.Xattr, error) {
	buf := make([]byte, core.MaxXattrValue)
	n, err := unix.Listxattr(name, buf)
	if errors.Is(err, unix.ENOTSUP) {
		n, err = 0, nil // a filesystem without any
	}
	if err != nil {
		return nil, err
	}
	list, total := []wire.Xattr{}, 0
	for key := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !strings.HasPrefix(key, files.UserXattrs) {
			continue
		}
		n, err := unix.Getxattr(name, key, buf)
		if errors.Is(err, unix.ENODATA) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, xattrError(err, key)
		}
		if total += len(key) + n; total > core.MaxXattrBytes {
			return nil, files.TooManyXattrs()
		}
		list = append(list, wire.Xattr{Name: wire.Bytes(key), Value: append([]byte{}, buf[:n]...)})
	}
	sortXattrs(list)
	return list, nil
}

// xattrError says what is wrong with an attribute; fileError does the rest.
func xattrError(err error, name string) error {
	switch {
	case errors.Is(err, unix.ENODATA):
		return &core.Error{Code: core.CodeNotFound, Field: "xattrs", Message: "the file has no such attribute: " + quote(name)}
	case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.EPERM):
		return &core.Error{Code: core.CodeUnsupported, Field: "xattrs", Message: "a file of this kind or in this place has no attributes: " + quote(name)}
	case errors.Is(err, unix.E2BIG), errors.Is(err, unix.ERANGE):
		return core.Invalid("xattrs", "the file can't hold so much: %s", quote(name))
	}
	return err
}
