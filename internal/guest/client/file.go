package client

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"sync"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

const maxListFiles = 1000

// Stat describes a file as lstat does: a symbolic link is described itself, with its target.
func (c *Client) Stat(ctx context.Context, path string) (core.FileInfo, error) {
	return fileCall(ctx, c, call{op: wire.OpStat, args: wire.PathRequest{Path: wire.Bytes(path)}, again: true})
}

// fileCall is a call that answers with a file.
func fileCall(ctx context.Context, c *Client, q call) (core.FileInfo, error) {
	var info wire.FileInfo
	q.reply = &info
	if err := c.do(ctx, q); err != nil {
		return core.FileInfo{}, err
	}
	f, err := fileOf(info)
	if err != nil {
		return core.FileInfo{}, unreachable(ctx, err)
	}
	return f, nil
}

// ListFiles returns a directory's entries in the order of their names' bytes.
func (c *Client) ListFiles(ctx context.Context, path, after string, limit int) ([]core.FileInfo, bool, error) {
	if limit <= 0 || limit > maxListFiles {
		return nil, false, core.Invalid("limit", "a limit is 1 to %d", maxListFiles)
	}
	page, cut, err := filesPage(ctx, c, path, after, limit)
	return page, cut || len(page) == limit, err
}

// filesPage asks for a page of a directory once. An agent cuts one that is too large for a frame, and says so.
func filesPage(ctx context.Context, c *Client, path, after string, limit int) (list []core.FileInfo, cut bool, err error) {
	var reply wire.ListFilesReply
	req := wire.ListFilesRequest{Path: wire.Bytes(path), After: wire.Bytes(after), Limit: limit}
	if err := c.do(ctx, call{op: wire.OpListFiles, args: req, reply: &reply, again: true}); err != nil {
		return nil, false, err
	}
	if len(reply.Files) > limit || reply.More && len(reply.Files) == 0 {
		return nil, false, unreachable(ctx, fmt.Errorf("%w: a page of %d files, asked for %d", wire.ErrMalformed, len(reply.Files), limit))
	}
	list = make([]core.FileInfo, 0, len(reply.Files))
	for _, info := range reply.Files {
		f, err := fileOf(info)
		// Pages go on after the last name, so an order that does not rise would never end.
		if err == nil && f.Name <= after {
			err = fmt.Errorf("%w: names out of order", wire.ErrMalformed)
		}
		if err != nil {
			return nil, false, unreachable(ctx, err)
		}
		after = f.Name
		list = append(list, f)
	}
	return list, reply.More, nil
}

// Mkdir makes a directory, owned by opts.User or the default user, with mode opts.Mode or 0755. With Parents an existing
// directory is fine.
func (c *Client) Mkdir(ctx context.Context, path string, opts core.WriteOptions) error {
	return c.do(ctx, call{op: wire.OpMkdir, args: writeRequest(path, opts), reply: &wire.Empty{}})
}

// Move renames a file as rename(2) does; an existing file at the new path is replaced.
func (c *Client) Move(ctx context.Context, from, to string) error {
	req := wire.MoveRequest{From: wire.Bytes(from), To: wire.Bytes(to)}
	return c.do(ctx, call{op: wire.OpMove, args: req, reply: &wire.Empty{}})
}

// Remove removes a file or an empty directory, with Recursive a whole tree. A symbolic link is removed itself.
func (c *Client) Remove(ctx context.Context, path string, opts core.RemoveOptions) error {
	req := wire.RemoveRequest{Path: wire.Bytes(path), Recursive: opts.Recursive}
	return c.do(ctx, call{op: wire.OpRemove, args: req, reply: &wire.Empty{}})
}

func writeRequest(path string, o core.WriteOptions) wire.WriteRequest {
	return wire.WriteRequest{Path: wire.Bytes(path), Mode: o.Mode, User: o.User, Parents: o.Parents, Exclusive: o.Exclusive, Append: o.Append}
}

// fileOf checks what a guest says of a file.
func fileOf(info wire.FileInfo) (core.FileInfo, error) {
	name := string(info.Name)
	if name == "" || len(name) > 255 || (strings.Contains(name, "/") && name != "/") || strings.ContainsRune(name, 0) {
		return core.FileInfo{}, fmt.Errorf("%w: an impossible file name", wire.ErrMalformed)
	}
	if info.Size < 0 || info.UID < 0 || info.GID < 0 {
		return core.FileInfo{}, fmt.Errorf("%w: a file with impossible figures", wire.ErrMalformed)
	}
	// However few files a page has, what a caller makes of it must stay small.
	if tooLong(info.Path) || tooLong(info.Target) || info.Final != nil && tooLong(info.Final.Path) {
		return core.FileInfo{}, fmt.Errorf("%w: an impossible path", wire.ErrMalformed)
	}
	f := core.FileInfo{
		Name: name, Path: string(info.Path), Type: core.FileType(info.Type), Size: info.Size, Mode: info.Mode & 0o7777,
		UID: info.UID, GID: info.GID, Owner: nameOf(info.Owner), Group: nameOf(info.Group), MTime: info.MTime.UTC(), Target: string(info.Target), Version: versionOf(info.Version),
	}
	if !knownType(f.Type) {
		return core.FileInfo{}, fmt.Errorf("%w: an unknown type of file", wire.ErrMalformed)
	}
	if end := info.Final; end != nil {
		f.Final = &core.FinalFile{Path: string(end.Path), Type: core.FileType(end.Type), Mode: end.Mode & 0o7777}
		if f.Type != core.FileSymlink || !knownType(f.Final.Type) || !strings.HasPrefix(f.Final.Path, "/") {
			return core.FileInfo{}, fmt.Errorf("%w: a link that leads to something impossible", wire.ErrMalformed)
		}
	}
	return f, nil
}

// maxResolved bounds a path that an agent tells, which it may have made of two others: no kernel takes a longer one.
const maxResolved = 3 * 4096

func tooLong(path wire.Bytes) bool { return len(path) > maxResolved }

// maxUserName bounds the name of a user or group.
const maxUserName = 256

// nameOf leaves a name out that is too long to be one: a user can write what it likes into /etc/passwd, and the number says it too.
func nameOf(name string) string {
	if len(name) > maxUserName {
		return ""
	}
	return name
}

// versionOf leaves out what can't stand in a header.
func versionOf(v string) string {
	if _, err := hex.DecodeString(v); err != nil || len(v) > 64 {
		return ""
	}
	return v
}

func knownType(t core.FileType) bool {
	switch t {
	case core.FileRegular, core.FileDirectory, core.FileSymlink, core.FileOther:
		return true
	}
	return false
}

// ReadFile returns a file's content. ctx bounds the reading too. The reader fails if the agent goes away before the
// end; what it returned until then is part of the file.
func (c *Client) ReadFile(ctx context.Context, path string, offset, length int64) (core.FileInfo, io.ReadCloser, error) {
	if offset < 0 {
		return core.FileInfo{}, nil, core.Invalid("offset", "an offset is not negative")
	}
	request, err := frames(wire.OpRead, wire.ReadRequest{Path: wire.Bytes(path), Offset: offset, Length: length})
	if err != nil {
		return core.FileInfo{}, nil, err
	}
	k, payload, release, err := c.begin(ctx, request, true)
	if err != nil {
		return core.FileInfo{}, nil, err
	}
	var info wire.FileInfo
	var f core.FileInfo
	if err = wire.DecodeReply(payload, &info); err == nil {
		f, err = fileOf(info)
	}
	if err != nil {
		release()
		k.close()
		return core.FileInfo{}, nil, unreachable(ctx, err)
	}
	return f, &download{c: c, ctx: ctx, k: k, release: release, left: length}, nil
}

// begin sends the request of an operation with data and waits for the reply that lets the data begin. The connection is
// bound to ctx until release is called.
func (c *Client) begin(ctx context.Context, request []byte, again bool) (*conn, []byte, func(), error) {
	for {
		k, err := c.take(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		release := c.bind(ctx, k)
		var payload []byte
		var fault *core.Error
		if err = k.w.Write(wire.FrameRequest, request); err == nil {
			payload, fault, err = c.expect(ctx, k, wire.FrameReply)
		}
		if err == nil && fault == nil {
			return k, payload, release, nil
		}
		release()
		if fault != nil {
			c.give(k)
			return nil, nil, nil, fault
		}
		k.close()
		if !again || !k.reused || ctx.Err() != nil || c.ctx.Err() != nil {
			return nil, nil, nil, c.broken(ctx, err)
		}
	}
}

// download reads a file's data frames. It is for one goroutine, but Close may come from another.
type download struct {
	c       *Client
	ctx     context.Context
	k       *conn
	release func()
	// left is how much the agent may still send; negative means any amount.
	left int64
	// open says that more than the data follows: the connection is not free at its end.
	open bool
	rest []byte
	err  error
	once sync.Once
}

func (d *download) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		d.rest, d.err = d.more()
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (d *download) more() ([]byte, error) {
	f, err := d.c.next(d.ctx, d.k)
	if err == nil {
		switch f.Type {
		case wire.FrameData:
			if d.left < 0 {
				return f.Payload, nil
			}
			if d.left -= int64(len(f.Payload)); d.left >= 0 {
				return f.Payload, nil
			}
		case wire.FrameEnd:
			if !d.open {
				d.finish(true)
			}
			return nil, io.EOF
		case wire.FrameError:
			if fault, e := parseFault(f.Payload); e == nil {
				d.finish(true)
				return nil, fault
			}
		case wire.FrameRequest, wire.FrameReply, wire.FrameStarted, wire.FrameStdout, wire.FrameStderr, wire.FrameGap,
			wire.FrameEnded, wire.FrameHeartbeat, wire.FrameChanges:
		}
		err = fmt.Errorf("%w: type %d in a file", wire.ErrMalformed, f.Type)
	}
	d.finish(false)
	return nil, d.c.broken(d.ctx, err)
}

func (d *download) finish(clean bool) {
	d.once.Do(func() {
		d.release()
		if clean {
			d.c.give(d.k)
		} else {
			d.k.close()
		}
	})
}

// Close ends the reading, at whatever point it is.
func (d *download) Close() error {
	d.finish(false)
	return nil
}
