package envd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"shoal/internal/dialect/e2b/envd/processpb"
	"shoal/internal/httpserve"
)

// patient is a reply each of whose writes has a time limit, however many there are and whatever lies between them.
type patient struct {
	http.ResponseWriter
	set   func(time.Time) error
	stall time.Duration
}

func newPatient(w http.ResponseWriter, stall time.Duration) *patient {
	return &patient{ResponseWriter: w, set: http.NewResponseController(w).SetWriteDeadline, stall: stall}
}

// within gives the client its time for one act. A deadline left standing would end a stream that has nothing to say, so it is taken
// away again. One that can't be set is that of a connection which is gone, as the write will tell.
func (p *patient) within(act func()) {
	_ = httpserve.Extend(p.set, p.stall)
	act()
	_ = httpserve.Extend(p.set, 0)
}

// WriteHeader sends the status.
func (p *patient) WriteHeader(status int) { p.within(func() { p.ResponseWriter.WriteHeader(status) }) }

// Write sends part of the body.
func (p *patient) Write(b []byte) (n int, err error) {
	p.within(func() { n, err = p.ResponseWriter.Write(b) })
	return n, err
}

// Flush sends what is buffered. Libraries that stream ask the writer itself whether it can.
func (p *patient) Flush() {
	p.within(func() { _ = http.NewResponseController(p.ResponseWriter).Flush() }) // a client that is gone is told by the next write
}

// Unwrap lets http.ResponseController reach the connection.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// done leaves a limit for what the server itself still sends.
func (p *patient) done() { _ = httpserve.Extend(p.set, p.stall) }

// steady is a request's body of which every part must come within a time. Unlike httpserve.Upload it leaves no limit standing between
// parts, since who reads it may stop before its end and then answer for as long as a process runs. Once a part has not come in time, what
// is left is given no more.
type steady struct {
	io.ReadCloser
	set   func(time.Time) error
	stall time.Duration
}

// Read reads the next part.
func (s *steady) Read(p []byte) (int, error) {
	if err := httpserve.Extend(s.set, s.stall); err != nil {
		return 0, err
	}
	n, err := s.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	if limitErr := httpserve.Extend(s.set, 0); limitErr != nil {
		err = limitErr
	}
	return n, err
}

// steadily gives who calls a service a limit for each part of what is sent. What goes to a process as it is typed may be silent for
// long, so it only ends when closing does.
func (h *handler) steadily(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		set := http.NewResponseController(w).SetReadDeadline
		if r.URL.Path == processpb.ProcessStreamInputProcedure {
			// It fails for a connection that is gone.
			_ = httpserve.Extend(set, 0)
			defer context.AfterFunc(h.closing, func() { _ = set(time.Now()) })() //nolint:contextcheck // It is the server's life, not the call's.
			next.ServeHTTP(w, r)
			return
		}
		copied := *r
		copied.Body = &steady{r.Body, set, h.stall}
		next.ServeHTTP(w, &copied)
	})
}
