package obs

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
)

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	m := NewMetrics()
	m.Request("/v1/sandboxes/{id}", "GET", 404, 3*time.Millisecond)
	m.Request("", "BREW", 404, time.Millisecond)
	m.Create(nil, 120*time.Millisecond)
	m.Create(core.Errorf(core.CodeExhausted, "full"), time.Hour)
	m.Delete(nil, 5*time.Millisecond)
	m.ExecStart(nil, 4*time.Millisecond)
	m.ExecStart(errors.New("unforeseen"), time.Millisecond)
	m.ExecEnd(core.OutcomeLost)
	m.SetSandboxes(map[core.State]int{core.StateRunning: 3, core.StateFailed: 1})
	m.SetSandboxes(map[core.State]int{core.StateRunning: 2, core.StateDeleted: 9})
	body := scrape(t, m.Handler(func(*http.Request) {
		m.SetCapacity(core.NodeCapacity{
			MemoryBytes: 100, MemoryReservedBytes: 40, Sandboxes: 2, MaxSandboxes: 1000, DiskBytes: 7, DiskFreeBytes: 5,
		})
	}))
	for _, want := range []string{
		`shoal_http_requests_total{method="GET",route="/v1/sandboxes/{id}",status="404"} 1`,
		`shoal_http_requests_total{method="other",route="none",status="404"} 1`,
		`shoal_http_request_seconds_bucket{route="/v1/sandboxes/{id}",le="0.005"} 1`,
		`shoal_http_request_seconds_bucket{route="/v1/sandboxes/{id}",le="0.0025"} 0`,
		`shoal_sandbox_creates_total{result="ok"} 1`,
		`shoal_sandbox_creates_total{result="exhausted"} 1`,
		`shoal_sandbox_create_seconds_count 1`,
		`shoal_sandbox_deletes_total{result="ok"} 1`,
		`shoal_sandbox_delete_seconds_count 1`,
		`shoal_exec_starts_total{result="ok"} 1`,
		`shoal_exec_starts_total{result="internal"} 1`,
		`shoal_exec_start_seconds_count 1`,
		`shoal_exec_ends_total{outcome="lost"} 1`,
		`shoal_sandboxes{state="running"} 2`,
		`shoal_sandboxes{state="failed"} 0`,
		`shoal_node_max_sandboxes 1000`,
		`shoal_node_memory_bytes{kind="total"} 100`,
		`shoal_node_memory_bytes{kind="reserved"} 40`,
		`shoal_pool_bytes{kind="total"} 7`,
		`shoal_pool_bytes{kind="free"} 5`,
		"go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(body, `state="deleted"`) {
		t.Error("deleted sandboxes are counted")
	}
	if t.Failed() {
		t.Log(body)
	}
}

func TestTwoSetsDoNotShare(t *testing.T) {
	one, two := NewMetrics(), NewMetrics()
	one.ExecEnd(core.OutcomeExited)
	if strings.Contains(scrape(t, two.Handler(nil)), `shoal_exec_ends_total{`) {
		t.Error("one server's metrics show in another's")
	}
}

func TestNilMetrics(*testing.T) {
	var m *Metrics
	m.Request("", "GET", 200, 0)
	m.Create(nil, 0)
	m.Delete(nil, 0)
	m.ExecStart(nil, 0)
	m.ExecEnd(core.OutcomeLost)
	m.SetSandboxes(nil)
	m.SetCapacity(core.NodeCapacity{})
}
