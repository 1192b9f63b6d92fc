package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// readFile streams a file's content, or a range of it.
func (a fileAPI) readFile(w http.ResponseWriter, r *request) error {
	path, err := r.filePath()
	if err != nil {
		return err
	}
	reader, err := a.reader(r)
	if err != nil {
		return err
	}
	return a.sendFile(w, r, reader, path)
}

// sendFile answers with a file's content, a range of it, or only what is known of it.
func (a fileAPI) sendFile(w http.ResponseWriter, r *request, reader core.FileReader, path string) error {
	if r.Method == http.MethodHead {
		return headFile(w, r, reader, path)
	}
	want, err := parseRange(r.Request)
	if err != nil {
		return err
	}
	if want.suffix > 0 {
		info, content, err := reader.ReadFile(r.Context(), path, 0, 0) // behind all links
		if err != nil {
			return err
		}
		_ = content.Close() // nothing was asked for
		want.from = max(info.Size-want.suffix, 0)
	}
	info, content, err := reader.ReadFile(r.Context(), path, want.from, want.length)
	if err == nil && !want.whole && !inRange(r.Header, info) {
		// Another version than the one that the caller has a part of: it gets all of this one.
		_ = content.Close()
		want = byteRange{whole: true, length: -1}
		info, content, err = reader.ReadFile(r.Context(), path, 0, -1)
	}
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // What could still fail has no effect on what was read.
	if done, err := precondition(w, r, info); done || err != nil {
		return err
	}
	if want.whole {
		return a.sendWhole(w, info, content)
	}
	return a.sendRange(w, want, info, content)
}

// headFile answers with what is known of a file without reading it.
func headFile(w http.ResponseWriter, r *request, reader core.FileReader, path string) error {
	info, content, err := reader.ReadFile(r.Context(), path, 0, 0)
	if err != nil {
		return err
	}
	_ = content.Close() // nothing was asked for
	if done, err := precondition(w, r, info); done || err != nil {
		return err
	}
	if info.Type == core.FileRegular && info.Size > 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(info.Size, 10))
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// precondition sets the headers that every answer about a file's content has, and obeys those of the request that make it depend on
// the file's version. done says that it was answered.
func precondition(w http.ResponseWriter, r *request, info core.FileInfo) (done bool, err error) {
	tag := etag(info)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Accept-Ranges", "bytes")
	if tag != "" {
		w.Header().Set("ETag", tag)
	}
	if want := r.Header.Get("If-Match"); want != "" && !matches(want, tag) {
		return false, httpserve.WithStatus(http.StatusPreconditionFailed, core.Errorf(core.CodeConflict, "the file has changed"))
	}
	if have := r.Header.Get("If-None-Match"); have != "" && matches(have, tag) {
		w.WriteHeader(http.StatusNotModified)
		return true, nil
	}
	return false, nil
}

// etag names a version of a file's content; empty where nobody can tell versions apart.
func etag(info core.FileInfo) string {
	if info.Version == "" {
		return ""
	}
	return `"` + info.Version + `"`
}

// matches reports whether a list of tags has one, or is a star.
func matches(list, tag string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "*" || item == tag && tag != "" {
			return true
		}
	}
	return false
}

// inRange reports whether a range of this version is wanted.
func inRange(h http.Header, info core.FileInfo) bool {
	want := h.Get("If-Range")
	return want == "" || want == etag(info)
}

// sendWhole streams a whole file.
func (a fileAPI) sendWhole(w http.ResponseWriter, info core.FileInfo, content io.Reader) error {
	return httpserve.SendFile(w, info, content, a.options.Stall)
}

// sendRange answers with 206, or 416 if the range begins behind the end.
func (a fileAPI) sendRange(w http.ResponseWriter, want byteRange, info core.FileInfo, content io.Reader) error {
	if want.from >= info.Size {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", info.Size))
		return httpserve.WithStatus(http.StatusRequestedRangeNotSatisfiable, core.Invalid("Range", "the file has %d bytes", info.Size))
	}
	length := info.Size - want.from
	if want.length >= 0 {
		length = min(length, want.length)
	}
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", want.from, want.from+length-1, info.Size))
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	w.WriteHeader(http.StatusPartialContent)
	return a.send(w, io.LimitReader(content, length), length)
}

// send copies content to the client. A length that isn't reached is an error, which cuts the connection.
func (a fileAPI) send(w http.ResponseWriter, content io.Reader, length int64) error {
	return httpserve.Send(w, content, length, a.options.Stall)
}

// byteRange is what a Range header asks for.
type byteRange struct {
	whole        bool
	from, length int64
	// suffix asks for so many bytes at the end.
	suffix int64
}

// parseRange reads the Range header. Without one it is the whole.
func parseRange(r *http.Request) (byteRange, error) {
	all := byteRange{whole: true, length: -1}
	values := r.Header.Values("Range")
	if len(values) == 0 {
		return all, nil
	}
	bad := core.Invalid("Range", "Range is one range of bytes: bytes=a-b, bytes=a- or bytes=-n")
	spec, ok := strings.CutPrefix(values[0], "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !ok || !dash || len(values) > 1 {
		return all, bad
	}
	number := func(s string) (int64, bool) {
		n, err := strconv.ParseUint(s, 10, 63)
		return int64(n), err == nil
	}
	if first == "" {
		n, ok := number(last)
		if !ok || n == 0 {
			return all, bad
		}
		return byteRange{length: -1, suffix: n}, nil
	}
	from, ok := number(first)
	if !ok {
		return all, bad
	}
	if last == "" {
		return byteRange{from: from, length: -1}, nil
	}
	to, ok := number(last)
	if !ok || to < from {
		return all, bad
	}
	return byteRange{from: from, length: max(to-from+1, to-from)}, nil
}

// writeFile writes a file from the request's body, however long that is.
func (a fileAPI) writeFile(w http.ResponseWriter, r *request) error {
	path, err := r.filePath()
	if err != nil {
		return err
	}
	mode, err := parseMode(r.query.Get("mode"))
	if err != nil {
		return err
	}
	options := core.WriteOptions{
		Mode: mode, User: r.query.Get("user"), Parents: r.flag("parents"), Append: r.flag("append"),
	}
	part, err := r.part(options)
	if err != nil {
		return err
	}
	guest, err := a.guest(r)
	if err != nil {
		return err
	}
	if part != nil {
		return a.takePart(w, r, guest, path, *part)
	}
	return a.takeFile(w, r, guest, path, options)
}

// takeFile writes a file from the request's body and answers with it.
func (a fileAPI) takeFile(w http.ResponseWriter, r *request, guest core.Guest, path string, o core.WriteOptions) error {
	body := httpserve.NewUpload(w, r.Request, a.options.Stall)
	content, err := digested(r.Request, body)
	if err != nil {
		return err
	}
	info, err := guest.WriteFile(r.Context(), path, o, content)
	if body.Err != nil {
		return core.Wrap(core.CodeInvalid, errors.Join(body.Err, err), "the body was cut off: the file is as it was")
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeFile(info))
}
