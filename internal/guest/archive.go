package guest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"shoal/internal/archive"
	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// pack sends a file or a tree as a tar stream. The end frame says that it is whole, and a second reply what is in it.
func (c *session) pack(q wire.PackRequest) error {
	name, err := c.srv.absolute("path", q.Path)
	if err != nil {
		return err
	}
	// What can't be packed at all is told before the data begins.
	if _, err := os.Stat(name); err != nil {
		return fileError(err, "path", name)
	}
	n := &names{}
	o := archive.PackOptions{Gzip: q.Gzip, Unlinked: true, User: n.user, Group: n.group}
	for _, pattern := range q.Exclude {
		o.Exclude = append(o.Exclude, string(pattern))
	}
	w := &dataWriter{c: c}
	report, err := archive.Pack(c.ctx, w, name, o)
	if w.err != nil {
		return w.err
	}
	if err != nil {
		return archiveError(err, name)
	}
	if !w.begun {
		return core.Errorf(core.CodeInternal, "the archive has no bytes")
	}
	if err := c.w.Write(wire.FrameEnd); err != nil {
		return broken(err)
	}
	return c.reply(encodeReport(report))
}

// dataWriter sends data frames, and before the first one the reply that lets them begin.
type dataWriter struct {
	c     *session
	begun bool
	// err is what broke the connection.
	err error
}

// Write sends p.
func (w *dataWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		if w.err = w.c.reply(wire.Empty{}); w.err != nil {
			return 0, w.err
		}
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), wire.DataChunk)
		if err := w.c.w.Write(wire.FrameData, rest[:n]); err != nil {
			w.err = broken(err)
			return 0, w.err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// unpack makes what a tar stream holds in a directory.
func (c *session) unpack(q wire.UnpackRequest) error {
	if q.KeepOwners && q.User != "" {
		return core.Invalid("user", "either a user owns what is made or the archive says who does")
	}
	name, acc, err := c.target(wire.WriteRequest{Path: q.Path, User: q.User})
	if err != nil {
		return err
	}
	made, err := openTarget(name, q.Parents, acc)
	if err != nil {
		return fileError(err, "path", name)
	}
	if err := c.reply(wire.Empty{}); err != nil {
		return err
	}
	o := archive.UnpackOptions{UID: -1, GID: -1, KeepOwners: q.KeepOwners, Gzip: q.Gzip, Made: made}
	if os.Geteuid() == 0 {
		o.UID, o.GID = int(acc.uid), int(acc.gid)
	}
	r := &dataReader{c: c}
	report, err := archive.Unpack(c.ctx, r, name, o)
	if r.err != nil {
		return r.err
	}
	if err == nil && !r.ended {
		_, err = io.Copy(io.Discard, r)
	}
	if err != nil {
		// The error goes out now, and the rest of the data is thrown away so that the connection can be kept.
		if sendErr := c.send(wire.FrameError, wire.FaultOf(archiveError(err, name))); sendErr != nil {
			return broken(sendErr)
		}
		if r.ended {
			return nil
		}
		return c.discard()
	}
	return c.reply(encodeReport(report))
}

// openTarget makes sure that there is a directory to unpack into, and says whether it is new.
func openTarget(name string, parents bool, acc account) (made bool, err error) {
	st, err := os.Stat(name)
	switch {
	case err == nil && !st.IsDir():
		return false, core.Invalid("path", "it is not a directory: %s", quote(name))
	case !errors.Is(err, fs.ErrNotExist) || !parents:
		return false, err
	}
	if err := makeParents(path.Dir(name), acc); err != nil {
		return false, err
	}
	return true, makeDir(name, 0o755, acc)
}

// dataReader reads data frames up to their end.
type dataReader struct {
	c     *session
	rest  []byte
	ended bool
	// err is what broke the connection.
	err error
}

// Read reads on.
func (r *dataReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		switch {
		case r.err != nil:
			return 0, r.err
		case r.ended:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		r.rest, r.ended, r.err = r.c.data()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// archiveError says in the caller's words what went wrong with an archive: with which file, where that is known.
func archiveError(err error, name string) error {
	var at *fs.PathError
	if errors.As(err, &at) && !path.IsAbs(at.Path) {
		name = join(name, at.Path)
	}
	return fileError(err, "path", name)
}

func encodeReport(r core.ArchiveReport) wire.ArchiveReport {
	out := wire.ArchiveReport{Files: r.Files, Directories: r.Directories, Bytes: r.Bytes, Skipped: r.Skipped}
	for _, n := range r.Notes {
		out.Notes = append(out.Notes, wire.ArchiveNote{Path: wire.Bytes(n.Path), Reason: n.Reason})
	}
	return out
}
