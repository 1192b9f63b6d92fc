package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	shoal "shoal/sdk/go"
)

// TestInputAsBytes holds that input may be sent as it is, within the bound of a body, and that its end is said in one place.
func TestInputAsBytes(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	exec, err := c.Execs("x").Start(t.Context(), shoal.ExecRequest{Shell: "cat", StdinOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	const binary, text = "application/octet-stream", "application/json"
	for _, tt := range []struct {
		name, query, kind, body string
		status                  int
		says                    string
	}{
		{"bytes", "", binary, "\xff\x00", http.StatusNoContent, ""},
		{"nothing", "", binary, "", http.StatusBadRequest, "a body or end is needed"},
		{"too much", "", binary, strings.Repeat("x", 1<<20+1), http.StatusRequestEntityTooLarge, "at most 1048576 bytes"},
		{"end twice", "?end=true", text, `{"data":"x"}`, http.StatusBadRequest, "end is a field of the body"},
		{"another kind", "", "text/plain", "x", http.StatusUnsupportedMediaType, "application/json"},
		{"the end", "?end=true", binary, "last", http.StatusNoContent, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			c.BaseURL+"/v1/sandboxes/x/execs/"+exec.ID+"/stdin"+tt.query, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.APIKey)
		req.Header.Set("Content-Type", tt.kind)
		resp, err := c.HTTPClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.Body.Close() != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != tt.status || !strings.Contains(string(answer), tt.says) {
			t.Errorf("%s: %d %s", tt.name, resp.StatusCode, answer)
		}
	}
	stream, err := c.Execs("x").Attach(t.Context(), exec.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	var got []byte
	for m := (shoal.ExecMessage{}); m.Type != shoal.MessageEnded; got = append(got, m.Bytes()...) {
		if m, err = stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if string(got) != "\xff\x00last" {
		t.Errorf("the process got %q", got)
	}
}
