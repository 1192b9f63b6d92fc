package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"shoal/internal/core"
)

// metrics are the API's own.
type metrics struct {
	inFlight prometheus.Gauge
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(reg *prometheus.Registry) *metrics {
	m := &metrics{
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shoal_http_requests_in_flight", Help: "Requests that are being answered, streams included.",
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shoal_http_requests_total", Help: "Requests answered, by operation and HTTP status.",
		}, []string{"operation", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "shoal_http_request_seconds", Help: "Time from a request's header to the end of its reply, by operation.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
		}, []string{"operation"}),
	}
	reg.MustRegister(m.inFlight, m.requests, m.duration)
	return m
}

func (m *metrics) observe(operation string, status int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(operation).Observe(took.Seconds())
}

// getServerMetrics shows the registry and the node's capacity. It covers all tenants, so it takes an admin key.
func (a serverAPI) getServerMetrics(w http.ResponseWriter, r *request) error {
	if !r.principal.Admin {
		return core.Errorf(core.CodeDenied, "this takes an admin key")
	}
	capacity, err := a.control.Capacity(r.Context(), r.principal)
	if err != nil {
		return err
	}
	count, err := a.control.CountSandboxes(r.Context())
	if err != nil {
		return err //nolint:wrapcheck // Control's errors are made for the edge.
	}
	now := prometheus.NewRegistry()
	states := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "shoal_sandboxes", Help: "Sandboxes by state; deleted ones are not counted.",
	}, []string{"state"})
	for _, s := range core.States() {
		if s != core.StateDeleted {
			states.WithLabelValues(string(s)).Set(float64(count[s]))
		}
	}
	now.MustRegister(states)
	for _, g := range []struct {
		name, help string
		value      float64
	}{
		{"shoal_node_memory_bytes", "Memory that sandboxes may be promised.", float64(capacity.MemoryBytes)},
		{"shoal_node_memory_reserved_bytes", "Memory promised to sandboxes.", float64(capacity.MemoryReservedBytes)},
		{"shoal_node_sandboxes", "Sandboxes with a reservation.", float64(capacity.Sandboxes)},
		{"shoal_node_sandboxes_max", "The greatest number of sandboxes.", float64(capacity.MaxSandboxes)},
		{"shoal_node_disk_bytes", "Size of the disk pool.", float64(capacity.DiskBytes)},
		{"shoal_node_disk_free_bytes", "Free bytes of the disk pool.", float64(capacity.DiskFreeBytes)},
	} {
		gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: g.name, Help: g.help})
		gauge.Set(g.value)
		now.MustRegister(gauge)
	}
	promhttp.HandlerFor(prometheus.Gatherers{a.options.Registry, now}, promhttp.HandlerOpts{}).ServeHTTP(w, r.Request)
	return nil
}
