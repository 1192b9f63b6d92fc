package shoal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shoal/api"
)

// Resume says how a transfer that breaks off is gone on with.
type Resume struct {
	// Patience is how long is waited while nothing gets through; zero means 3 minutes, less than zero not to go on at all.
	Patience time.Duration
	// Resumed, unless nil, is told each time why the transfer broke off and at which byte it goes on.
	Resumed func(at int64, why error)
}

// defaultPatience is longer than a server takes to notice that a connection is gone.
const defaultPatience = 3 * time.Minute

// tries waits between tries, and gives up when nothing has got through for too long.
type tries struct {
	Resume
	// reached is the furthest byte so far, since when nothing gets any further; zero while all goes well.
	reached int64
	since   time.Time
	count   int
}

func newTries(o Resume) *tries {
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	return &tries{Resume: o}
}

// at notes how far the transfer is.
func (t *tries) at(n int64) {
	if n > t.reached {
		t.reached, t.since, t.count = n, time.Time{}, 0
	}
}

// again waits before the next try. It returns why there is none.
func (t *tries) again(ctx context.Context, why error) error {
	wait := min(firstDelay<<min(t.count, 5), time.Second)
	var e *Error
	if errors.As(why, &e) && e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	t.count++
	if t.since.IsZero() {
		t.since = time.Now()
	}
	if ctx.Err() != nil || time.Since(t.since)+wait > t.Patience || sleep(ctx, wait) != nil {
		return why
	}
	return nil
}

// Upload writes a whole file of so many bytes from r, and goes on where it was when the connection broke or the server was restarted.
// It appears whole or not at all, after its digest was checked from end to end. Of what failed for good nothing is left. A sandbox that was started by an older release
// gets the file with Write. Append can't be chosen.
func (f Files) Upload(ctx context.Context, path string, r io.ReaderAt, size int64, o WriteOptions, resume Resume) (FileInfo, error) {
	if o.Append {
		return FileInfo{}, &Error{Code: CodeInvalid, Field: "append", Message: "Upload replaces a file: add to its end with Write"}
	}
	p, err := f.path("")
	if err != nil {
		return FileInfo{}, err
	}
	u := &uploading{
		files: f, path: p, query: writeQuery(path, o), partial: strings.ToLower(rand.Text()),
		from: &summed{r: r, size: size, sum: sha256.New()}, tries: newTries(resume),
	}
	u.query.Set("partial", u.partial)
	info, err := u.run(ctx)
	if err == nil {
		return info, nil
	}
	if !u.began && knowsNoParts(err) {
		return f.Write(ctx, path, io.NewSectionReader(r, 0, size), o)
	}
	u.abandon(ctx)
	return info, err
}

// knowsNoParts reports whether a server, or the agent in a sandbox, says that it is of a release that takes a file in one call only.
func knowsNoParts(err error) bool {
	if ErrorCode(err) == CodeInvalid {
		return slices.Contains([]string{"more", "offset", "partial"}, errField(err))
	}
	return ErrorCode(err) == CodeUnsupported
}

// uploading is an upload that is under way.
type uploading struct {
	files   Files
	path    string
	query   url.Values
	partial string
	from    *summed
	tries   *tries
	// began says that the server has begun to keep it.
	began bool
}

// abandon throws away what has come, whatever became of the caller's context. A server that can't be reached does so in its time.
func (u *uploading) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for ErrorCode(u.files.DropPartial(ctx, u.partial)) == CodeConflict { // it has not yet noticed that the connection is gone
		if sleep(ctx, firstDelay) != nil {
			return
		}
	}
}

// run sends what is missing until the file is whole.
func (u *uploading) run(ctx context.Context) (FileInfo, error) {
	for offset := int64(0); ; {
		info, err := u.send(ctx, offset)
		if err == nil {
			return info, nil
		}
		if err := u.from.broken(); err != nil {
			return info, err
		}
		if !u.worthwhile(err) {
			return info, err
		}
		why, before := err, u.tries.reached
		if sleep(ctx, firstDelay) != nil { // what was sent before the break is still being written
			return info, why
		}
		if offset, err = u.reached(ctx, why); err != nil {
			return info, err
		}
		if u.tries.reached <= before { // else it got on, and is not tried in vain
			if err := u.tries.again(ctx, why); err != nil {
				return info, err
			}
		}
		if u.tries.Resumed != nil && ErrorCode(why) != CodeConflict && ErrorCode(why) != CodeQuota {
			u.tries.Resumed(offset, why)
		}
	}
}

// worthwhile reports whether a part that failed may succeed later.
func (u *uploading) worthwhile(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false // the caller's own context
	}
	switch e.Code {
	case CodeUnavailable, CodeTimeout, CodeQuota:
		return true
	case CodeConflict:
		return e.Field == "offset" || e.Field == "partial"
	case CodeInvalid:
		return e.Field == "" // the server says that the body was cut off
	default:
		return false
	}
}

// send sends the file from an offset, and then has it put in its place.
func (u *uploading) send(ctx context.Context, offset int64) (FileInfo, error) {
	q := u.query
	if offset < u.from.size || !u.began {
		q.Set("more", "true")
		q.Set("offset", strconv.FormatInt(offset, 10))
		body := io.NewSectionReader(u.from, offset, u.from.size-offset)
		var kept api.PartialFile
		if err := u.put(ctx, nil, struct{ io.Reader }{body}, &kept); err != nil {
			return FileInfo{}, err
		}
		u.began = true
		u.tries.at(kept.Size)
		if kept.Size != u.from.size {
			return FileInfo{}, &Error{Code: CodeInternal, Message: fmt.Sprintf("the server has %d of %d bytes", kept.Size, u.from.size)}
		}
	}
	q.Del("more")
	q.Set("offset", strconv.FormatInt(u.from.size, 10))
	sum := base64.StdEncoding.EncodeToString(u.from.digest())
	var out FileInfo
	return out, u.put(ctx, http.Header{"Repr-Digest": {"sha-256=:" + sum + ":"}}, http.NoBody, &out)
}

func (u *uploading) put(ctx context.Context, header http.Header, body io.Reader, out any) error {
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/octet-stream")
	return u.files.c.do(ctx, call{method: http.MethodPut, path: u.path, query: u.query, body: body, header: header}, out)
}

// reached asks how far the file has come. A server that can't be reached is waited for.
func (u *uploading) reached(ctx context.Context, why error) (int64, error) {
	for {
		p, err := u.files.Partial(ctx, u.partial)
		switch {
		case err == nil:
			u.began = true
			u.tries.at(p.Size)
			return min(p.Size, u.from.size), nil
		case ErrorCode(err) == CodeNotFound && errField(err) == "partial":
			u.began = false
			u.tries.reached = 0
			return 0, nil
		case !u.worthwhile(err):
			return 0, err
		}
		if ErrorCode(why) != CodeConflict {
			why = err
		}
		if err := u.tries.again(ctx, why); err != nil {
			return 0, err
		}
	}
}

func errField(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Field
	}
	return ""
}

// summed sums up a file as it is read for the first time, from its beginning. A try that was given up may still be reading when the next
// begins.
type summed struct {
	r    io.ReaderAt
	size int64

	mu  sync.Mutex
	sum hash.Hash
	// upTo is how far it is summed up, failed why it can't be read.
	upTo   int64
	failed error
}

// ReadAt reads at an offset no further than what was read before.
func (s *summed) ReadAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.r.ReadAt(p, off)
	if fresh := off + int64(n) - s.upTo; fresh > 0 && off <= s.upTo {
		_, _ = s.sum.Write(p[int64(n)-fresh : n]) // a hash takes everything
		s.upTo += fresh
	}
	if errors.Is(err, io.EOF) && off+int64(n) < s.size {
		err = fmt.Errorf("the file was to have %d bytes and ends after %d: %w", s.size, off+int64(n), io.ErrUnexpectedEOF)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

// digest is of all that was read, broken why it could not be.
func (s *summed) digest() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum.Sum(nil)
}

func (s *summed) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// PartialFile is a file that is written in parts.
type PartialFile = api.PartialFile

// Partial tells how far a file has come that is written in parts.
func (f Files) Partial(ctx context.Context, partial string) (PartialFile, error) {
	p, err := path("v1", "sandboxes", f.sandbox, "partials", partial)
	if err != nil {
		return PartialFile{}, err
	}
	var out PartialFile
	return out, f.c.do(ctx, call{method: http.MethodGet, path: p}, &out)
}

// DropPartial throws away what has come of a file that is written in parts.
func (f Files) DropPartial(ctx context.Context, partial string) error {
	p, err := path("v1", "sandboxes", f.sandbox, "partials", partial)
	if err != nil {
		return err
	}
	return f.c.do(ctx, call{method: http.MethodDelete, path: p}, nil)
}

// Download is a file's content that is read on where it was when the connection broke or the server was restarted.
type Download struct {
	files Files
	ctx   context.Context
	path  string
	tries *tries
	body  io.ReadCloser
	// tag is the version of the file, empty if it has none; size is below zero if nobody knows it. at is how much was read.
	tag      string
	size, at int64
	err      error
}

// Download returns a file's whole content, as Read does, and goes on where it was if it breaks off. A file that is changed meanwhile is a conflict.
// One without versions, such as those of /proc, can't be gone on with. The caller closes it.
func (f Files) Download(ctx context.Context, path string, resume Resume) (*Download, error) {
	d := &Download{files: f, ctx: ctx, path: path, tries: newTries(resume)}
	return d, d.open()
}

// open asks for what is missing.
func (d *Download) open() error {
	p, err := d.files.path("")
	if err != nil {
		return err
	}
	header := http.Header{}
	if d.at > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", d.at))
	}
	if d.tag != "" {
		header.Set("If-Match", d.tag)
	}
	resp, err := d.files.c.send(d.ctx, call{method: http.MethodGet, path: p, query: pathQuery(d.path), header: header})
	if err != nil {
		return err
	}
	if d.body == nil {
		d.tag, d.size = resp.Header.Get("ETag"), resp.ContentLength
	}
	if d.at > 0 && !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.at)) {
		_ = resp.Body.Close()
		return &Error{Code: CodeInternal, Message: "the server doesn't go on where it was asked to"}
	}
	d.body = &content{d.ctx, resp.Body}
	return nil
}

// Size is how many bytes the content has; less than zero if nobody knows.
func (d *Download) Size() int64 { return d.size }

// Read reads the content. io.EOF says that it was all.
func (d *Download) Read(p []byte) (int, error) {
	for d.err == nil {
		n, err := d.body.Read(p)
		d.at += int64(n)
		d.tries.at(d.at)
		switch {
		case errors.Is(err, io.EOF):
			d.err = io.EOF
		case err != nil:
			d.err = d.resume(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, d.err
}

// resume goes on after an error; it returns why that can't be.
func (d *Download) resume(why error) error {
	_ = d.body.Close()
	if d.tag == "" || ErrorCode(why) != CodeUnavailable {
		return why
	}
	for {
		if err := d.tries.again(d.ctx, why); err != nil {
			return err
		}
		err := d.open()
		if err == nil {
			if d.tries.Resumed != nil {
				d.tries.Resumed(d.at, why)
			}
			return nil
		}
		if code := ErrorCode(err); code != CodeUnavailable && code != CodeTimeout && code != CodeQuota {
			return err
		}
		why = err
	}
}

// Close ends the reading, at whatever point it is.
func (d *Download) Close() error { return d.body.Close() }
