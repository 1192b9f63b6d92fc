package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

const (
	// maxNotes and maxNote bound what an agent may tell of single files.
	maxNotes = 20
	maxNote  = 2048
)

// Pack returns a file or a tree as a tar stream; see core.Guest. An agent of before version 3 answers unsupported.
func (c *Client) Pack(ctx context.Context, path string, o core.PackOptions) (core.Archive, error) {
	q := wire.PackRequest{Path: wire.Bytes(path), Gzip: o.Gzip}
	for _, p := range o.Exclude {
		q.Exclude = append(q.Exclude, wire.Bytes(p))
	}
	request, err := frames(wire.OpPack, q)
	if err != nil {
		return nil, err
	}
	k, _, release, err := c.begin(ctx, request, true)
	if err != nil {
		return nil, err
	}
	return &packed{download: &download{c: c, ctx: ctx, k: k, release: release, left: -1, open: true}}, nil
}

// packed is a tar stream, after whose end the agent tells what was in it.
type packed struct {
	*download
	report core.ArchiveReport
	ended  bool
}

// Read reads on. The end is only told once the report is there.
func (p *packed) Read(b []byte) (int, error) {
	n, err := p.download.Read(b)
	if err != io.EOF || p.ended { //nolint:errorlint // It is download's own.
		return n, err
	}
	p.report, err = p.last()
	if err != nil {
		p.err = err
		return n, err
	}
	p.ended = true
	return n, io.EOF
}

// last reads the second reply.
func (p *packed) last() (core.ArchiveReport, error) {
	payload, fault, err := p.c.expect(p.ctx, p.k, wire.FrameReply)
	if fault != nil {
		p.finish(true)
		return core.ArchiveReport{}, fault
	}
	var r core.ArchiveReport
	if err == nil {
		r, err = reportOf(payload)
	}
	p.finish(err == nil)
	if err != nil {
		return r, p.c.broken(p.ctx, err)
	}
	return r, nil
}

// Report tells what was in the stream.
func (p *packed) Report() core.ArchiveReport { return p.report }

// Unpack makes what a tar stream holds in a directory; see core.Guest. A *core.Error of r's is returned as it is. An agent of before
// version 3 answers unsupported.
func (c *Client) Unpack(ctx context.Context, path string, o core.UnpackOptions, r io.Reader) (core.ArchiveReport, error) {
	q := wire.UnpackRequest{Path: wire.Bytes(path), User: o.User, KeepOwners: o.KeepOwners, Parents: o.Parents, Gzip: o.Gzip}
	payload, err := upload(ctx, c, wire.OpUnpack, q, r)
	if err != nil {
		return core.ArchiveReport{}, err
	}
	report, err := reportOf(payload)
	if err != nil {
		return report, unreachable(ctx, err)
	}
	return report, nil
}

// reportOf checks what a guest says of an archive.
func reportOf(payload []byte) (core.ArchiveReport, error) {
	var in wire.ArchiveReport
	if err := wire.DecodeReply(payload, &in); err != nil {
		return core.ArchiveReport{}, err
	}
	bad := errors.New("an archive with impossible figures")
	if in.Files < 0 || in.Directories < 0 || in.Bytes < 0 || in.Skipped < 0 || len(in.Notes) > maxNotes {
		return core.ArchiveReport{}, fmt.Errorf("%w: %w", wire.ErrMalformed, bad)
	}
	out := core.ArchiveReport{Files: in.Files, Directories: in.Directories, Bytes: in.Bytes, Skipped: in.Skipped}
	size := 0
	for _, n := range in.Notes {
		if size += len(n.Path) + len(n.Reason); size > maxNote {
			return core.ArchiveReport{}, fmt.Errorf("%w: %w", wire.ErrMalformed, bad)
		}
		// The reason is for people and comes from a guest.
		reason := wire.Fault{Message: n.Reason}.Err().Message
		out.Notes = append(out.Notes, core.ArchiveNote{Path: string(n.Path), Reason: reason})
	}
	return out, nil
}
