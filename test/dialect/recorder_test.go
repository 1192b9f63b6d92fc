package dialect_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// recorder is a proxy in front of a listener that writes down what a client sends: the facts of the wire that the adapter rests on.
type recorder struct {
	url string
	// keep are the headers that are written down.
	keep []string
	// clean takes out of a request what is another in every run; nil for nothing.
	clean func(*http.Request, []byte) (*http.Request, []byte)

	mu   sync.Mutex
	text strings.Builder
	// ids are the sandboxes in the order in which they were seen: their ids differ in every run.
	ids []string
	// polled says that the last request asked what has happened.
	polled bool
}

// record starts a recorder in front of target, which ends with the test.
func record(t *testing.T, target string, keep ...string) *recorder {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{keep: keep}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.Out.Host = p.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		body, err := io.ReadAll(hr.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if r.clean != nil {
			r.note(r.clean(hr, body))
		} else {
			r.note(hr, body)
		}
		hr.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, hr)
	}))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// note writes one request down.
func (r *recorder) note(hr *http.Request, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	polls := strings.HasSuffix(hr.URL.Path, "/GetWatcherEvents")
	if polls && r.polled {
		return // how often it asks is chance
	}
	r.polled = polls
	fmt.Fprintf(&r.text, "%s %s\n", hr.Method, r.named(hr.URL.RequestURI()))
	for _, name := range r.keep {
		for _, v := range hr.Header.Values(name) {
			if scheme, _, ok := strings.Cut(v, " "); ok && name == "Authorization" {
				v = scheme + " KEY"
			}
			fmt.Fprintf(&r.text, "%s: %s\n", name, r.named(v))
		}
	}
	if slices.Contains(hr.TransferEncoding, "chunked") {
		r.text.WriteString("Transfer-Encoding: chunked\n")
	}
	switch {
	case len(body) == 0:
	case len(body) > 600 || !utf8.Valid(body):
		fmt.Fprintf(&r.text, "(%d bytes, sha256 %.8x)\n", len(body), sha256.Sum256(body))
	default:
		fmt.Fprintf(&r.text, "%s\n", strings.TrimSuffix(r.named(string(body)), "\n"))
	}
	r.text.WriteString("\n")
}

// named puts a name in place of a sandbox's id.
func (r *recorder) named(s string) string {
	return regexp.MustCompile(`\b[a-z][a-z0-9]{21}\b`).ReplaceAllStringFunc(s, func(id string) string {
		i := slices.Index(r.ids, id)
		if i < 0 {
			i = len(r.ids)
			r.ids = append(r.ids, id)
		}
		return fmt.Sprintf("SANDBOX%d", i+1)
	})
}

// recorded is all that was written down.
func (r *recorder) recorded() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
