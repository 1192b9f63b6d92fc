package envd

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/httpserve"
)

// download streams a file, or a range of it.
func (h *handler) download(w *answer, r *http.Request) error {
	dialect.CallOf(r.Context()).Quiet = true
	query := r.URL.Query()
	user := query.Get("username")
	if err := checkUser(user); err != nil {
		return err
	}
	f, err := h.filesOf(r.Context(), user)
	if err != nil {
		return err
	}
	place, err := f.place(r.Context(), "path", query.Get("path"))
	if err != nil {
		return err
	}
	want, err := parseRange(r)
	if err != nil {
		return err
	}
	packed, err := wantsGzip(r.Header.Values("Accept-Encoding"))
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", contentType(place.Path))
	header.Set("Content-Disposition", disposition(place.Path))
	// A page that is shown from here belongs to no origin and runs no script.
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:")
	header.Add("Vary", "Accept-Encoding")
	if r.Method == http.MethodHead {
		return f.head(r.Context(), w, place.Path)
	}
	if want.suffix > 0 {
		size, err := f.size(r.Context(), place.Path)
		if err != nil {
			return err
		}
		want.from = max(size-want.suffix, 0)
	}
	info, content, err := f.guest.ReadFile(r.Context(), place.Path, want.from, want.length)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // what could still fail has no effect on what was read
	switch {
	case packed:
		return sendPacked(w, content, h.stall)
	case want.whole:
		w.Header().Set("Accept-Ranges", "bytes")
		return httpserve.SendFile(w, info, content, h.stall)
	}
	return sendRange(w, want, info, content, h.stall)
}

// size returns how large a file says that it is, behind all links.
func (f files) size(ctx context.Context, name string) (int64, error) {
	info, content, err := f.guest.ReadFile(ctx, name, 0, 0)
	if err != nil {
		return 0, err
	}
	_ = content.Close() // nothing was asked for
	return info.Size, nil
}

// head answers with what is known of a file.
func (f files) head(ctx context.Context, w *answer, name string) error {
	size, err := f.size(ctx, name)
	if err != nil {
		return err
	}
	w.Header().Set("Accept-Ranges", "bytes")
	if size > 0 { // of a file of /proc, zero says nothing
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// sendRange answers with a part of a file.
func sendRange(w *answer, want byteRange, info core.FileInfo, content io.Reader, stall time.Duration) error {
	if want.from >= info.Size {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", info.Size))
		return httpserve.WithStatus(http.StatusRequestedRangeNotSatisfiable, core.Invalid("Range", "the file has %d bytes", info.Size))
	}
	length := info.Size - want.from
	if want.length >= 0 {
		length = min(length, want.length)
	}
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", want.from, want.from+length-1, info.Size))
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	w.WriteHeader(http.StatusPartialContent)
	return httpserve.Send(w, io.LimitReader(content, length), length, stall)
}

// sendPacked streams a whole file for a client that takes it compressed only.
func sendPacked(w *answer, content io.Reader, stall time.Duration) error {
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(http.StatusOK)
	z := gzip.NewWriter(w)
	if err := httpserve.Send(packing{w, z}, content, -1, stall); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return httpserve.Gone(err)
	}
	return nil
}

// packing is a reply whose body goes through a compressor.
type packing struct {
	*answer
	z io.Writer
}

// Write sends part of the body.
func (p packing) Write(b []byte) (int, error) { return p.z.Write(b) }

// contentType guesses a type from a file's name, as a browser that shows it needs.
func contentType(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

// disposition says the file's name for who saves it.
func disposition(name string) string {
	if d := mime.FormatMediaType("inline", map[string]string{"filename": text(path.Base(name))}); d != "" {
		return d
	}
	return "inline"
}

// byteRange is what a Range header asks for.
type byteRange struct {
	whole        bool
	from, length int64
	// suffix asks for so many bytes at the end.
	suffix int64
}

// parseRange reads the Range header. Without one, or with If-Range, whose validators are never given out, it is the whole.
func parseRange(r *http.Request) (byteRange, error) {
	all := byteRange{whole: true, length: -1}
	values := r.Header.Values("Range")
	if len(values) == 0 || r.Header.Get("If-Range") != "" {
		return all, nil
	}
	bad := core.Invalid("Range", "Range is one range of bytes: bytes=a-b, bytes=a- or bytes=-n")
	spec, ok := strings.CutPrefix(values[0], "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !ok || !dash || len(values) > 1 {
		return all, bad
	}
	from, fromErr := strconv.ParseUint(first, 10, 62)
	to, toErr := strconv.ParseUint(last, 10, 62)
	switch {
	case first == "" && toErr == nil && to > 0:
		return byteRange{length: -1, suffix: int64(to)}, nil
	case fromErr == nil && last == "":
		return byteRange{from: int64(from), length: -1}, nil
	case fromErr == nil && toErr == nil && to >= from:
		return byteRange{from: int64(from), length: int64(to-from) + 1}, nil
	}
	return all, bad
}

// wantsGzip reports whether a client takes content only when it is compressed. Where it has the choice it is spared the work, and so is
// the server. A client that takes neither is refused.
func wantsGzip(values []string) (bool, error) {
	quality := map[string]float64{}
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
		q := 1.0
		if text, ok := strings.CutPrefix(strings.TrimSpace(parameters), "q="); ok {
			if n, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
				q = n
			}
		}
		quality[strings.ToLower(strings.TrimSpace(name))] = q
	}
	star, hasStar := quality["*"]
	plain, ok := quality["identity"]
	if !ok {
		plain = 1
		if hasStar && star == 0 {
			plain = 0
		}
	}
	if plain > 0 {
		return false, nil
	}
	packed, ok := quality["gzip"]
	if !ok {
		packed = star
	}
	if packed > 0 {
		return true, nil
	}
	return false, httpserve.WithStatus(http.StatusNotAcceptable, core.Invalid("Accept-Encoding", "content comes as it is or by gzip: accept identity or gzip"))
}
