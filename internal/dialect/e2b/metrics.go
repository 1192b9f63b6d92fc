package e2b

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"shoal/internal/core"
)

// sampleFor is how long a sandbox is watched to tell how busy its processors are.
const sampleFor = 250 * time.Millisecond

// metricBody is what a sandbox uses at one moment. The core doesn't tell page cache from other memory: it is in memUsed.
type metricBody struct {
	Timestamp     string  `json:"timestamp"`
	TimestampUnix int64   `json:"timestampUnix"`
	CPUCount      int     `json:"cpuCount"`
	CPUUsedPct    float64 `json:"cpuUsedPct"`
	MemUsed       int64   `json:"memUsed"`
	MemTotal      int64   `json:"memTotal"`
	MemCache      int64   `json:"memCache"`
	DiskUsed      int64   `json:"diskUsed"`
	DiskTotal     int64   `json:"diskTotal"`
}

// sandboxMetrics tells what a sandbox uses now. No history is kept, so a span of time that doesn't reach until now has nothing.
func (a *adapter) sandboxMetrics(w http.ResponseWriter, r request) error {
	sb, err := a.running(r.Context(), r.principal, r.PathValue("id"))
	if err != nil {
		return err
	}
	holds, err := span(r.query)
	if err != nil {
		return err
	}
	out := []metricBody{}
	if !holds(time.Now()) {
		return writeJSON(w, http.StatusOK, out)
	}
	m, busy, err := a.sample(r.Context(), r, sb)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, append(out, metricBody{
		Timestamp: rfc3339(m.At), TimestampUnix: m.At.Unix(), CPUCount: cpuCount(sb.Resources), CPUUsedPct: busy,
		MemUsed: m.MemoryBytes, MemTotal: m.MemoryLimitBytes, DiskUsed: max(m.DiskBytes, 0), DiskTotal: sb.Resources.DiskBytes,
	}))
}

// sample looks twice, to tell which part of its processors a sandbox uses, in percent.
func (a *adapter) sample(ctx context.Context, r request, sb core.Sandbox) (core.SandboxMetrics, float64, error) {
	before, err := a.Control.Metrics(ctx, r.principal, string(sb.ID))
	if err != nil {
		return before, 0, err //nolint:wrapcheck // Control's errors are made for the edge.
	}
	timer := time.NewTimer(sampleFor)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return before, 0, core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
	case <-timer.C:
	}
	m, err := a.Control.Metrics(ctx, r.principal, string(sb.ID))
	if err != nil {
		return m, 0, err //nolint:wrapcheck // Control's errors are made for the edge.
	}
	passed := m.At.Sub(before.At).Seconds()
	if passed <= 0 || sb.Resources.VCPUs <= 0 {
		return m, 0, nil
	}
	busy := (m.CPUSeconds - before.CPUSeconds) / passed / sb.Resources.VCPUs * 100
	return m, min(max(busy, 0), 100), nil
}

// span reads the span of time of a query, in unix seconds.
func span(q url.Values) (holds func(time.Time) bool, err error) {
	bound := func(name string, open int64) (int64, error) {
		text := q.Get(name)
		if text == "" {
			return open, nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, core.Invalid(name, "%s is a time in seconds since 1970", name)
		}
		return n, nil
	}
	const always = 1 << 62
	start, err := bound("start", -always)
	if err != nil {
		return nil, err
	}
	end, err := bound("end", always)
	return func(t time.Time) bool { return start <= t.Unix() && t.Unix() <= end }, err
}
