package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

const ndjson = "application/x-ndjson"

// accepts reports whether a request asks for a media type by name.
func accepts(r *http.Request, kind string) bool {
	if r.Method == http.MethodHead {
		return false // There is no body, so nothing that could go on.
	}
	for _, value := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(value, ",") {
			name, params, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), kind) && strings.ReplaceAll(params, " ", "") != "q=0" {
				return true
			}
		}
	}
	return false
}

// streamContext returns a context that ends with the request or when the server shuts down.
func (a *API) streamContext(r *request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(a.closing, func() { cancel(errClosing) })
	return ctx, func() { stop(); cancel(nil) }
}

// errClosing ends streams: their clients come back to the next server.
var errClosing = core.Errorf(core.CodeUnavailable, "the server is shutting down; what was started goes on")

// follow is httpserve.Follow with the API's keepalive time.
func (a *API) follow(
	ctx context.Context, stream core.ExecStream, send func(core.ExecMessage) error, idle func() error,
) error {
	return httpserve.Follow(ctx, stream, a.options.Keepalive, send, idle)
}

// lineWriter sends one JSON object a line, each within the stall time.
type lineWriter struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	stall time.Duration
}

// lines begins an NDJSON reply.
func (a *API) lines(w http.ResponseWriter) *lineWriter { return a.stream(w, ndjson) }

// stream begins a reply that goes on.
func (a *API) stream(w http.ResponseWriter, kind string) *lineWriter {
	w.Header().Set("Content-Type", kind)
	// Proxies that gather a reply before they pass it on would silence a stream.
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &lineWriter{w: w, rc: http.NewResponseController(w), stall: a.options.Stall}
}

// send writes and flushes one line.
func (l *lineWriter) send(v any) error {
	line, err := encodeJSON(v)
	if err != nil {
		return err
	}
	return l.put(line)
}

// put writes and flushes.
func (l *lineWriter) put(data []byte) error {
	if err := httpserve.Extend(l.rc.SetWriteDeadline, l.stall); err != nil {
		return err
	}
	if _, err := l.w.Write(data); err != nil {
		return httpserve.Gone(err)
	}
	if err := l.rc.Flush(); err != nil {
		return httpserve.Gone(err)
	}
	return nil
}

// endStream ends a reply that goes on; an error becomes its last message, unless there is nobody to tell.
func (a *API) endStream(r *request, err error, tell func(api.Error) error) error {
	if err != nil && r.tether.Cause() != nil {
		return tell(a.abort(r, err))
	}
	if err == nil || r.Context().Err() != nil || errors.Is(err, httpserve.ErrGone) {
		return err
	}
	return tell(a.abort(r, err))
}
