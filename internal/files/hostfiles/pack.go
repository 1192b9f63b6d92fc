package hostfiles

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path"

	"golang.org/x/sys/unix"

	"shoal/internal/archive"
	"shoal/internal/core"
	"shoal/internal/files"
)

// Pack returns a file or a tree as a tar stream. Below what is named, nothing is looked up by more than one name at a time, and no
// link is followed.
func (t *Tree) Pack(ctx context.Context, name string, opts core.PackOptions) (core.Archive, error) {
	name, err := clean("path", name)
	if err != nil {
		return nil, files.Failure(err, "path", name)
	}
	r, err := t.open()
	if err != nil {
		return nil, err
	}
	p := &packed{name: name}
	var ctxPack context.Context
	ctxPack, p.cancel = context.WithCancel(ctx)
	if err := p.begin(ctxPack, r, opts); err != nil {
		p.cancel()
		return nil, errors.Join(files.Failure(err, "path", name), r.Close())
	}
	// What can't be packed at all is told before the data begins.
	if _, err := p.r.Peek(1); err != nil {
		_ = p.Close()
		return nil, p.failure(err)
	}
	return p, nil
}

// packed is a tar stream that is made while it is read.
type packed struct {
	name   string
	r      *bufio.Reader
	pipe   *io.PipeReader
	cancel context.CancelFunc
	// done is closed when nothing is read from the tree any more; report is set then.
	done   chan struct{}
	report core.ArchiveReport
}

// begin opens what is named and packs it in the background, until it is packed or Close is called.
func (p *packed) begin(ctx context.Context, r *root, opts core.PackOptions) error {
	place, err := r.at(p.name, 0)
	if err != nil {
		return err
	}
	defer func() { _ = place.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(place.Fd()), &st); err != nil {
		return err
	}
	f, _, err := read(place, st.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return err
	}
	o := archive.PackOptions{
		Exclude: opts.Exclude, Gzip: opts.Gzip, ID: r.owners.inside,
		User:  func(id int) string { return r.owner(user, r.owners.inside(uint32(id))) },
		Group: func(id int) string { return r.owner(group, r.owners.inside(uint32(id))) },
	}
	pipe, w := io.Pipe()
	p.pipe, p.r, p.done = pipe, bufio.NewReader(pipe), make(chan struct{})
	go func() {
		defer close(p.done)
		report, err := archive.PackOpen(ctx, w, f, path.Base(p.name), o)
		p.report = report
		_ = w.CloseWithError(errors.Join(err, f.Close(), r.Close())) // nil is the end
	}()
	return nil
}

// Read reads on.
func (p *packed) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if err == nil || err == io.EOF { // io.EOF must be passed on as it is.
		return n, err
	}
	return n, p.failure(err)
}

func (p *packed) failure(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return core.Wrap(core.CodeCanceled, err, "the call was canceled")
	}
	return files.Failure(err, "path", p.name)
}

// Report tells what was packed, once Read has returned io.EOF.
func (p *packed) Report() core.ArchiveReport {
	<-p.done
	return p.report
}

// Close ends the packing, at whatever point it is, and waits for that.
func (p *packed) Close() error {
	p.cancel()
	err := p.pipe.Close()
	<-p.done
	return err
}
