package client

import (
	"context"
	"fmt"
	"strings"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// fileCalls are the calls on files that came with version 3. They are the client's.
type fileCalls struct{ c *Client }

// Change changes what there is to know of a file; see core.FileWriter. An agent of before version 3 answers unsupported.
func (f fileCalls) Change(ctx context.Context, path string, ch core.FileChange) (core.FileInfo, error) {
	req := wire.ChangeRequest{
		Path: wire.Bytes(path), Size: ch.Size, Mode: ch.Mode, Owner: ch.Owner, Group: ch.Group,
		ModifiedAt: ch.ModifiedAt, AccessedAt: ch.AccessedAt, Recursive: ch.Recursive, NoFollow: ch.NoFollow,
	}
	total := 0
	for _, x := range ch.Xattrs {
		req.Xattrs = append(req.Xattrs, wire.XattrChange{Name: wire.Bytes(x.Name), Value: x.Value, Remove: x.Remove})
		total += len(x.Name) + len(x.Value)
	}
	if total > core.MaxXattrBytes {
		return core.FileInfo{}, core.Invalid("xattrs", "the attributes come to more than %d KiB: change them in parts", core.MaxXattrBytes>>10)
	}
	return fileCall(ctx, f.c, call{op: wire.OpChange, args: req, long: true})
}

// Link makes a symbolic or a hard link; see core.FileWriter. An agent of before version 3 answers unsupported.
func (f fileCalls) Link(ctx context.Context, path, target string, o core.LinkOptions) (core.FileInfo, error) {
	req := wire.LinkRequest{
		Path: wire.Bytes(path), Target: wire.Bytes(target), Hard: o.Hard, User: o.User, Parents: o.Parents, Replace: o.Replace,
	}
	return fileCall(ctx, f.c, call{op: wire.OpLink, args: req})
}

// Xattrs returns a file's extended attributes; see core.FileReader. An agent of before version 3 answers unsupported.
func (f fileCalls) Xattrs(ctx context.Context, path string) ([]core.Xattr, error) {
	var reply wire.XattrsReply
	if err := f.c.do(ctx, call{op: wire.OpXattrs, args: wire.PathRequest{Path: wire.Bytes(path)}, reply: &reply, again: true}); err != nil {
		return nil, err
	}
	list, total, last := make([]core.Xattr, 0, len(reply.Xattrs)), 0, ""
	for _, x := range reply.Xattrs {
		name := string(x.Name)
		total += len(name) + len(x.Value)
		if name <= last || len(name) > core.MaxXattrName || strings.ContainsRune(name, 0) || len(x.Value) > core.MaxXattrValue || total > core.MaxXattrBytes {
			return nil, unreachable(ctx, fmt.Errorf("%w: impossible attributes of a file", wire.ErrMalformed))
		}
		last = name
		list = append(list, core.Xattr{Name: name, Value: x.Value})
	}
	return list, nil
}

// Checksum returns the digest of a file's content; see core.FileReader. An agent of before version 3 answers unsupported.
func (f fileCalls) Checksum(ctx context.Context, path string, algorithm core.ChecksumAlgorithm) (core.Checksum, error) {
	if algorithm.Size() == 0 {
		return core.Checksum{}, core.Invalid("algorithm", "no such algorithm: %q", algorithm)
	}
	var reply wire.ChecksumReply
	req := wire.ChecksumRequest{Path: wire.Bytes(path), Algorithm: string(algorithm)}
	if err := f.c.do(ctx, call{op: wire.OpChecksum, args: req, reply: &reply, again: true, long: true}); err != nil {
		return core.Checksum{}, err
	}
	file, err := fileOf(reply.File)
	if err == nil && (len(reply.Digest) != algorithm.Size() || reply.Bytes < 0) {
		err = fmt.Errorf("%w: an impossible checksum", wire.ErrMalformed)
	}
	if err != nil {
		return core.Checksum{}, unreachable(ctx, err)
	}
	return core.Checksum{File: file, Bytes: reply.Bytes, Digest: reply.Digest}, nil
}
