package obs

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"shoal/internal/core"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.Registry(), promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	m := NewMetrics()
	m.Create(nil, 120*time.Millisecond)
	m.Create(core.Errorf(core.CodeExhausted, "full"), time.Hour)
	m.Delete(nil, 5*time.Millisecond)
	m.ExecStart(nil, 4*time.Millisecond)
	m.ExecStart(errors.New("unforeseen"), time.Millisecond)
	m.ExecEnd(core.OutcomeLost)
	body := scrape(t, m)
	for _, want := range []string{
		`shoal_sandbox_creates_total{result="ok"} 1`,
		`shoal_sandbox_creates_total{result="exhausted"} 1`,
		`shoal_sandbox_create_seconds_count 1`,
		`shoal_sandbox_deletes_total{result="ok"} 1`,
		`shoal_sandbox_delete_seconds_count 1`,
		`shoal_exec_starts_total{result="ok"} 1`,
		`shoal_exec_starts_total{result="internal"} 1`,
		`shoal_exec_start_seconds_count 1`,
		`shoal_exec_ends_total{outcome="lost"} 1`,
		"go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("%s is missing", want)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
}

func TestTwoSetsDoNotShare(t *testing.T) {
	one, two := NewMetrics(), NewMetrics()
	one.ExecEnd(core.OutcomeExited)
	if strings.Contains(scrape(t, two), `shoal_exec_ends_total{`) {
		t.Error("one server's metrics show in another's")
	}
}

func TestNilMetrics(*testing.T) {
	var m *Metrics
	m.Create(nil, 0)
	m.Delete(nil, 0)
	m.ExecStart(nil, 0)
	m.ExecEnd(core.OutcomeLost)
}
