package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"shoal/internal/archive"
	shoal "shoal/sdk/go"
)

// errUntold ends a stream whose reader has said elsewhere why it reads no further.
var errUntold = errors.New("the other side ended it")

// copyTree copies a directory as one stream, with links, modes and times. It fails with unsupported if the guest agent of a sandbox is of
// an older release, before anything has been made.
func (c *copier) copyTree(ctx context.Context, from, to string) error {
	src, out := c.src.(remoteTree)
	dst, in := c.dst.(remoteTree)
	_, fromHere := c.src.(localTree)
	_, toHere := c.dst.(localTree)
	switch {
	case fromHere && in:
		return c.upTree(ctx, from, dst, to)
	case out && in:
		return c.acrossTree(ctx, src, from, dst, to)
	case out && toHere:
		return c.downTree(ctx, src, from, to)
	}
	return &shoal.Error{Code: shoal.CodeUnsupported, Message: "this tree can't be sent as one stream"}
}

// upTree sends a directory of this machine into a sandbox.
func (c *copier) upTree(ctx context.Context, from string, dst remoteTree, to string) error {
	return c.pace.call(ctx, func() error {
		pr, pw := io.Pipe()
		type packed struct {
			report shoal.ArchiveReport
			err    error
		}
		done := make(chan packed, 1)
		go func() {
			r, err := archive.Pack(ctx, pw, from, archive.PackOptions{Progress: c.meter.add})
			_ = pw.CloseWithError(err)
			done <- packed{fromReport(r), err}
		}()
		report, err := dst.files.Unpack(ctx, path.Clean(to), struct{ io.Reader }{pr}, shoal.UnpackOptions{Parents: true})
		_ = pr.CloseWithError(errUntold)
		p := <-done
		if p.err != nil && !errors.Is(p.err, errUntold) {
			return labelledFile(c.src.label(from), p.err)
		}
		if err != nil {
			return labelledTree(dst.label(to), err)
		}
		c.leftOut(c.src, from, p.report)
		c.leftOut(dst, to, report)
		return nil
	})
}

// downTree fetches a directory of a sandbox. What it holds is hostile: nothing is made outside the target, and no bit that would give
// whoever runs it our rights is kept.
func (c *copier) downTree(ctx context.Context, src remoteTree, from, to string) error {
	return c.pace.call(ctx, func() error {
		a, err := src.files.Archive(ctx, path.Clean(from), shoal.PackOptions{})
		if err != nil {
			return labelledTree(src.label(from), err)
		}
		defer func() { _ = a.Close() }()
		err = os.Mkdir(to, 0o700)
		made := err == nil
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return labelled(to, err)
		}
		source := &remembering{r: a}
		r, err := archive.Unpack(ctx, source, to, archive.UnpackOptions{UID: -1, GID: -1, Plain: true, Made: made, Progress: c.meter.add})
		switch {
		case source.err != nil:
			return labelledTree(src.label(from), source.err)
		case err != nil:
			return labelledFile(to, err)
		}
		c.leftOut(src, from, a.Report())
		c.leftOut(c.dst, to, fromReport(r))
		return nil
	})
}

// acrossTree copies a directory from one sandbox to another, through us.
func (c *copier) acrossTree(ctx context.Context, src remoteTree, from string, dst remoteTree, to string) error {
	return c.pace.call(ctx, func() error {
		a, err := src.files.Archive(ctx, path.Clean(from), shoal.PackOptions{})
		if err != nil {
			return labelledTree(src.label(from), err)
		}
		defer func() { _ = a.Close() }()
		source := &remembering{r: c.meter.count(a)}
		report, err := dst.files.Unpack(ctx, path.Clean(to), source, shoal.UnpackOptions{Parents: true})
		switch {
		case source.err != nil:
			return labelledTree(src.label(from), source.err)
		case err != nil:
			return labelledTree(dst.label(to), err)
		}
		c.leftOut(src, from, a.Report())
		c.leftOut(dst, to, report)
		return nil
	})
}

// remembering is a source that keeps its own error apart from that of whoever reads it.
type remembering struct {
	r   io.Reader
	err error
}

// Read reads on.
func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF { // Inside another error it means that the stream broke off.
		r.err = err
	}
	return n, err
}

// labelledTree says what an error of the server's is about, and keeps what the fallback looks for.
func labelledTree(label string, err error) error {
	if code := shoal.ErrorCode(err); code == shoal.CodeUnsupported || code == shoal.CodeQuota {
		return err
	}
	return labelled(label, err)
}

// labelledFile says what an error of this machine's files is about: the path in it is relative to the directory that was named.
func labelledFile(dir string, err error) error {
	var at *os.PathError
	if errors.As(err, &at) && !path.IsAbs(at.Path) {
		if at.Path == "." {
			return fmt.Errorf("%s: %w", dir, at.Err)
		}
		return fmt.Errorf("%s: %w", path.Join(dir, at.Path), at.Err)
	}
	return labelled(dir, err)
}

// leftOut names what a report says was not kept.
func (c *copier) leftOut(t tree, dir string, r shoal.ArchiveReport) {
	for _, n := range r.Notes {
		name := n.Path
		if len(n.PathRaw) > 0 {
			name = string(n.PathRaw)
		}
		c.left.add(t.label(t.join(dir, name)), n.Reason)
	}
	c.left.uncounted(r.Skipped - int64(len(r.Notes)))
}

// fromReport is a report in the API's form.
func fromReport(r archive.Report) shoal.ArchiveReport {
	out := shoal.ArchiveReport{Files: r.Files, Directories: r.Directories, Bytes: r.Bytes, Skipped: r.Skipped}
	for _, n := range r.Notes {
		out.Notes = append(out.Notes, shoal.ArchiveNote{PathRaw: []byte(n.Path), Reason: n.Reason})
	}
	return out
}

// copyTarOut writes a directory of a sandbox to our output as a tar archive.
func (c *copier) copyTarOut(ctx context.Context, src remoteTree, from string, w io.Writer) error {
	a, err := src.files.Archive(ctx, path.Clean(from), shoal.PackOptions{})
	if err != nil {
		return labelled(src.label(from), err)
	}
	defer func() { _ = a.Close() }()
	source := &remembering{r: a}
	if _, err := io.Copy(w, source); source.err != nil {
		return labelled(src.label(from), source.err)
	} else if err != nil {
		return err
	}
	c.leftOut(src, from, a.Report())
	return nil
}

// copyTarIn unpacks our input, a tar archive that may be compressed with gzip, into a directory of a sandbox.
func (c *copier) copyTarIn(ctx context.Context, r io.Reader, dst remoteTree, to string) error {
	in := bufio.NewReaderSize(r, 64<<10)
	magic, _ := in.Peek(2)
	gzip := len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b
	report, err := dst.files.Unpack(ctx, path.Clean(to), struct{ io.Reader }{in}, shoal.UnpackOptions{Parents: true, Gzip: gzip})
	if shoal.ErrorCode(err) == shoal.CodeInvalid {
		return fmt.Errorf("%s is a directory, into which our input is unpacked as a tar archive; for a file, say its name: %s", dst.label(to), explain(err))
	}
	if err != nil {
		return labelled(dst.label(to), err)
	}
	c.leftOut(dst, to, report)
	return nil
}
