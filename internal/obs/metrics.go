package obs

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"shoal/internal/core"
)

// Metrics is everything that the server counts. Its methods may be used from many goroutines. A nil *Metrics counts
// nothing, so that tests and tools need none.
//
// No label takes a value that a caller chooses: the number of series is bounded.
type Metrics struct {
	registry *prometheus.Registry

	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	creates        *prometheus.CounterVec
	createSeconds  prometheus.Histogram
	deletes        *prometheus.CounterVec
	deleteSeconds  prometheus.Histogram
	execStarts     *prometheus.CounterVec
	execSeconds    prometheus.Histogram
	execEnds       *prometheus.CounterVec

	sandboxes    *prometheus.GaugeVec
	maxSandboxes prometheus.Gauge
	memory       *prometheus.GaugeVec
	pool         *prometheus.GaugeVec
}

// NewMetrics returns metrics at zero with a registry of their own, in which the Go runtime and the process are too.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets()})
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("shoal_http_requests_total", "API requests by route, method and status.", "route", "method", "status"),
		requestSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "shoal_http_request_seconds", Help: "Time from an API request to the end of its reply.", Buckets: buckets(),
		}, []string{"route"}),
		creates:       counter("shoal_sandbox_creates_total", "Sandbox creates by result: ok or the error's code.", "result"),
		createSeconds: histogram("shoal_sandbox_create_seconds", "Time of a successful create until the guest agent answered."),
		deletes:       counter("shoal_sandbox_deletes_total", "Sandbox deletes by result: ok or the error's code.", "result"),
		deleteSeconds: histogram("shoal_sandbox_delete_seconds", "Time until a successful delete was acknowledged."),
		execStarts:    counter("shoal_exec_starts_total", "Execs asked for by result: ok or the error's code.", "result"),
		execSeconds:   histogram("shoal_exec_start_seconds", "Time of a successful exec until its process was there."),
		execEnds:      counter("shoal_exec_ends_total", "Execs that ended, by outcome.", "outcome"),
		sandboxes:     gauge("shoal_sandboxes", "Sandboxes by state; deleted ones are not counted.", "state"),
		maxSandboxes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shoal_node_max_sandboxes", Help: "Most sandboxes that this node takes.",
		}),
		memory: gauge("shoal_node_memory_bytes", "Memory of the node that can be promised (total) and is promised (reserved).", "kind"),
		pool:   gauge("shoal_pool_bytes", "Size of the tree pool (total) and what is free in it (free).", "kind"),
	}
	m.registry.MustRegister(
		m.requests, m.requestSeconds, m.creates, m.createSeconds, m.deletes, m.deleteSeconds,
		m.execStarts, m.execSeconds, m.execEnds, m.sandboxes, m.maxSandboxes, m.memory, m.pool,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.SetSandboxes(nil)
	return m
}

// buckets spans a guest agent's round trip of a millisecond to a template's import of minutes.
func buckets() []float64 {
	return []float64{
		0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60, 300,
	}
}

// Request counts an API request. route is the pattern that matched, such as "/v1/sandboxes/{id}", empty if none did.
func (m *Metrics) Request(route, method string, status int, took time.Duration) {
	if m == nil {
		return
	}
	if route == "" {
		route = "none"
	}
	known := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	if !slices.Contains(known, method) {
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.requestSeconds.WithLabelValues(route).Observe(took.Seconds())
}

// Create counts a create with its error, nil if it went well.
func (m *Metrics) Create(err error, took time.Duration) {
	if m != nil {
		count(m.creates, m.createSeconds, err, took)
	}
}

// Delete counts a delete with its error, nil if it was acknowledged.
func (m *Metrics) Delete(err error, took time.Duration) {
	if m != nil {
		count(m.deletes, m.deleteSeconds, err, took)
	}
}

// ExecStart counts an exec that was asked for with its error, nil if its process is there.
func (m *Metrics) ExecStart(err error, took time.Duration) {
	if m != nil {
		count(m.execStarts, m.execSeconds, err, took)
	}
}

// ExecEnd counts an exec that ended.
func (m *Metrics) ExecEnd(outcome core.Outcome) {
	if m != nil {
		m.execEnds.WithLabelValues(string(outcome)).Inc()
	}
}

func count(results *prometheus.CounterVec, seconds prometheus.Histogram, err error, took time.Duration) {
	if err != nil {
		results.WithLabelValues(string(core.CodeOf(err))).Inc()
		return
	}
	results.WithLabelValues("ok").Inc()
	seconds.Observe(took.Seconds())
}

// SetSandboxes tells how many sandboxes are in each state; a state that is not in the map has none.
func (m *Metrics) SetSandboxes(byState map[core.State]int) {
	if m == nil {
		return
	}
	for _, s := range core.States() {
		if s != core.StateDeleted {
			m.sandboxes.WithLabelValues(string(s)).Set(float64(byState[s]))
		}
	}
}

// SetCapacity tells what the node has and what is promised of it.
func (m *Metrics) SetCapacity(c core.NodeCapacity) {
	if m == nil {
		return
	}
	m.maxSandboxes.Set(float64(c.MaxSandboxes))
	m.memory.WithLabelValues("total").Set(float64(c.MemoryBytes))
	m.memory.WithLabelValues("reserved").Set(float64(c.MemoryReservedBytes))
	m.pool.WithLabelValues("total").Set(float64(c.DiskBytes))
	m.pool.WithLabelValues("free").Set(float64(c.DiskFreeBytes))
}

// Handler serves the metrics to Prometheus. refresh is called before each scrape, to set the gauges; nil for none.
func (m *Metrics) Handler(refresh func(*http.Request)) http.Handler {
	scrape := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refresh != nil {
			refresh(r)
		}
		scrape.ServeHTTP(w, r)
	})
}
