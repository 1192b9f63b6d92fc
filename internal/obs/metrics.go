package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"shoal/internal/core"
)

// Metrics is what the use cases count; the API counts its requests beside them in the same registry. Its methods may be used from many goroutines. A nil *Metrics counts
// nothing, so that tests and tools need none.
//
// No label takes a value that a caller chooses: the number of series is bounded.
type Metrics struct {
	registry *prometheus.Registry

	creates          *prometheus.CounterVec
	createSeconds    prometheus.Histogram
	deletes          *prometheus.CounterVec
	deleteSeconds    prometheus.Histogram
	stops            *prometheus.CounterVec
	stopSeconds      prometheus.Histogram
	wakes            *prometheus.CounterVec
	wakeSeconds      prometheus.Histogram
	execStarts       *prometheus.CounterVec
	execSeconds      prometheus.Histogram
	execEnds         *prometheus.CounterVec
	operations       *prometheus.CounterVec
	operationSeconds *prometheus.HistogramVec
}

// NewMetrics returns metrics at zero with a registry of their own, in which the Go runtime and the process are too.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets()})
	}
	m := &Metrics{
		registry:      prometheus.NewRegistry(),
		creates:       counter("shoal_sandbox_creates_total", "Sandbox creates by result: ok or the error's code.", "result"),
		createSeconds: histogram("shoal_sandbox_create_seconds", "Time of a successful create until the guest agent answered."),
		deletes:       counter("shoal_sandbox_deletes_total", "Sandbox deletes by result: ok or the error's code.", "result"),
		deleteSeconds: histogram("shoal_sandbox_delete_seconds", "Time until a successful delete was acknowledged."),
		stops:         counter("shoal_sandbox_stops_total", "Sandbox stops that were asked for, by result: ok or the error's code.", "result"),
		stopSeconds:   histogram("shoal_sandbox_stop_seconds", "Time of a successful stop, with the grace that its processes took."),
		wakes:         counter("shoal_sandbox_wakes_total", "Sandbox wakes that were asked for, by result: ok or the error's code.", "result"),
		wakeSeconds:   histogram("shoal_sandbox_wake_seconds", "Time of a successful wake until the guest agent answered."),
		execStarts:    counter("shoal_exec_starts_total", "Execs asked for by result: ok or the error's code.", "result"),
		execSeconds:   histogram("shoal_exec_start_seconds", "Time of a successful exec until its process was there."),
		execEnds:      counter("shoal_exec_ends_total", "Execs that ended, by outcome.", "outcome"),
		operations:    counter("shoal_operations_total", "Operations that ended, by kind and state.", "kind", "state"),
		operationSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "shoal_operation_seconds", Help: "Time of a successful operation, by kind.", Buckets: buckets(),
		}, []string{"kind"}),
	}
	m.registry.MustRegister(
		m.creates, m.createSeconds, m.deletes, m.deleteSeconds, m.stops, m.stopSeconds, m.wakes, m.wakeSeconds,
		m.execStarts, m.execSeconds, m.execEnds, m.operations, m.operationSeconds,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// buckets spans a guest agent's round trip of a millisecond to a template's import of minutes.
func buckets() []float64 {
	return []float64{
		0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60, 300,
	}
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

// Stop counts a stop with its error, nil if it went well.
func (m *Metrics) Stop(err error, took time.Duration) {
	if m != nil {
		count(m.stops, m.stopSeconds, err, took)
	}
}

// Wake counts a wake with its error, nil if it went well.
func (m *Metrics) Wake(err error, took time.Duration) {
	if m != nil {
		count(m.wakes, m.wakeSeconds, err, took)
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

// OperationEnd counts an operation that ended.
func (m *Metrics) OperationEnd(kind core.WorkKind, state core.OperationState, took time.Duration) {
	if m == nil {
		return
	}
	m.operations.WithLabelValues(string(kind), string(state)).Inc()
	if state == core.OperationSucceeded {
		m.operationSeconds.WithLabelValues(string(kind)).Observe(took.Seconds())
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

// Registry holds the metrics, for whoever shows them or adds its own.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }
