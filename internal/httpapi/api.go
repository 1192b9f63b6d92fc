package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// Options configure an API. The zero value of a field takes the default that its comment names.
type Options struct {
	Logger *slog.Logger
	// Version and Commit say which server this is.
	Version, Commit string
	// Loopback says that the server listens on loopback only: then Host must name loopback or one of Hosts.
	Loopback bool
	// Hosts are further host names that the server is reached by, without port.
	Hosts []string
	// CA is the installation's own certificate authority, if the server's certificate is from it. Dialects are the protocols that are
	// spoken beside this one.
	CA       *api.CA
	Dialects []Dialect
	// WideLog puts all that is known of a request into its log line, for programs that read them. Otherwise only a logger at
	// level debug gets that, and people a short line.
	WideLog bool
	// Keepalive is the silence after which a stream says that it lives (15 s).
	Keepalive time.Duration
	// Stall is how long a client may take over one write, read or ping before it is dropped (2 min).
	Stall time.Duration
	// CollectBytes is how much output of processes the replies that collect it may hold together (256 MiB). Each takes 2 MiB, or
	// 128 KiB from a quarter that is kept for short ones, until its client has read it.
	CollectBytes int64
	// ReadyFor is how long the answer to a readiness probe holds, which anyone may send (1 s).
	ReadyFor time.Duration
	// Strangers and Rates bound callers without a good key and tenants, Collecting the output that is held, together with other
	// listeners (its own).
	Strangers  *httpserve.Strangers
	Rates      *httpserve.Rates
	Collecting *httpserve.Collecting
	// Registry holds the metrics that GET /metrics shows; the API adds its own (a new one).
	Registry *prometheus.Registry
}

// API serves the native API. It is made by New; its handler may be used until Close has returned.
type API struct {
	control Control
	options Options
	mux     *http.ServeMux
	limits  *httpserve.Rates
	// strangers bounds what comes without a key, ready what everyone may ask.
	strangers *httpserve.Strangers
	ready     *readiness
	metrics   *metrics
	// collecting is the room for what processes write.
	collecting *httpserve.Collecting
	// streams are the event streams.
	streams *streamRoom
	// closing ends when streams should.
	closing context.Context
	close   context.CancelFunc
	// attached are the WebSockets: http.Server.Shutdown doesn't wait for a connection that has been taken over.
	attached sync.WaitGroup
}

// operation is one operation's code. It either replies or returns an error and has written nothing.
type operation func(w http.ResponseWriter, r *request) error

// New returns an API on control. It fails if the document and the code don't match.
func New(control Control, o Options) (*API, error) {
	if control == nil || o.Logger == nil {
		return nil, errors.New("httpapi needs control and a logger")
	}
	o = withDefaults(o)
	closing, stop := context.WithCancel(context.Background())
	a := &API{
		control: control, options: o, mux: http.NewServeMux(), limits: o.Rates,
		strangers: o.Strangers, ready: newReadiness(o.ReadyFor), collecting: o.Collecting,
		metrics: newMetrics(o.Registry), closing: closing, close: stop, streams: &streamRoom{by: map[core.TenantID]int{}},
	}
	if err := a.route(); err != nil {
		return nil, err
	}
	return a, nil
}

func withDefaults(o Options) Options {
	if o.Keepalive == 0 {
		o.Keepalive = 15 * time.Second
	}
	if o.Stall == 0 {
		o.Stall = 2 * time.Minute
	}
	if o.CollectBytes == 0 {
		o.CollectBytes = httpserve.CollectBytes
	}
	if o.Collecting == nil {
		o.Collecting = httpserve.NewCollecting(o.CollectBytes)
	}
	if o.ReadyFor == 0 {
		o.ReadyFor = time.Second
	}
	if o.Strangers == nil {
		o.Strangers = httpserve.NewStrangers()
	}
	if o.Rates == nil {
		o.Rates = httpserve.NewRates(httpserve.RequestsPerSecond, httpserve.RequestBurst)
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	return o
}

// The operations in groups, so that no type grows without bound.
type (
	sandboxAPI  struct{ *API }
	execAPI     struct{ *API }
	fileAPI     struct{ *API }
	templateAPI struct{ *API }

	checkpointAPI struct{ *API }

	operationAPI struct{ *API }
	usageAPI     struct{ *API }
	keyAPI       struct{ *API }
	tenantAPI    struct{ *API }
	serverAPI    struct{ *API }
)

// operations joins the document's operations to their code.
func (a *API) operations() map[string]operation {
	tenants := tenantAPI{a}
	sandboxes, execs, files, keys, server := sandboxAPI{a}, execAPI{a}, fileAPI{a}, keyAPI{a}, serverAPI{a}
	long, used := operationAPI{a}, usageAPI{a}
	all := map[string]operation{
		"createSandboxes":    sandboxes.createSandboxes,
		"getOrCreateSandbox": sandboxes.getOrCreateSandbox,
		"createSandbox":      sandboxes.createSandbox,
		"listSandboxes":      sandboxes.listSandboxes,
		"forkSandbox":        sandboxes.forkSandbox,
		"getSandbox":         sandboxes.getSandbox,
		"updateSandbox":      sandboxes.updateSandbox,
		"deleteSandbox":      sandboxes.deleteSandbox,
		"stopSandbox":        sandboxes.stopSandbox,
		"wakeSandbox":        sandboxes.wakeSandbox,
		"getSandboxMetrics":  sandboxes.getSandboxMetrics,
		"getSandboxWhy":      sandboxes.getSandboxWhy,
		"createExec":         execs.createExec,
		"listExecs":          execs.listExecs,
		"getExec":            execs.getExec,
		"cancelExec":         execs.cancelExec,
		"attachExec":         execs.attachExec,
		"signalExec":         execs.signalExec,
		"resizeExec":         execs.resizeExec,
		"writeExecStdin":     execs.writeExecStdin,
		"readFile":           files.readFile,
		"writeFile":          files.writeFile,
		"removeFile":         files.removeFile,
		"statFile":           files.statFile,
		"listFiles":          files.listFiles,
		"makeDirectory":      files.makeDirectory,
		"moveFile":           files.moveFile,
		"changeFile":         files.changeFile,
		"linkFile":           files.linkFile,
		"checksumFile":       files.checksumFile,
		"getPartialFile":     files.getPartialFile,
		"deletePartialFile":  files.deletePartialFile,
		"diffSandbox":        files.diffSandbox,
		"watchFiles":         files.watchFiles,
		"signFile":           files.signFile,
		"readSigned":         files.readSigned,
		"writeSigned":        files.writeSigned,
		"readArchive":        files.readArchive,
		"writeArchive":       files.writeArchive,
		"listSandboxEvents":  sandboxes.listEvents,
		"getUsage":           used.getUsage,
		"listEvents":         sandboxes.listEvents,
		"listOperations":     long.listOperations,
		"getOperation":       long.getOperation,
		"cancelOperation":    long.cancelOperation,
		"createKey":          keys.createKey,
		"listKeys":           keys.listKeys,
		"deleteKey":          keys.deleteKey,
		"createTenant":       tenants.createTenant,
		"listTenants":        tenants.listTenants,
		"getTenant":          tenants.getTenant,
		"updateTenant":       tenants.updateTenant,
		"deleteTenant":       tenants.deleteTenant,
		"getQuota":           tenants.getQuota,
		"listAudit":          tenants.listAudit,
		"getCA":              server.getCA,
		"listDialects":       server.listDialects,
		"getVersion":         server.getVersion,
		"getHealth":          server.getHealth,
		"getReadiness":       server.getReadiness,
		"getServerMetrics":   server.getServerMetrics,
		"getOpenAPI":         server.getOpenAPI,
		"getErrorReference":  server.getErrorReference,
	}
	maps.Copy(all, templateAPI{a}.operations())
	maps.Copy(all, checkpointAPI{a}.operations())
	return all
}

// route registers every operation of the document and refuses a document that has another set than the code.
func (a *API) route() error {
	code := a.operations()
	for _, op := range api.Routes() {
		run, ok := code[op.ID]
		if !ok {
			return fmt.Errorf("operation %s has no code", op.ID)
		}
		delete(code, op.ID)
		a.mux.Handle(op.Method+" "+op.Path, a.handler(op, run))
	}
	for id := range code {
		return fmt.Errorf("operation %s is not in the document", id)
	}
	a.routeLater()
	a.mux.Handle("/", http.HandlerFunc(a.unknown))
	return nil
}

// Handler returns the API as an http.Handler.
func (a *API) Handler() http.Handler { return http.HandlerFunc(a.serve) }

// Close ends the streams: their clients are told to come back. It waits for the WebSockets; for all else the http.Server
// does, which must have stopped taking connections.
func (a *API) Close() {
	a.close()
	a.attached.Wait()
}

// handler runs an operation with all that comes before it: authentication, rate limit and checks that need no knowledge
// of what it does.
func (a *API) handler(op api.Route, run operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		r := requestOf(hr)
		r.op = op
		if err := a.admit(r); err != nil { //nolint:contextcheck // The request carries the context.
			a.fail(w, r, err)
			return
		}
		if err := run(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

// admit decides whether a request may reach its operation.
func (a *API) admit(r *request) error {
	if !r.op.Open {
		if err := a.authenticate(r); err != nil {
			return err
		}
		if err := a.actFor(r); err != nil {
			return err
		}
		if err := a.let(r); err != nil {
			return err
		}
	}
	if err := checkHeaders(r); err != nil {
		return err
	}
	if !r.op.Body && (r.ContentLength > 0 || len(r.TransferEncoding) > 0) {
		return core.Invalid("body", "this call takes no body")
	}
	return r.parseQuery()
}

// checkHeaders refuses headers that change what a request means and that nothing here obeys.
func checkHeaders(r *request) error {
	refused := []string{"Content-Range"}
	if !r.op.Keyed {
		refused = append(refused, onceHeader)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refused = append(refused, "If-Match", "If-None-Match", "If-Unmodified-Since")
	}
	if r.op.ID != "writeFile" && r.op.ID != "writeSigned" {
		refused = append(refused, digestHeader)
	}
	for _, name := range refused {
		if r.Header.Get(name) != "" {
			return &core.Error{Code: core.CodeUnsupported, Field: name, Message: "this release doesn't obey " + name + ": send the call without it"}
		}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return &core.Error{Code: core.CodeUnsupported, Field: "Content-Encoding", Message: "send the body as it is, without Content-Encoding"}
	}
	return nil
}
