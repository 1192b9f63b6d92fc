package envd

import (
	"net/http"
	"time"

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
