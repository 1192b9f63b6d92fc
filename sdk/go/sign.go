package shoal

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"shoal/api"
)

// SignOptions say what a signed URL opens.
type SignOptions struct {
	// Write says that the file may be written, with PUT, and not read.
	Write bool
	// For is how long the URL holds, in whole seconds; zero means one hour, at most 7 days.
	For time.Duration
	// MaxBytes bounds what may be written; zero is no limit. User owns it, Parents makes missing directories above it.
	MaxBytes int64
	User     string
	Parents  bool
}

// SignedFile is a URL that reads or writes one file without an API key.
type SignedFile = api.SignedFile

// Sign makes a URL that reads or writes one file and works without an API key, until it expires, the sandbox is deleted, or the key that
// signed it is. It leads to the server as this client reaches it.
func (f Files) Sign(ctx context.Context, name string, o SignOptions) (SignedFile, error) {
	p, err := f.path(":sign")
	if err != nil {
		return SignedFile{}, err
	}
	in := api.SignFileRequest{
		ExpiresInSeconds: int64(o.For / time.Second), MaxBytes: o.MaxBytes, User: o.User, Parents: o.Parents,
	}
	in.Path, in.PathRaw = api.Text([]byte(name))
	if o.Write {
		in.Method = http.MethodPut
	}
	if o.For > 0 && o.For < time.Second {
		return SignedFile{}, &Error{Code: CodeInvalid, Field: "expires_in_seconds", Message: "a signed URL lasts a second at least"}
	}
	var out SignedFile
	if err := f.c.do(ctx, call{method: http.MethodPost, path: p, in: in}, &out); err != nil {
		return out, err
	}
	// Between us and the server there may be something that the server knows nothing of.
	u, err := url.Parse(out.URL)
	if err != nil {
		return out, &Error{Code: CodeInternal, Message: "the server's signed URL is none", Err: err}
	}
	base := f.c.BaseURL
	if base == "" {
		base = DefaultURL
	}
	out.URL = strings.TrimSuffix(base, "/") + u.RequestURI()
	return out, nil
}
