package shoal

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestFollowGoesOn: a follower whose connection was there waits for a server that is away for longer than a call is tried again, goes on
// after the last event, and says once that the connection broke off. One that never had a connection, or may not try again, ends.
func TestFollowGoesOn(t *testing.T) {
	t.Parallel()
	const failures = 5
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		if n > 1 && n <= 1+failures {
			away(w, r)
			return
		}
		if want := map[int64]string{1: "", 2 + failures: "1"}[n]; r.URL.Query().Get("after") != want {
			t.Errorf("call %d begins after %q", n, r.URL.Query().Get("after"))
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		seq := 1
		if n > 1 {
			seq = 2
		}
		fmt.Fprintf(w, `{"type":"event","event":{"seq":%d,"type":"sandbox.created","at":"2026-11-30T12:00:00Z","actor":{"kind":"key"}}}`+"\n", seq)
	}))
	defer server.Close()
	broken := 0
	c := &Client{BaseURL: server.URL, APIKey: "k"}
	var seen []int64
	for e, err := range c.Events().Follow(t.Context(), EventsOptions{Broken: func(error) { broken++ }}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, e.Seq); len(seen) == 2 {
			break
		}
	}
	if len(seen) != 2 || seen[0] != 1 || seen[1] != 2 || broken != 1 {
		t.Errorf("saw %v, broken %d times", seen, broken)
	}

	gone := httptest.NewServer(http.HandlerFunc(away))
	defer gone.Close()
	for name, c := range map[string]*Client{
		"never there": {BaseURL: gone.URL, APIKey: "k"}, "no retries": {BaseURL: server.URL, APIKey: "k", MaxRetries: -1},
	} {
		calls.Store(0)
		var last error
		for _, err := range c.Events().Follow(t.Context(), EventsOptions{}) {
			last = err
		}
		if ErrorCode(last) != CodeUnavailable {
			t.Errorf("%s: %v", name, last)
		}
	}
}

// TestFollowEndsInVain: a server that answers and breaks off each time before it has told anything is given up as one that isn't there.
func TestFollowEndsInVain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/x-ndjson")
		fmt.Fprintln(w, `{"type":"error","error":{"code":"unavailable","message":"no"}}`)
	}))
	defer server.Close()
	c := &Client{BaseURL: server.URL, APIKey: "k", MaxRetries: 2}
	var last error
	for _, err := range c.Events().Follow(t.Context(), EventsOptions{}) {
		last = err
	}
	if ErrorCode(last) != CodeUnavailable || calls.Load() != 3 {
		t.Errorf("%v after %d calls", last, calls.Load())
	}
}

// away answers as a server that can't now.
func away(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprint(w, `{"error":{"code":"unavailable","message":"not now"}}`)
}
