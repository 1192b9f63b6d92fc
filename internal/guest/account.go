package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"shoal/internal/core"
	"shoal/internal/files"
)

const (
	passwdFile = files.PasswdFile
	groupFile  = files.GroupFile
	// maxGroups bounds supplementary groups, as the kernel does.
	maxGroups = 65536
)

// account is whom a process runs as.
type account struct {
	uid, gid uint32
	groups   []uint32
	// name is empty for a number without an entry.
	name, home, shell string
}

// credential returns what to start a process with; nil if it is what we are, which needs no right.
func (a account) credential() *syscall.Credential {
	if os.Geteuid() != 0 && int(a.uid) == os.Geteuid() && int(a.gid) == os.Getegid() {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
}

// lookupAccount reads "name", "uid", "name:group" or "uid:gid"; empty means whom we run as. Numbers need no entry,
// and root none either, so it works in a tree without /etc/passwd.
func lookupAccount(text string) (account, error) {
	if text == "" {
		text = strconv.Itoa(os.Geteuid())
	}
	user, group, hasGroup := strings.Cut(text, ":")
	a, err := lookupUser(user)
	if err != nil {
		return account{}, err
	}
	if hasGroup {
		if a.gid, err = lookupGroup(group); err != nil {
			return account{}, err
		}
		a.groups = nil
		return a, nil
	}
	a.groups, err = groupsOf(a)
	return a, err
}

func lookupUser(user string) (account, error) {
	number, numErr := strconv.ParseUint(user, 10, 32)
	numeric := numErr == nil && number < 1<<32-1
	found := account{}
	ok := false
	err := entries(passwdFile, 7, func(f []string) bool {
		uid, e1 := strconv.ParseUint(f[2], 10, 32)
		gid, e2 := strconv.ParseUint(f[3], 10, 32)
		if e1 != nil || e2 != nil || (f[0] != user && (!numeric || uid != number)) {
			return true
		}
		found = account{uid: uint32(uid), gid: uint32(gid), name: f[0], home: f[5], shell: f[6]}
		ok = true
		return false
	})
	switch {
	case err != nil:
		return account{}, err
	case ok:
		return found, nil
	case user == "root" || numeric && number == 0:
		return account{name: "root", home: "/root"}, nil
	case numeric:
		return account{uid: uint32(number), gid: uint32(number)}, nil
	}
	return account{}, core.Invalid("user", "no such user: %q", user)
}

func lookupGroup(group string) (uint32, error) {
	number, numErr := strconv.ParseUint(group, 10, 32)
	if numErr == nil && number < 1<<32-1 {
		return uint32(number), nil
	}
	var gid uint64
	ok := group == "root"
	err := entries(groupFile, 4, func(f []string) bool {
		id, err := strconv.ParseUint(f[2], 10, 32)
		if f[0] != group || err != nil {
			return true
		}
		gid, ok = id, true
		return false
	})
	if err == nil && !ok {
		err = core.Invalid("user", "no such group: %q", group)
	}
	return uint32(gid), err
}

// groupsOf returns the supplementary groups of a user, its own included.
func groupsOf(a account) ([]uint32, error) {
	list := []uint32{a.gid}
	if a.name == "" {
		return list, nil
	}
	err := entries(groupFile, 4, func(f []string) bool {
		gid, err := strconv.ParseUint(f[2], 10, 32)
		if err == nil && slices.Contains(strings.Split(f[3], ","), a.name) && !slices.Contains(list, uint32(gid)) {
			list = append(list, uint32(gid))
		}
		return len(list) < maxGroups
	})
	return list, err
}

// entries calls f for each line of a colon-separated file that has n fields, until f returns false. A file that is
// missing has no lines, and a line that is too long or malformed is left out.
func entries(name string, n int, f func(fields []string) bool) error {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if full := noRoom(err); full != nil {
		return full
	}
	if err != nil {
		return core.Wrap(core.CodeInternal, err, "%s can't be read", name)
	}
	defer func() { _ = file.Close() }()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return core.Wrap(core.CodeInternal, err, "%s is not a regular file", name)
	}
	if err := files.Lines(file, n, f); err != nil {
		return core.Wrap(core.CodeInternal, fmt.Errorf("read %s: %w", name, err), "%s can't be read", name)
	}
	return nil
}

// names finds the names of owners, each once.
type names struct{ users, groups map[int]string }

func (n *names) user(id int) string  { return lookupName(&n.users, passwdFile, 7, id) }
func (n *names) group(id int) string { return lookupName(&n.groups, groupFile, 4, id) }

// lookupName reads a whole file at the first question. A file that can't be read has no names.
func lookupName(table *map[int]string, file string, fields, id int) string {
	if *table == nil {
		m := map[int]string{}
		_ = entries(file, fields, func(f []string) bool {
			if n, err := strconv.Atoi(f[2]); err == nil {
				if _, ok := m[n]; !ok {
					m[n] = f[0]
				}
			}
			return len(m) < maxGroups
		})
		*table = m
	}
	return (*table)[id]
}
