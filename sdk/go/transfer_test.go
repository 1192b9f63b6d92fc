package shoal

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// partServer takes a file in parts; put is asked first and reports whether it has answered.
func partServer(t *testing.T, put func(w http.ResponseWriter, r *http.Request, nth int64, have *atomic.Int64) bool) *Client {
	t.Helper()
	var puts, have atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.Method {
		case http.MethodPut:
			if put(w, r, puts.Add(1), &have) {
				return
			}
			n, _ := io.Copy(io.Discard, r.Body)
			have.Add(n)
		case http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
			return
		}
		fmt.Fprintf(w, `{"path":"/f","size":%d,"expires_at":"2026-11-30T12:00:00Z"}`, have.Load())
	}))
	t.Cleanup(server.Close)
	return &Client{BaseURL: server.URL, APIKey: "k"}
}

// TestUploadPatience: what is waited for is progress. An upload that got on between two breaks goes on, however long the part took, and one
// that gets nowhere ends.
func TestUploadPatience(t *testing.T) {
	t.Parallel()
	const size, patience = 4 << 20, 300 * time.Millisecond
	busy := func(w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error":{"code":"conflict","field":"partial","message":"busy"}}`)
		return true
	}
	begin := time.Now()
	c := partServer(t, func(w http.ResponseWriter, r *http.Request, nth int64, have *atomic.Int64) bool {
		switch nth {
		case 1:
			return busy(w)
		case 2: // some of it comes, and then nothing until the patience of before is over
			n, _ := io.CopyN(io.Discard, r.Body, 1<<20)
			have.Add(n)
			<-time.After(time.Until(begin.Add(2 * patience)))
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return true
			}
			_ = conn.Close()
			return true
		}
		return false
	})
	data := strings.NewReader(strings.Repeat("x", size))
	if _, err := c.Files("x").Upload(t.Context(), "/f", data, size, WriteOptions{}, Resume{Patience: patience}); err != nil {
		t.Errorf("it got on and was given up: %v", err)
	}

	c = partServer(t, func(w http.ResponseWriter, _ *http.Request, _ int64, _ *atomic.Int64) bool { return busy(w) })
	if _, err := c.Files("x").Upload(t.Context(), "/f", data, size, WriteOptions{}, Resume{Patience: patience}); ErrorCode(err) != CodeConflict {
		t.Errorf("it got nowhere: %v", err)
	}
}

// TestUploadToAnOlderServer: one that knows no parts gets the file in one call.
func TestUploadToAnOlderServer(t *testing.T) {
	t.Parallel()
	c := partServer(t, func(w http.ResponseWriter, r *http.Request, _ int64, have *atomic.Int64) bool {
		if !r.URL.Query().Has("partial") {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":{"code":"invalid","field":"partial","message":"unknown query parameter \"partial\""}}`)
		return true
	})
	info, err := c.Files("x").Upload(t.Context(), "/f", strings.NewReader("hello"), 5, WriteOptions{}, Resume{})
	if err != nil || info.Size != 5 {
		t.Errorf("%+v, %v", info, err)
	}
}
