package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"time"
	"unicode/utf8"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// signedPath is where signed URLs lead. The token is a parameter: the log has paths only.
const signedPath = "/v1/signed"

// signFile makes a URL that opens one file to who has no key.
func (a fileAPI) signFile(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	var body api.SignFileRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	name, err := bodyPath("path", body.Path, body.PathRaw)
	if err != nil {
		return err
	}
	write := false
	switch body.Method {
	case "", http.MethodGet:
	case http.MethodPut:
		write = true
	default:
		return core.Invalid("method", "method is GET or PUT")
	}
	signed, err := a.control.SignFile(r.Context(), r.principal, ref, core.FileGrant{
		Path: name, Write: write, For: time.Duration(body.ExpiresInSeconds) * time.Second, MaxBytes: body.MaxBytes, User: body.User, Parents: body.Parents,
	})
	if err != nil {
		return err
	}
	u := url.URL{Scheme: "http", Host: r.Host, Path: signedPath, RawQuery: url.Values{"token": {signed.Token}}.Encode()}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	method := api.SignedFileMethodGET
	if write {
		method = api.SignedFileMethodPUT
	}
	return writeJSON(w, http.StatusCreated, api.SignedFile{URL: u.String(), Method: method, ExpiresAt: signed.ExpiresAt})
}

// openGrant finds out what a signed URL opens. An address from which too many wrong ones came is refused before that.
func (a fileAPI) openGrant(r *request, write bool) (core.SignedGrant, error) {
	token := r.query.Get("token")
	if err := a.strangers.Admit(r.RemoteAddr, token, r.began); err != nil {
		return core.SignedGrant{}, err
	}
	p, g, err := a.control.OpenGrant(r.Context(), token)
	if core.IsCode(err, core.CodeUnauthenticated) {
		a.strangers.Failed(r.RemoteAddr, token, r.began)
	}
	if err != nil {
		return g, err
	}
	a.strangers.Welcome(token)
	r.principal, r.target = p, string(g.Sandbox)
	if err := a.let(r); err != nil {
		return g, err
	}
	if g.Write != write {
		return g, core.Errorf(core.CodeDenied, "the URL is signed for another method")
	}
	return g, nil
}

// readSigned streams the file that a signed URL opens, or a range of it. What a browser shows of it belongs to no origin: httpserve.Secure
// sets what forbids it to run anything here.
func (a fileAPI) readSigned(w http.ResponseWriter, r *request) error {
	g, err := a.openGrant(r, false)
	if err != nil {
		return err
	}
	reader, err := a.control.ReadFiles(r.Context(), r.principal, string(g.Sandbox))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", attachment(path.Base(g.Path)))
	return a.sendFile(w, r, reader, g.Path)
}

// attachment names a file that is to be kept and not shown.
func attachment(name string) string {
	if v := mime.FormatMediaType("attachment", map[string]string{"filename": name}); v != "" && utf8.ValidString(name) {
		return v
	}
	return "attachment"
}

// writeSigned writes the file that a signed URL opens.
func (a fileAPI) writeSigned(w http.ResponseWriter, r *request) error {
	g, err := a.openGrant(r, true)
	if err != nil {
		return err
	}
	if g.MaxBytes > 0 {
		if r.ContentLength > g.MaxBytes {
			return tooMuch(g.MaxBytes)
		}
		r.Body = &boundedBody{ReadCloser: r.Body, left: g.MaxBytes}
	}
	guest, err := a.control.Files(r.Context(), r.principal, string(g.Sandbox))
	if err != nil {
		return err
	}
	err = a.takeFile(w, r, guest, g.Path, core.WriteOptions{User: g.User, Parents: g.Parents})
	if errors.Is(err, errTooMuch) {
		return tooMuch(g.MaxBytes)
	}
	return err
}

var errTooMuch = errors.New("more than the URL is signed for")

func tooMuch(most int64) error {
	return httpserve.WithStatus(http.StatusRequestEntityTooLarge, core.Invalid("body", "the URL is signed for at most %d bytes: the file is as it was", most))
}

// boundedBody fails where a body is longer than it may be, so that what reads it changes nothing.
type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read reads on.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooMuch
	}
	return n, err
}
