package httpapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	shoal "shoal/sdk/go"
)

func (f *fakeControl) SignFile(_ context.Context, p control.Principal, ref string, g core.FileGrant) (core.SignedGrant, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p, ref)
	if err != nil {
		return core.SignedGrant{}, err
	}
	s := core.SignedGrant{FileGrant: g, Sandbox: f.sandboxes[i].ID, Token: fmt.Sprintf("token-%d", len(f.grants)), ExpiresAt: f.now.Add(g.For)}
	f.grants = append(f.grants, fakeGrant{s, p})
	return s, nil
}

func (f *fakeControl) OpenGrant(_ context.Context, token string) (control.Principal, core.SignedGrant, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.grants {
		if g.Token == token {
			return g.by, g.SignedGrant, nil
		}
	}
	return control.Principal{}, core.SignedGrant{}, core.Errorf(core.CodeUnauthenticated, "the URL's signature is missing or wrong")
}

type fakeGrant struct {
	core.SignedGrant
	by control.Principal
}

// plain makes a request without a key.
func plain(t *testing.T, method, url string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestSignedURLs: without a key they read or write one file, say nothing that a browser would act on, and nothing more.
func TestSignedURLs(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	ctx, f := t.Context(), c.Files("x")
	if _, err := f.Write(ctx, "/page.html", strings.NewReader("<script>0</script>"), shoal.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	read := must(f.Sign(ctx, "/page.html", shoal.SignOptions{For: time.Minute}))(t)
	write := must(f.Sign(ctx, "/new", shoal.SignOptions{Write: true, MaxBytes: 5}))(t)
	if !strings.HasPrefix(read.URL, c.BaseURL+"/v1/signed?token=") || read.Method != http.MethodGet || write.Method != http.MethodPut {
		t.Errorf("%+v, %+v", read, write)
	}
	resp := plain(t, http.MethodGet, read.URL, nil, "Range", "bytes=1-6", "Origin", "https://elsewhere.example")
	if b, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusPartialContent || string(b) != "script" || err != nil {
		t.Errorf("%d, %q, %v", resp.StatusCode, b, err)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "Content-Disposition": "attachment; filename=page.html", "X-Content-Type-Options": "nosniff",
		"Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
		"Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if resp := plain(t, http.MethodHead, read.URL, nil); resp.StatusCode != 200 || resp.ContentLength != 18 || resp.Header.Get("ETag") == "" {
		t.Errorf("HEAD: %d, %v", resp.StatusCode, resp.Header)
	}
	for _, tc := range []struct {
		method, url, body string
		want              int
	}{
		{http.MethodPut, read.URL, "x", 403},
		{http.MethodGet, write.URL, "", 403},
		{http.MethodPut, write.URL, "123456", 413},
		{http.MethodPut, write.URL, "12345", 200},
		{http.MethodGet, read.URL + "x", "", 401},
		{http.MethodGet, c.BaseURL + "/v1/signed", "", 401},
		{http.MethodGet, read.URL + "&path=/etc/passwd", "", 400},
		{http.MethodDelete, read.URL, "", 405},
		{http.MethodOptions, read.URL, "", 405},
	} {
		if resp := plain(t, tc.method, tc.url, strings.NewReader(tc.body)); resp.StatusCode != tc.want {
			t.Errorf("%s %s with %q: %d, want %d", tc.method, tc.url, tc.body, resp.StatusCode, tc.want)
		}
	}
	// A body of unknown length is bounded as well.
	if resp := plain(t, http.MethodPut, write.URL, io.MultiReader(strings.NewReader("abc"), strings.NewReader("def"))); resp.StatusCode != 413 {
		t.Errorf("chunked: %d", resp.StatusCode)
	}
	if got := readAll(t, must(f.Read(ctx, "/new"))(t)); string(got) != "12345" {
		t.Errorf("%q", got)
	}
}

// TestContentDigest: content that is another than its digest says changes nothing, whether that comes before or after it.
func TestContentDigest(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	f := c.Files("x")
	put := func(content, digest string, later bool) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, c.BaseURL+"/v1/sandboxes/x/files?path=/f", io.MultiReader(strings.NewReader(content)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.APIKey)
		if later {
			req.Trailer = http.Header{"Content-Digest": {digest}}
		} else {
			req.Header.Set("Content-Digest", digest)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode
	}
	sum := sha256.Sum256([]byte("good"))
	good := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	for _, later := range []bool{false, true} {
		for _, tc := range []struct {
			content, digest string
			want            int
		}{{"good", good, 200}, {"evil", good, 400}, {"", good, 400}, {"good", "md5=:AAAA:, " + good, 200}, {"evil", "md5=:AAAA:", 400}, {"evil", "sha-256=:AAAA:", 400}} {
			if got := put(tc.content, tc.digest, later); got != tc.want {
				t.Errorf("%q as %s, later %v: %d, want %d", tc.content, tc.digest, later, got, tc.want)
			}
		}
	}
	if got := readAll(t, must(f.Read(t.Context(), "/f"))(t)); !bytes.Equal(got, []byte("good")) {
		t.Errorf("%q", got)
	}
}
