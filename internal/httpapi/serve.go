package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"time"

	"shoal/internal/core"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// replyTimeout is how long a client may take to read a whole reply. Replies that go on, and files, have a deadline for each
	// of their writes instead.
	replyTimeout = time.Minute
	maxHeader    = 64 << 10
)

// Serve answers requests on ln until ctx ends, then ends the streams, gives other calls grace to finish, and returns nil.
// Processes that clients were following go on.
func (a *API) Serve(ctx context.Context, ln net.Listener, grace time.Duration) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// There is no ReadTimeout or WriteTimeout, which would cut long streams: bodies and writes have rolling deadlines.
	server := &http.Server{
		Handler: a.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, // OPTIONS * is answered by nobody else than us.
		BaseContext:                  func(net.Listener) context.Context { return base },
		ErrorLog:                     slog.NewLogLogger(a.options.Logger.Handler(), slog.LevelDebug),
	}
	// Whatever ends it: nobody uses control any more when it returns.
	defer a.Close()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	select {
	case err := <-failed:
		_ = server.Close() // Its error is that of closing a connection that is given up.
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	a.close()
	wait, stop := context.WithTimeout(base, grace)
	defer stop()
	if err := server.Shutdown(wait); err != nil {
		// What still waits, such as a reply to a long exec, is told that the server goes.
		cancel()
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		if server.Shutdown(last) != nil {
			_ = server.Close() // Its error is that of closing a connection that is given up.
		}
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// serve is the outermost handler: it begins the request, catches panics and writes the one line about it.
func (a *API) serve(w http.ResponseWriter, hr *http.Request) {
	r := newRequest(hr)
	reply := &reply{ResponseWriter: w}
	reply.mayWrite(0) // What the last reply on this connection was given has passed, or will while this one is made.
	secure(reply.Header(), r.id)
	a.metrics.inFlight.Inc()
	defer func() { //nolint:contextcheck // The request carries the context.
		a.metrics.inFlight.Dec()
		p := recover()
		if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so too.
			r.err, r.code = fmt.Errorf("panic: %v\n%s", p, debug.Stack()), core.CodeInternal
			p = http.ErrAbortHandler
			if reply.status == 0 {
				a.fail(reply, r, r.err)
				p = nil
			}
		}
		a.report(r, reply)
		if p != nil {
			panic(p)
		}
	}()
	if err := a.checkHost(hr); err != nil {
		a.fail(reply, r, err)
		return
	}
	if !clean(hr.URL.EscapedPath()) {
		// The mux would redirect, which turns a mistake into a second request.
		a.unknown(reply, r.Request)
		return
	}
	a.mux.ServeHTTP(reply, r.Request)
}

// clean reports whether a path is as the mux would spell it.
func clean(p string) bool {
	c := path.Clean(p)
	return p == c || p == c+"/"
}

// secure sets the headers that every reply has. The API serves no page, so a browser is allowed nothing.
func secure(h http.Header, id string) {
	h.Set("X-Request-Id", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// report writes the one line about a request and counts it.
func (a *API) report(r *request, w *reply) {
	took := time.Since(r.began)
	name := r.op.ID
	if name == "" {
		name = "none"
	}
	a.metrics.observe(name, w.status, took)
	level := slog.LevelInfo
	var unlogged int
	switch {
	case r.code == core.CodeInternal || r.code == core.CodeDataLoss:
		level = slog.LevelError
	case r.op.Open, quiet(r):
		level = slog.LevelDebug
	case r.principal.Tenant == "" && callersFault(r.code):
		var ok bool
		if unlogged, ok = a.strangers.mayLog(r.RemoteAddr, r.began); !ok {
			level = slog.LevelDebug
		}
	}
	log := a.options.Logger
	if !log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", r.Method), slog.String("path", shorten(r.URL.Path, 120)), slog.Int("status", w.status),
		slog.Float64("dur_ms", float64(took.Microseconds())/1000), slog.String("request_id", r.id),
	}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("code", string(r.code))
	if r.err != nil {
		add("err", r.err.Error())
	}
	if unlogged > 0 {
		attrs = append(attrs, slog.Int("not_logged", unlogged))
	}
	if a.options.WideLog || log.Enabled(r.Context(), slog.LevelDebug) {
		add("operation", name)
		attrs = append(attrs, slog.Int64("bytes_out", w.bytes))
		add("user_agent", printable(r.UserAgent()))
		add("tenant_id", string(r.principal.Tenant))
		add("actor_id", r.principal.Actor.ID)
		add("sandbox", printable(r.PathValue("id")))
		add("exec_id", printable(r.PathValue("exec")))
		add("remote", r.RemoteAddr)
	} else if r.principal.Tenant == "" {
		add("remote", r.RemoteAddr) // whose failures these are
	}
	log.LogAttrs(r.Context(), level, "request", attrs...)
}

// callersFault reports whether a caller alone can bring an error about, as often as it likes. What it can't, such as a store that
// is away, is not to be missed in the log.
func callersFault(code core.Code) bool {
	switch code {
	case core.CodeUnauthenticated, core.CodeQuota, core.CodeNotFound, core.CodeDenied, core.CodeInvalid, core.CodeCanceled:
		return true
	default:
		return false
	}
}

// reply is a ResponseWriter that remembers what was sent.
type reply struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader sends the status.
func (w *reply) WriteHeader(status int) {
	if w.status == 0 || w.status < http.StatusOK {
		w.status = status
	}
	if status >= http.StatusOK {
		// A reply that nobody reads must not be kept for ever.
		w.mayWrite(replyTimeout)
	}
	w.ResponseWriter.WriteHeader(status)
}

// mayWrite gives the client so long to read what is written from now on; zero is for ever. A connection whose deadline can't be
// set is closed already, which the write will tell.
func (w *reply) mayWrite(d time.Duration) {
	_ = extend(http.NewResponseController(w.ResponseWriter).SetWriteDeadline, d)
}

// Write sends part of the body.
func (w *reply) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController and the WebSocket library reach the connection.
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// sent reports whether a status has been sent.
func sent(w http.ResponseWriter) bool {
	r, ok := w.(*reply)
	return ok && r.status != 0
}

// extend gives the client until d from now for the next read or write; d of zero takes the deadline away.
func extend(set func(time.Time) error, d time.Duration) error {
	var at time.Time
	if d != 0 {
		at = time.Now().Add(d)
	}
	if err := set(at); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set deadline: %w", err)
	}
	return nil
}
