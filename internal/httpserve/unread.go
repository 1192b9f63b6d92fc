package httpserve

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// unreadTimeout is how long a client may take to send what nobody reads of a body.
const unreadTimeout = 10 * time.Second

// hurryUnread limits how long a handler's reply waits for a body that is not read. net/http reads what is left of it before it sends the
// reply's head: after the handler if the reply is short, else while the handler writes. Without a limit a stranger could hold a connection
// for ever by promising a body and sending none. Who reads a body sets the limits for that.
func hurryUnread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 || r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		set := http.NewResponseController(w).SetReadDeadline
		_ = set(time.Now().Add(unreadTimeout)) // it fails for a connection that is gone
		body := &unread{ReadCloser: r.Body, set: set}
		copied := *r
		copied.Body = body
		next.ServeHTTP(w, &copied)
		if !body.ended.Load() {
			_ = set(time.Now().Add(unreadTimeout))
		}
	})
}

// unread is a body that is limited until somebody reads it.
type unread struct {
	io.ReadCloser
	set   func(time.Time) error
	ended atomic.Bool
}

// Read reads the next part. Its reader may have set a limit before the first, so that is only taken away when the body has come: one left
// standing would end the request's context.
func (u *unread) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !u.ended.Swap(true) {
		_ = u.set(time.Time{})
	}
	return n, err
}
