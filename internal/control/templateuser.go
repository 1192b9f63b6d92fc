package control

import (
	"context"
	"io"
	"strconv"
	"strings"

	"shoal/internal/core"
)

// maxAccountFile is how much of /etc/passwd and /etc/group is looked at.
const maxAccountFile = 1 << 20

// checkUser refuses a default user, USER[:GROUP], that a running sandbox doesn't have: every process of the template would be refused. Numbers
// need no entry. What can't be learned is not refused.
func checkUser(ctx context.Context, node core.Node, from core.SandboxID, user *string) error {
	if user == nil {
		return nil
	}
	g, err := node.Guest(from)
	if err != nil {
		return nil //nolint:nilerr // One that has failed has nobody to ask.
	}
	name, group, _ := strings.Cut(*user, ":")
	if lacks(ctx, g, "/etc/passwd", name) {
		return core.Invalid("user", "the sandbox has no user %q", name)
	}
	if group != "" && lacks(ctx, g, "/etc/group", group) {
		return core.Invalid("user", "the sandbox has no group %q", group)
	}
	return nil
}

// lacks reports whether a file of accounts, all of it, has no entry of a name.
func lacks(ctx context.Context, files core.FileReader, file, name string) bool {
	if _, err := strconv.ParseUint(name, 10, 32); err == nil || name == "" || name == "root" {
		return false
	}
	_, body, err := files.ReadFile(ctx, file, 0, maxAccountFile)
	if err != nil {
		return false
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, maxAccountFile))
	if err != nil || len(text) == maxAccountFile {
		return false
	}
	return !strings.Contains("\n"+string(text), "\n"+name+":")
}
