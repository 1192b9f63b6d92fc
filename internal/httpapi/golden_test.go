package httpapi_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"shoal/internal/httpapi"
)

var update = flag.Bool("update", false, "write the responses into the golden files")

// newAPI returns an API on a fresh fake. A handler that logs an error fails no test: the tests look at replies.
func newAPI(t *testing.T, change func(*httpapi.Options)) (*httpapi.API, *fakeControl) {
	t.Helper()
	fake := newFake()
	o := httpapi.Options{Logger: slog.New(slog.DiscardHandler), Version: "1.2.3", Commit: "abc", Loopback: true}
	if change != nil {
		change(&o)
	}
	a, err := httpapi.New(fake, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, fake
}

// TestGolden replays the requests of testdata/*.txt, each file against a fresh server, and compares the responses. A
// request is its first line, headers, an empty line and a body; "+" before it adds nothing, and the key of a tenant is
// added unless a header says "Authorization: none".
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			replay(t, file)
		})
	}
}

func replay(t *testing.T, file string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := newAPI(t, nil)
	var out txtar.Archive
	out.Comment = archive.Comment
	for i, f := range archive.Files {
		if !strings.HasPrefix(f.Name, "request") {
			continue
		}
		got := []byte(exchange(t, a.Handler(), string(f.Data)))
		out.Files = append(out.Files, f, txtar.File{Name: "response", Data: got})
		if *update {
			continue
		}
		var want []byte
		if i+1 < len(archive.Files) && archive.Files[i+1].Name == "response" {
			want = archive.Files[i+1].Data
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", strings.SplitN(string(f.Data), "\n", 2)[0], diff)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(&out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var shownHeaders = []string{
	"Allow", "Content-Disposition", "Content-Range", "Content-Type", "ETag", "Idempotency-Replayed", "Location", "Repr-Digest", "Retry-After", "Upload-Offset", "WWW-Authenticate",
}

// exchange makes one request and returns the response as text, without what differs from run to run.
func exchange(t *testing.T, h http.Handler, text string) string {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	body = strings.TrimSuffix(body, "\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, target, _ := strings.Cut(lines[0], " ")
	req := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+target, strings.NewReader(body))
	if body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+tenantKey)
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		if value == "none" {
			req.Header.Del(name)
		} else if name == "Host" {
			req.Host = value
		} else {
			req.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return show(t, w.Result())
}

func show(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Header.Get("X-Request-Id")) != 22 || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the reply lacks a header that every reply has: %v", resp.Header)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", resp.StatusCode, http.StatusText(resp.StatusCode))
	for _, name := range shownHeaders {
		for _, v := range resp.Header.Values(name) {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	data = bytes.ReplaceAll(data, []byte(resp.Header.Get("X-Request-Id")), []byte("ID"))
	if len(data) > 0 {
		fmt.Fprintf(&b, "\n%s", data)
		if !bytes.HasSuffix(data, []byte("\n")) {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// TestGoldenCoversEveryOperation keeps the golden files complete, so that no reply changes unseen.
func TestGoldenCoversEveryOperation(t *testing.T) {
	a, _ := newAPI(t, func(o *httpapi.Options) { o.Loopback = false })
	var tried []string
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		scan := bufio.NewScanner(f)
		for scan.Scan() {
			if method, target, ok := strings.Cut(scan.Text(), " /"); ok && method == strings.ToUpper(method) {
				req := httptest.NewRequestWithContext(t.Context(), method, "http://localhost/"+target, nil)
				tried = append(tried, a.OperationOf(req))
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range a.OperationIDs() {
		if !slices.Contains(tried, id) && !slices.Contains([]string{"attachExec", "getOpenAPI", "getErrorReference", "getServerMetrics", "getVersion"}, id) {
			t.Errorf("no golden file has %s", id)
		}
	}
}
