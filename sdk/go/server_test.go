package shoal_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	shoal "shoal/sdk/go"
)

func TestTrust(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"certificate":"c","fingerprint":"f"}`))
	}))
	defer s.Close()
	trusting, err := shoal.Trust(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	if err != nil {
		t.Fatal(err)
	}
	defer trusting.CloseIdleConnections()
	c := &shoal.Client{BaseURL: s.URL, HTTPClient: trusting}
	if ca, err := c.CA(t.Context()); err != nil || ca.Fingerprint != "f" {
		t.Errorf("%+v, %v", ca, err)
	}
	if _, err := shoal.Trust([]byte("no certificate")); shoal.ErrorCode(err) != shoal.CodeInvalid {
		t.Errorf("got %v", err)
	}
}
