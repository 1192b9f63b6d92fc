package control

import (
	"context"
	"io"

	"shoal/internal/core"
)

// Pack keeps the sandbox in use until the archive is closed.
func (h heldGuest) Pack(ctx context.Context, path string, opts core.PackOptions) (core.Archive, error) {
	return heldReader{h.Guest, h.activity, h.id}.Pack(ctx, path, opts)
}

// Pack keeps the sandbox in use until the archive is closed.
func (h heldReader) Pack(ctx context.Context, path string, opts core.PackOptions) (core.Archive, error) {
	release, err := h.activity.hold(ctx, h.id, core.UseFileRead)
	if err != nil {
		return nil, err
	}
	a, err := h.FileReader.Pack(ctx, path, opts)
	if err != nil {
		release()
		return nil, err
	}
	return heldArchive{a, release}, nil
}

// Unpack keeps the sandbox in use until the archive is unpacked.
func (h heldGuest) Unpack(ctx context.Context, path string, opts core.UnpackOptions, r io.Reader) (core.ArchiveReport, error) {
	release, err := h.activity.hold(ctx, h.id, core.UseFileWrite)
	if err != nil {
		return core.ArchiveReport{}, err
	}
	defer release()
	return h.Guest.Unpack(ctx, path, opts, r)
}

type heldArchive struct {
	core.Archive
	release func()
}

// Close ends the use.
func (h heldArchive) Close() error {
	defer h.release()
	return h.Archive.Close()
}
