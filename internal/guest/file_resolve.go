package guest

import (
	"path"
	"strconv"
	"strings"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// resolve returns what a user means by a path.
func (c *session) resolve(q wire.ResolveRequest) (wire.ResolveReply, error) {
	acc, base, err := c.srv.userBase(q.User)
	if err != nil {
		return wire.ResolveReply{}, err
	}
	name, err := expand(string(q.Path), base, homeOf(acc))
	if err != nil {
		return wire.ResolveReply{}, err
	}
	user := acc.name
	if user == "" {
		user = strconv.FormatUint(uint64(acc.uid), 10)
	}
	return wire.ResolveReply{Path: wire.Bytes(name), User: user}, nil
}

// userBase returns a user, and the directory from which its relative paths count: the default working directory for the default
// user, and its home for any other.
func (s *Server) userBase(user string) (acc account, base string, err error) {
	var id wire.Identity
	if known := s.who(); known != nil {
		id = *known
	}
	usual, usualErr := s.accounts.lookup(id.User)
	if user == "" {
		acc, err = usual, usualErr
	} else {
		acc, err = s.accounts.lookup(user)
	}
	if err != nil {
		return account{}, "", err
	}
	if usualErr == nil && acc.uid == usual.uid && id.Workdir != "" {
		return acc, id.Workdir, nil
	}
	return acc, homeOf(acc), nil
}

// homeOf returns an account's home, / if it has none.
func homeOf(acc account) string {
	if path.IsAbs(acc.home) {
		return acc.home
	}
	return "/"
}

// expand makes a path absolute. Only what can't change its meaning is cleaned away: ".." after a symbolic link is not what it looks.
func expand(name, base, home string) (string, error) {
	switch {
	case strings.ContainsRune(name, 0):
		return "", core.Invalid("path", "a path has no zero byte")
	case strings.HasPrefix(name, "/"):
	case name == "~" || strings.HasPrefix(name, "~/"):
		name = home + name[1:]
	case strings.HasPrefix(name, "~"):
		return "", core.Invalid("path", "the home of another user is not known by ~: give its path, or write ./~ for a name that begins so")
	default:
		name = base + "/" + name
	}
	var b strings.Builder
	for part := range strings.SplitSeq(name, "/") {
		if part != "" && part != "." {
			b.WriteString("/" + part)
		}
	}
	if b.Len() == 0 {
		return "/", nil
	}
	return b.String(), nil
}
