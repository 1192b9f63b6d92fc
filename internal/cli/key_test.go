package cli_test

import (
	"net/http"
	"net/http/httptrace"
	"testing"

	shoal "shoal/sdk/go"
)

// TestDeletedKeyOnOpenConnection: a key that was good a moment ago, and that the limits for strangers know as good, is refused on the
// very connection that it was good on.
func TestDeletedKeyOnOpenConnection(t *testing.T) {
	b := newBackend(t)
	admin := &shoal.Client{BaseURL: b.url, APIKey: b.key}
	key, err := admin.Keys().Create(t.Context(), shoal.CreateKeyRequest{Name: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ask := func() (status int, reused bool) {
		t.Helper()
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/v1/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key.Secret)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		for err == nil {
			_, err = resp.Body.Read(buf)
		}
		_ = resp.Body.Close()
		return resp.StatusCode, reused
	}
	for range 3 {
		if status, _ := ask(); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	if err := admin.Keys().Delete(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	if status, reused := ask(); status != http.StatusUnauthorized || !reused {
		t.Errorf("status %d, on the same connection: %v", status, reused)
	}
}
