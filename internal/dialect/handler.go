package dialect

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// Handler goes around an adapter: it begins the call, sets the headers that every reply has, catches panics and writes the one line
// about the request. name is the dialect's name. fail answers with an error in the vendor's form; it is called with nothing sent.
func Handler(name string, cfg Config, adapter http.Handler, fail func(w http.ResponseWriter, r *http.Request, e *core.Error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := httpserve.NewReply(w)
		r, tether := httpserve.NewTether(r, reply)
		c := &Call{ID: core.NewID(), began: time.Now(), tether: tether}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		httpserve.Secure(reply.Header(), c.ID)
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so too.
				shown := c.Failed(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
				p = http.ErrAbortHandler
				if reply.Status == 0 {
					fail(reply, r, shown)
					p = nil
				}
			}
			c.finish()
			cfg.Gate.note(name, c, r)
			c.report(r, name, cfg, reply)
			if p != nil {
				panic(p)
			}
		}()
		adapter.ServeHTTP(reply, r)
	})
}

// report writes the one line about a request.
func (c *Call) report(r *http.Request, name string, cfg Config, w *httpserve.Reply) {
	level, unlogged := slog.LevelInfo, 0
	switch {
	case c.code == core.CodeInternal || c.code == core.CodeDataLoss:
		level = slog.LevelError
	case c.code == "" && (c.Quiet || r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions):
		level = slog.LevelDebug
	case c.Principal.Tenant == "" && c.code != core.CodeUnavailable:
		var ok bool
		if unlogged, ok = cfg.Gate.MayLog(r.RemoteAddr, c.began); !ok {
			level = slog.LevelDebug
		}
	}
	if !cfg.Logger.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("dialect", name), slog.String("method", r.Method), slog.String("path", printable(r.URL.Path)),
		slog.Int("status", w.Status), slog.Float64("dur_ms", float64(time.Since(c.began).Microseconds())/1000),
		slog.String("request_id", c.ID),
	}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("operation", printable(c.Operation))
	add("code", string(c.code))
	if c.err != nil {
		add("err", c.err.Error())
	}
	add("sandbox", printable(c.Sandbox))
	add("tenant_id", string(c.Principal.Tenant))
	if c.Principal.Tenant == "" {
		add("remote", r.RemoteAddr) // whose failures these are
	}
	if unlogged > 0 {
		attrs = append(attrs, slog.Int("not_logged", unlogged))
	}
	cfg.Logger.LogAttrs(r.Context(), level, "request", attrs...)
}

// printable makes a caller's text fit for the log: UTF-8 and short.
func printable(s string) string {
	const most = 120
	out := []rune(strconv.QuoteToGraphic(s))
	out = out[1 : len(out)-1]
	if len(out) > most {
		return string(out[:most]) + "…"
	}
	return string(out)
}
