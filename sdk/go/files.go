package shoal

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"shoal/api"
)

// Files reads and changes files in one sandbox; of one that doesn't run they can only be read. Paths are absolute inside the sandbox; they are bytes, and need
// not be UTF-8.
type Files struct {
	c       *Client
	sandbox string
}

// Files returns the calls on the files of a sandbox, by its id or name.
func (c *Client) Files(sandbox string) Files { return Files{c, sandbox} }

// WriteOptions say how a file or directory is made.
type WriteOptions struct {
	// Mode is the permission bits; zero means 0644 for a file and 0755 for a directory.
	Mode uint32
	// User owns it, a name or number, optionally ":group"; empty means the template's default user.
	User string
	// Parents makes missing parent directories.
	Parents bool
	// Append adds to the end of a file that is there; Mode and User are for one that is made then.
	Append bool
}

// Read returns a file's whole content. The caller closes it. A content that was cut off ends with an error, not io.EOF.
func (f Files) Read(ctx context.Context, path string) (io.ReadCloser, error) {
	return f.read(ctx, path, nil)
}

// ReadRange returns length bytes of a file's content from offset, fewer if it ends before; a length below 0 means to the
// end. The caller closes it. An offset behind the end is an *Error with Status 416.
func (f Files) ReadRange(ctx context.Context, path string, offset, length int64) (io.ReadCloser, error) {
	if offset < 0 || length == 0 {
		return nil, &Error{Code: CodeInvalid, Message: "a range begins at 0 or later and has at least one byte"}
	}
	value := fmt.Sprintf("bytes=%d-", offset)
	if length > 0 {
		value += strconv.FormatInt(offset+length-1, 10)
	}
	return f.read(ctx, path, http.Header{"Range": {value}})
}

func (f Files) read(ctx context.Context, path string, header http.Header) (io.ReadCloser, error) {
	p, err := f.path("")
	if err != nil {
		return nil, err
	}
	resp, err := f.c.send(ctx, call{method: http.MethodGet, path: p, query: pathQuery(path), header: header}) //nolint:bodyclose // The caller closes it.
	if err != nil {
		return nil, err
	}
	return &content{ctx, resp.Body}, nil
}

// content is a reply's body whose errors are this package's.
type content struct {
	ctx  context.Context
	body io.ReadCloser
}

// Read reads the body.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // io.EOF must be passed on as it is.
		err = transportError(c.ctx, err)
	}
	return n, err
}

// Close closes the body.
func (c *content) Close() error { return c.body.Close() }

// Write writes a whole file from r. It appears whole or not at all: on any error the old content stands. It is not tried
// again by itself, since r is read once.
func (f Files) Write(ctx context.Context, path string, r io.Reader, o WriteOptions) (FileInfo, error) {
	p, err := f.path("")
	if err != nil {
		return FileInfo{}, err
	}
	q := writeQuery(path, o)
	if r == nil {
		r = http.NoBody
	}
	var out FileInfo
	return out, f.c.do(ctx, call{
		method: http.MethodPut, path: p, query: q, body: r,
		header: http.Header{"Content-Type": {"application/octet-stream"}},
	}, &out)
}

func writeQuery(path string, o WriteOptions) url.Values {
	q := pathQuery(path)
	if o.Mode != 0 {
		q.Set("mode", octal(o.Mode))
	}
	if o.User != "" {
		q.Set("user", o.User)
	}
	if o.Parents {
		q.Set("parents", "true")
	}
	if o.Append {
		q.Set("append", "true")
	}
	return q
}

// Stat describes a file; a symbolic link itself, not what it points to.
func (f Files) Stat(ctx context.Context, path string) (FileInfo, error) {
	p, err := f.path("/stat")
	if err != nil {
		return FileInfo{}, err
	}
	var out FileInfo
	return out, f.c.do(ctx, call{method: http.MethodGet, path: p, query: pathQuery(path)}, &out)
}

// List returns a directory's entries in the byte order of their names, and fetches pages as they are needed. After an
// error it ends.
func (f Files) List(ctx context.Context, path string) iter.Seq2[FileInfo, error] {
	return pages(func(cursor string) ([]FileInfo, string, error) {
		p, err := f.path("/list")
		if err != nil {
			return nil, "", err
		}
		var page api.FileList
		err = f.c.do(ctx, call{method: http.MethodGet, path: p, query: withCursor(pathQuery(path), cursor)}, &page)
		return page.Files, page.NextCursor, err
	})
}

// Mkdir makes a directory; with Parents also those above it, and one that exists is no error then.
func (f Files) Mkdir(ctx context.Context, path string, o WriteOptions) error {
	p, err := f.path("/mkdir")
	if err != nil {
		return err
	}
	req := api.MakeDirectoryRequest{User: o.User, Parents: o.Parents}
	req.Path, req.PathRaw = api.Text([]byte(path))
	if o.Mode != 0 {
		req.Mode = octal(o.Mode)
	}
	return f.c.do(ctx, call{method: http.MethodPost, path: p, in: req}, nil)
}

// Move renames a file or directory; a file at the target is replaced.
func (f Files) Move(ctx context.Context, from, to string) error {
	p, err := f.path("/move")
	if err != nil {
		return err
	}
	var req api.MoveFileRequest
	req.From, req.FromRaw = api.Text([]byte(from))
	req.To, req.ToRaw = api.Text([]byte(to))
	return f.c.do(ctx, call{method: http.MethodPost, path: p, in: req}, nil)
}

// Remove removes a file or an empty directory, recursively also a directory with all that is in it.
func (f Files) Remove(ctx context.Context, path string, recursive bool) error {
	p, err := f.path("")
	if err != nil {
		return err
	}
	q := pathQuery(path)
	if recursive {
		q.Set("recursive", "true")
	}
	return f.c.do(ctx, call{method: http.MethodDelete, path: p, query: q}, nil)
}

func (f Files) path(rest string) (string, error) {
	p, err := path("v1", "sandboxes", f.sandbox, "files")
	return p + rest, err
}

// pathQuery holds a path in the form that its bytes allow.
func pathQuery(path string) url.Values {
	if utf8.ValidString(path) {
		return url.Values{"path": {path}}
	}
	return url.Values{"path_raw": {base64.RawURLEncoding.EncodeToString([]byte(path))}}
}

func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }
