package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"

	shoal "shoal/sdk/go"
)

// halfServer is the transport to a server that makes sandboxes, and of which nothing is heard of any exec, or that refuses it.
type halfServer struct {
	refuses bool
	execs   int
}

func (s *halfServer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(status int, body string) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
	}
	switch {
	case r.Method == http.MethodDelete:
		return answer(http.StatusNoContent, ""), nil
	case !strings.HasSuffix(r.URL.Path, "/execs"):
		return answer(http.StatusCreated, `{"id":"s4n3d2b1o0x9i8d7e6x5am","state":"running"}`), nil
	case s.refuses:
		s.execs++
		return answer(http.StatusServiceUnavailable, `{"error":{"code":"unavailable","message":"the sandbox is gone","request_id":"r1"}}`), nil
	}
	s.execs++
	return nil, io.ErrUnexpectedEOF
}

// TestMapRetriesOnlyWhatIsLost: a start without an answer may have been one, so its item is lost and started again; a refusal was none.
func TestMapRetriesOnlyWhatIsLost(t *testing.T) {
	for _, tt := range []struct {
		refuses bool
		outcome string
		tries   int
	}{{false, "lost", 3}, {true, "failed", 1}} {
		s := &halfServer{refuses: tt.refuses}
		m := &mapper{
			app: &app{err: io.Discard}, flags: &mapFlags{retry: 2}, cmd: []string{"true"}, pace: newPace(), places: newPlaces(1),
			client: &shoal.Client{BaseURL: "http://127.0.0.1:8700", HTTPClient: &http.Client{Transport: s}, MaxRetries: -1},
		}
		r := m.item(t.Context(), 1, "x")
		if r.Outcome != tt.outcome || r.Tries != tt.tries || s.execs != tt.tries || r.Message == "" {
			t.Errorf("refused %v: %s after %d tries and %d execs: %s", tt.refuses, r.Outcome, r.Tries, s.execs, r.Message)
		}
	}
}
