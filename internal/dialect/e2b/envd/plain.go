package envd

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/httpserve"
)

// plain makes a handler of a function that may fail before it has sent anything. If it fails later, the connection is cut, so that a
// part is never taken for the whole.
func (h *handler) plain(f func(w *answer, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w}
		err := f(a, r)
		if err == nil {
			return
		}
		if errors.Is(err, httpserve.ErrGone) || r.Context().Err() != nil && h.closing.Err() == nil {
			err = core.Wrap(core.CodeCanceled, err, "the call was canceled")
		}
		e := h.public(r.Context(), err)
		if a.sent {
			panic(http.ErrAbortHandler)
		}
		status := h.status(e)
		if fixed, ok := httpserve.FixedStatus(err); ok {
			status = fixed
		}
		writeError(w, r, status, e)
		if a.after != nil {
			a.after()
		}
	}
}

// answer is a reply that knows whether it has begun.
type answer struct {
	http.ResponseWriter
	sent bool
	// after is called once an error has been answered; nil for nothing.
	after func()
}

// WriteHeader sends the status, once.
func (a *answer) WriteHeader(status int) {
	if a.sent {
		return
	}
	a.sent = true
	a.ResponseWriter.WriteHeader(status)
}

// Write sends part of the body.
func (a *answer) Write(p []byte) (int, error) {
	a.sent = true
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// unknown answers requests that nothing takes: also those by which E2B's own control plane sets up its agent.
func (h *handler) unknown(w http.ResponseWriter, r *http.Request) {
	status, text := http.StatusNotFound, "no such path in a sandbox"
	for path, methods := range map[string]string{"/files": "GET, POST", "/metrics": "GET", "/envs": "GET", "/health": "GET"} {
		if r.URL.Path == path {
			w.Header().Set("Allow", methods)
			status, text = http.StatusMethodNotAllowed, "this path takes "+methods+" only"
		}
	}
	if r.URL.Path == "/files/compose" {
		status, text = http.StatusNotImplemented, "files can't be composed here: join them with a command, such as cat"
	}
	writeError(w, r, status, h.public(r.Context(), core.Errorf(core.CodeNotFound, "%s", text)))
}

// health says that the sandbox runs. It is what clients ask when something else has failed.
func (h *handler) health(w http.ResponseWriter, r *http.Request) {
	if _, ok := targetOf(r.Context()); !ok {
		writeError(w, r, http.StatusBadGateway, h.public(r.Context(), core.Errorf(core.CodeUnavailable, "the sandbox is not running")))
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// envs tells the environment of the sandbox's processes.
func (h *handler) envs(w *answer, r *http.Request) error {
	writeJSON(w, http.StatusOK, target(r.Context()).environment())
	return nil
}

// metricsBody is what a sandbox uses. What can't be told is left out.
type metricsBody struct {
	Timestamp  int64   `json:"ts"`
	CPUCount   float64 `json:"cpu_count"`
	CPUPercent float64 `json:"cpu_used_pct"`
	MemTotal   int64   `json:"mem_total"`
	MemUsed    int64   `json:"mem_used"`
	MemTotalM  int64   `json:"mem_total_mib"`
	MemUsedM   int64   `json:"mem_used_mib"`
	DiskUsed   *int64  `json:"disk_used,omitempty"`
	DiskTotal  *int64  `json:"disk_total,omitempty"`
}

// cpuSample is how long processor time is looked at: only the time used so far is kept, and its share is wanted.
const cpuSample = 200 * time.Millisecond

// metrics tells what the sandbox uses now.
func (h *handler) metrics(w *answer, r *http.Request) error {
	t := target(r.Context())
	before, err := h.control.Metrics(r.Context(), t.Principal, t.ref())
	if err != nil {
		return outside(err)
	}
	if err := wait(r.Context(), cpuSample); err != nil {
		return err
	}
	m, err := h.control.Metrics(r.Context(), t.Principal, t.ref())
	if err != nil {
		return outside(err)
	}
	body := metricsBody{
		Timestamp: m.At.Unix(), CPUCount: t.Sandbox.Resources.VCPUs, MemTotal: m.MemoryLimitBytes, MemUsed: m.MemoryBytes,
		MemTotalM: m.MemoryLimitBytes >> 20, MemUsedM: m.MemoryBytes >> 20,
	}
	// As for a machine with one core, 100 is one core in full.
	if passed := m.At.Sub(before.At).Seconds(); passed > 0 {
		body.CPUPercent = float64(int64((m.CPUSeconds-before.CPUSeconds)/passed*10_000)) / 100
	}
	if m.DiskBytes >= 0 {
		body.DiskUsed = &m.DiskBytes
	}
	if limit := t.Sandbox.Resources.DiskBytes; limit > 0 {
		body.DiskTotal = &limit
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refuseMetadata refuses what is to be kept beside a file's content. dialect.CallOf tells which header it was.
func refuseMetadata(r *http.Request) error {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Metadata-") {
			dialect.CallOf(r.Context()).Quiet = false
			return core.Errorf(core.CodeUnsupported, "metadata of files is not kept here: leave metadata out, or write it to a file of its own")
		}
	}
	return nil
}
