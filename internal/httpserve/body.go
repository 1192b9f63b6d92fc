package httpserve

import (
	"bytes"
	"errors"
	"net/http"
	"time"

	"shoal/internal/core"
)

// BodyTimeout is how long a client may take to send a short body, such as a JSON request.
const BodyTimeout = 30 * time.Second

// ReadBody reads a body of at most so many bytes, which must come within the time. A longer one is an error with HTTP's own status for it.
func ReadBody(w http.ResponseWriter, r *http.Request, most int64, within time.Duration) ([]byte, error) {
	rc := http.NewResponseController(w)
	if err := Extend(rc.SetReadDeadline, within); err != nil {
		return nil, err
	}
	// As large as it says it is, so that nothing is copied while it grows.
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), most)) + bytes.MinRead)
	if _, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, most)); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, WithStatus(http.StatusRequestEntityTooLarge, core.Invalid("body", "the body has at most %d bytes: send what is longer as a file", most))
		}
		return nil, core.Wrap(core.CodeInvalid, err, "the body was cut off")
	}
	// A deadline left standing would end the request's context when it passes.
	return b.Bytes(), Extend(rc.SetReadDeadline, 0)
}
