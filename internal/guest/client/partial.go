package client

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// WritePart adds a part to a partial file; see core.PartWriter. If r fails, its error comes back, as WriteFile has it.
func (f fileCalls) WritePart(ctx context.Context, path string, o core.PartOptions, r io.Reader) (core.PartialFile, error) {
	q := wire.PartRequest{
		Partial: o.Partial, Offset: o.Offset, More: o.More, SHA256: o.SHA256, Write: writeRequest(path, o.WriteOptions),
	}
	payload, err := upload(ctx, f.c, wire.OpWritePart, q, r)
	if err != nil {
		return core.PartialFile{}, err
	}
	var reply wire.PartialReply
	if err := wire.DecodeReply(payload, &reply); err != nil {
		return core.PartialFile{}, unreachable(ctx, err)
	}
	return partialFile(ctx, reply)
}

// PartialFile tells how far a file has come; see core.PartWriter.
func (f fileCalls) PartialFile(ctx context.Context, partial string) (core.PartialFile, error) {
	var reply wire.PartialReply
	q := wire.PartialRequest{Partial: partial}
	if err := f.c.do(ctx, call{op: wire.OpPartial, args: q, reply: &reply, again: true}); err != nil {
		return core.PartialFile{}, err
	}
	return partialFile(ctx, reply)
}

// DropPartial throws away what has come of a file; see core.PartWriter.
func (f fileCalls) DropPartial(ctx context.Context, partial string) error {
	return f.c.do(ctx, call{op: wire.OpDropPartial, args: wire.PartialRequest{Partial: partial}, reply: &wire.Empty{}})
}

// partialFile checks what a guest says of a partial file.
func partialFile(ctx context.Context, r wire.PartialReply) (core.PartialFile, error) {
	p := core.PartialFile{Path: string(r.Path), Size: r.Size, ExpiresAt: r.ExpiresAt}
	if r.Size < 0 || tooLong(r.Path) || r.File != nil && len(r.SHA256) != sha256.Size {
		return p, unreachable(ctx, fmt.Errorf("%w: an impossible partial file", wire.ErrMalformed))
	}
	if r.File == nil {
		return p, nil
	}
	info, err := fileOf(*r.File)
	if err != nil {
		return p, unreachable(ctx, err)
	}
	p.Whole, p.File, p.SHA256 = true, info, r.SHA256
	return p, nil
}
