package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// EndStreams has the streams tell their clients to come back, and end. It doesn't wait for them.
func (a *API) EndStreams() { a.close() }

// Serve answers requests on ln until ctx ends, then ends the streams, gives other calls grace to finish, and returns nil.
// Processes that clients were following go on.
func (a *API) Serve(ctx context.Context, ln net.Listener, grace time.Duration) error {
	// Whatever ends it: nobody uses control any more when it returns.
	defer a.Close()
	return httpserve.Serve(ctx, ln, httpserve.Options{Handler: a.Handler(), Logger: a.options.Logger, Grace: grace, Closing: a.close})
}

// serve is the outermost handler: it begins the request, catches panics and writes the one line about it.
func (a *API) serve(w http.ResponseWriter, hr *http.Request) {
	reply := httpserve.NewReply(w)
	r := newRequest(hr, reply) //nolint:contextcheck // The request carries the context.
	httpserve.Secure(reply.Header(), r.id)
	a.metrics.inFlight.Inc()
	defer func() { //nolint:contextcheck // The request carries the context.
		a.metrics.inFlight.Dec()
		p := recover()
		if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so too.
			r.err, r.code = fmt.Errorf("panic: %v\n%s", p, debug.Stack()), core.CodeInternal
			p = http.ErrAbortHandler
			if reply.Status == 0 {
				a.fail(reply, r, r.err)
				p = nil
			}
		}
		a.finish(r)
		a.report(r, reply)
		if p != nil {
			panic(p)
		}
	}()
	if err := a.checkHost(hr); err != nil {
		a.fail(reply, r, err)
		return
	}
	if !httpserve.CleanPath(hr.URL.EscapedPath()) {
		a.unknown(reply, r.Request)
		return
	}
	a.mux.ServeHTTP(reply, r.Request)
}

// report writes the one line about a request and counts it.
func (a *API) report(r *request, w *httpserve.Reply) {
	took := time.Since(r.began)
	name := r.op.ID
	if name == "" {
		name = "none"
	}
	a.metrics.observe(name, w.Status, took)
	level := slog.LevelInfo
	var unlogged int
	switch {
	case r.code == core.CodeInternal || r.code == core.CodeDataLoss:
		level = slog.LevelError
	case r.op.Open, quiet(r):
		level = slog.LevelDebug
	case r.principal.Tenant == "" && callersFault(r.code):
		var ok bool
		if unlogged, ok = a.strangers.MayLog(r.RemoteAddr, r.began); !ok {
			level = slog.LevelDebug
		}
	}
	log := a.options.Logger
	if !log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", r.Method), slog.String("path", shorten(r.URL.Path, 120)), slog.Int("status", w.Status),
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
		attrs = append(attrs, slog.Int64("bytes_out", w.Bytes))
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
