package client

import (
	"context"
	"fmt"
	"strings"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// Resolve returns what a user means by a path; see core.Guest. An agent of before version 2 answers unsupported.
func (c *Client) Resolve(ctx context.Context, path, user string) (core.Place, error) {
	var reply wire.ResolveReply
	req := wire.ResolveRequest{Path: wire.Bytes(path), User: user}
	if err := c.do(ctx, call{op: wire.OpResolve, args: req, reply: &reply, again: true}); err != nil {
		return core.Place{}, err
	}
	p := core.Place{Path: string(reply.Path), User: reply.User}
	if !strings.HasPrefix(p.Path, "/") || len(p.Path) > maxResolved || strings.ContainsRune(p.Path, 0) || p.User == "" || len(p.User) > maxUserName {
		return core.Place{}, unreachable(ctx, fmt.Errorf("%w: an impossible path", wire.ErrMalformed))
	}
	return p, nil
}

// Walk returns a page of a tree; see core.Guest. An agent of before version 2 answers unsupported.
func (c *Client) Walk(ctx context.Context, path string, opts core.WalkOptions) ([]core.FileInfo, bool, error) {
	if opts.Limit <= 0 || opts.Limit > maxListFiles {
		return nil, false, core.Invalid("limit", "a limit is 1 to %d", maxListFiles)
	}
	var reply wire.WalkReply
	req := wire.WalkRequest{Path: wire.Bytes(path), Depth: opts.Depth, After: wire.Bytes(opts.After), Limit: opts.Limit}
	if err := c.do(ctx, call{op: wire.OpWalk, args: req, reply: &reply, again: true}); err != nil {
		return nil, false, err
	}
	if len(reply.Files) > opts.Limit || reply.More && len(reply.Files) == 0 {
		return nil, false, unreachable(ctx, fmt.Errorf("%w: a page of %d files, asked for %d", wire.ErrMalformed, len(reply.Files), opts.Limit))
	}
	list := make([]core.FileInfo, 0, len(reply.Files))
	last := opts.After
	for _, info := range reply.Files {
		f, err := fileOf(info)
		if err == nil && opts.Depth > 0 {
			// The next page goes on behind the last file, so an order that does not rise would never end.
			if err = behind(last, f); err == nil {
				last = f.Path
			}
		}
		if err != nil {
			return nil, false, unreachable(ctx, err)
		}
		list = append(list, f)
	}
	return list, reply.More, nil
}

// behind checks that a file comes after a path in the order of a walk, in which a slash is smaller than anything in a name.
func behind(last string, f core.FileInfo) error {
	order := func(path string) string { return strings.ReplaceAll(path, "/", "\x00") }
	if order(f.Path) <= order(last) || !strings.HasSuffix(f.Path, "/"+f.Name) {
		return fmt.Errorf("%w: files out of order", wire.ErrMalformed)
	}
	return nil
}
