package shoal

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"shoal/api"
)

// PackOptions say what an archive holds.
type PackOptions struct {
	// Exclude are patterns of what is left out, a directory with all below it: * ? and [] as in a shell. One without a slash is
	// matched with each name, one with a slash with the path below the root.
	Exclude []string
	// Gzip compresses the archive, in the sandbox.
	Gzip bool
}

// UnpackOptions say how an archive is unpacked.
type UnpackOptions struct {
	// User owns what is made, a name or number, optionally ":group"; empty means the template's default user.
	User string
	// KeepOwners gives everything the numeric owner and group that the archive names, instead of User.
	KeepOwners bool
	// Parents makes the directory if it is missing, and those above it.
	Parents bool
	// Gzip says that the archive is compressed.
	Gzip bool
}

// ArchiveReport is what an archive held, or what became of it.
type ArchiveReport = api.ArchiveReport

// ArchiveNote says what of one file could not be kept.
type ArchiveNote = api.ArchiveNote

// Archive is a tar stream from a sandbox. The caller closes it.
type Archive struct {
	resp    *http.Response
	content content
	report  ArchiveReport
	err     error
}

// Archive returns a file or a tree as a tar stream. The entries of a tree are named relative to it. An archive that was cut off
// ends with an error that says why, not io.EOF.
func (f Files) Archive(ctx context.Context, path string, o PackOptions) (*Archive, error) {
	p, err := f.archivePath()
	if err != nil {
		return nil, err
	}
	q := pathQuery(path)
	for _, pattern := range o.Exclude {
		q.Add("exclude", pattern)
	}
	if o.Gzip {
		q.Set("gzip", "true")
	}
	resp, err := f.c.send(ctx, call{method: http.MethodGet, path: p, query: q, header: http.Header{"Te": {"trailers"}}}) //nolint:bodyclose // The caller closes it.
	if err != nil {
		return nil, err
	}
	return &Archive{resp: resp, content: content{ctx, resp.Body}}, nil
}

// Read reads the archive. io.EOF says that it is whole.
func (a *Archive) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.content.Read(p)
	if errors.Is(err, io.EOF) {
		err = a.end()
	}
	a.err = err
	return n, err
}

// end reads what the server says after the last byte.
func (a *Archive) end() error {
	if text := a.resp.Trailer.Get("Shoal-Error"); text != "" {
		var e api.Error
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return &Error{Code: CodeInternal, Message: "the archive was cut off, and the server's reason is not understood", Err: err}
		}
		return fromAPI(e)
	}
	if err := json.Unmarshal([]byte(a.resp.Trailer.Get("Shoal-Archive")), &a.report); err != nil {
		return &Error{Code: CodeUnavailable, Message: "the archive has no end: something on the way cut it, or drops trailers", Err: err}
	}
	return io.EOF
}

// Report tells what was in the archive once Read has returned io.EOF.
func (a *Archive) Report() ArchiveReport { return a.report }

// Close ends the reading, at whatever point it is.
func (a *Archive) Close() error { return a.content.Close() }

// Unpack makes what a tar stream holds in a directory. What was made until an error stays; no file is half written. It is not tried
// again by itself, since r is read once.
func (f Files) Unpack(ctx context.Context, path string, r io.Reader, o UnpackOptions) (ArchiveReport, error) {
	p, err := f.archivePath()
	if err != nil {
		return ArchiveReport{}, err
	}
	q := pathQuery(path)
	if o.User != "" {
		q.Set("user", o.User)
	}
	for name, set := range map[string]bool{"keep_owners": o.KeepOwners, "parents": o.Parents, "gzip": o.Gzip} {
		if set {
			q.Set(name, "true")
		}
	}
	var out ArchiveReport
	return out, f.c.do(ctx, call{
		method: http.MethodPut, path: p, query: q, body: r, header: http.Header{"Content-Type": {"application/x-tar"}},
	}, &out)
}

func (f Files) archivePath() (string, error) { return path("v1", "sandboxes", f.sandbox, "archive") }
