package httpserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// maxStreams is how many requests may be under way on one HTTP/2 connection: clients open one connection and follow
	// hundreds of processes through it.
	maxStreams = 1000
	// lastWait is how long handlers are waited for whose connections were given up and whose contexts have ended.
	lastWait = 10 * time.Second
	// defaultStall is what Options.Stall is if it is zero.
	defaultStall = 2 * time.Minute
)

// Options say what is served and how it ends.
type Options struct {
	Handler http.Handler
	Logger  *slog.Logger
	// Grace is how long calls under way may go on when the server is stopped.
	Grace time.Duration
	// Stall is how long an HTTP/2 connection may take nothing of what is to be written before it is cut; the default is 2 minutes. Its
	// streams have deadlines of their own, which can't end one while the connection itself takes nothing.
	Stall time.Duration
	// Closing is called when the server is stopped, before the grace: it ends the streams, which would not end by themselves. It
	// may be nil.
	Closing func()
}

// Serve answers requests on ln until ctx ends, then has the streams ended, gives other calls grace to finish, and returns nil. When it
// returns no handler runs any more, unless one has not ended lastWait after it was told to.
func Serve(ctx context.Context, ln net.Listener, o Options) error {
	running := newHandlers(hurryUnread(o.Handler))
	defer running.wait(lastWait) // after their contexts have ended
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// There is no ReadTimeout or WriteTimeout, which would cut long streams: bodies and writes have rolling deadlines.
	server := &http.Server{
		Handler: running, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, // OPTIONS * is answered by nobody else than us.
		BaseContext:                  func(net.Listener) context.Context { return base },
		ErrorLog:                     slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: cmp.Or(o.Stall, defaultStall)},
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	select {
	case err := <-failed:
		_ = server.Close() // Its error is that of closing a connection that is given up.
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	if o.Closing != nil {
		o.Closing()
	}
	wait, stop := context.WithTimeout(base, o.Grace)
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
