package envd

import (
	"context"
	"math"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/dialect/e2b/envd/filesystempb"
	"shoal/internal/dialect/e2b/envd/processpb"
	"shoal/internal/store"
)

// Version is the version of E2B's own agent whose calls are spoken. Clients choose by it what they send.
const Version = "0.6.4"

const (
	// maxMessage bounds one message from a client. Input for a process comes in one.
	maxMessage = 16 << 20
	// defaultStall is how long a client may take over one read or write.
	defaultStall = 2 * time.Minute
)

// Control is what this package needs of control.Service.
type Control interface {
	Exec(ctx context.Context, p control.Principal, ref string, spec core.ExecSpec) (core.Exec, core.ExecStream, error)
	AttachExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, from int64) (core.ExecStream, error)
	GetExec(ctx context.Context, p control.Principal, ref string, id core.ExecID) (core.Exec, error)
	FindExec(ctx context.Context, p control.Principal, ref string, by control.ExecSelector) (core.Exec, error)
	ListExecs(ctx context.Context, p control.Principal, ref string, f store.ExecFilter, page store.Page) ([]core.Exec, string, error)
	SignalExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, signal string) error
	ResizeExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, rows, cols uint16) error
	WriteExecStdin(ctx context.Context, p control.Principal, ref string, id core.ExecID, data []byte, end bool) error
	Files(ctx context.Context, p control.Principal, ref string) (core.Guest, error)
	KeepWatch(ctx context.Context, p control.Principal, ref, path string, opts core.WatchOptions) (id string, err error)
	WatchEvents(ctx context.Context, p control.Principal, ref, id string, tell func([]core.FileEvent) error) error
	EndWatch(ctx context.Context, p control.Principal, ref, id string) error
	Metrics(ctx context.Context, p control.Principal, ref string) (core.SandboxMetrics, error)
}

var _ Control = (*control.Service)(nil)

// Config is what the handler is made from.
type Config struct {
	Control Control
	// Closing ends when the server is about to: streams then tell their clients and end.
	Closing context.Context //nolint:containedctx // It is the server's life, not a call's.
	// Stall is how long a client may take over one read or write before it is dropped; the default is 2 minutes.
	Stall time.Duration
}

// handler answers the requests of one kind of client in all sandboxes.
type handler struct {
	control Control
	closing context.Context //nolint:containedctx // as in Config
	stall   time.Duration
}

// New returns the handler. Every request but OPTIONS, and GET /health of a sandbox that doesn't run, must come with a target.
func New(cfg Config) http.Handler {
	h := &handler{control: cfg.Control, closing: cfg.Closing, stall: cfg.Stall}
	if h.stall == 0 {
		h.stall = defaultStall
	}
	options := connect.WithHandlerOptions(
		connect.WithCodec(strictJSON{"json"}), connect.WithCodec(strictJSON{"json; charset=utf-8"}), connect.WithCodec(strictProto{}),
		// Clients offer gzip always. It would cost more processor time than the network is worth; what comes compressed is read.
		connect.WithCompressMinBytes(math.MaxInt), connect.WithReadMaxBytes(maxMessage),
	)
	mux := http.NewServeMux()
	path, rpc := processpb.NewProcessHandler(&processes{h}, options)
	mux.Handle(path, h.steadily(holdDeadline(rpc)))
	path, rpc = filesystempb.NewFilesystemHandler(&filesystem{h}, options)
	mux.Handle(path, h.steadily(rpc))
	mux.HandleFunc("GET /files", h.plain(h.download))
	mux.HandleFunc("POST /files", h.plain(h.upload))
	mux.HandleFunc("GET /metrics", h.plain(h.metrics))
	mux.HandleFunc("GET /envs", h.plain(h.envs))
	mux.HandleFunc("GET /health", h.health)
	mux.HandleFunc("/", h.unknown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		AllowOrigins(w.Header(), r)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		call := dialect.CallOf(r.Context())
		call.Operation, call.Looks = operation(r), looks(r.URL.Path)
		if _, ok := targetOf(r.Context()); !ok && r.URL.Path != "/health" {
			writeError(w, r, http.StatusUnauthorized, core.Errorf(core.CodeUnauthenticated, "the request names no sandbox"))
			return
		}
		p := newPatient(w, h.stall)
		defer p.done()
		mux.ServeHTTP(p, r)
	})
}

// operation is what a request is called in the log.
func operation(r *http.Request) string {
	return "envd " + strings.Trim(r.URL.Path, "/")
}

// looks reports whether a call changes nothing, or carries input to a process that another call has started.
func looks(path string) bool {
	switch path {
	case processpb.ProcessListProcedure, processpb.ProcessSendInputProcedure, processpb.ProcessStreamInputProcedure,
		processpb.ProcessCloseStdinProcedure, processpb.ProcessUpdateProcedure,
		filesystempb.FilesystemStatProcedure, filesystempb.FilesystemListDirProcedure, filesystempb.FilesystemWatchDirProcedure,
		filesystempb.FilesystemCreateWatcherProcedure, filesystempb.FilesystemGetWatcherEventsProcedure, filesystempb.FilesystemRemoveWatcherProcedure:
		return true
	}
	return false
}

// AllowOrigins lets pages of any origin call: what they need is a token, not a cookie.
func AllowOrigins(header http.Header, r *http.Request) {
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Cross-Origin-Resource-Policy", "cross-origin") // a picture in a page, by a signed address
	header.Set("Access-Control-Expose-Headers", "*, Content-Length, Content-Range, Content-Disposition, Content-Encoding, "+
		"Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, X-Request-Id")
	if r.Method != http.MethodOptions {
		return
	}
	header.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
	// A star would not stand for Authorization.
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" && len(asked) <= 4096 {
		header.Set("Access-Control-Allow-Headers", asked)
	}
	header.Set("Access-Control-Max-Age", "7200")
	header.Add("Vary", "Access-Control-Request-Headers")
}
