package envd_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

// reply is what came back.
type reply struct {
	status int
	header http.Header
	body   string
}

// call makes a request. Its body goes chunked, as the clients send theirs.
func (b *bench) call(t *testing.T, method, path string, body io.Reader, header ...string) reply {
	t.Helper()
	if body != nil {
		body = struct{ io.Reader }{body}
	}
	r, err := http.NewRequestWithContext(t.Context(), method, b.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip, deflate")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: read: %v", method, path, err)
	}
	return reply{res.StatusCode, res.Header, string(text)}
}

// failed checks an error's form.
func (r reply) failed(t *testing.T, what string, status int, text string) {
	t.Helper()
	var e struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || r.status != status || e.Code != status || !strings.Contains(e.Message, text) {
		t.Errorf("%s: %d %s, %v; want %d and %q", what, r.status, r.body, err, status, text)
	}
}

func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return "/files?" + v.Encode()
}

func TestDownload(t *testing.T) {
	b := newBench(t)
	b.plant(t, "dir/", "empty.txt")
	big := strings.Repeat("0123456789", 30_000)
	for name, text := range map[string]string{"empty.txt": "", "big": big, "a b+c&d.html": "<p>", "ü\".txt": "x"} {
		if err := os.WriteFile(filepath.Join(b.home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.link(t, "big", "link")
	for name, want := range map[string]string{"empty.txt": "", "big": big, "link": big, "a b+c&d.html": "<p>", "ü\".txt": "x", b.home + "/big": big} {
		r := b.call(t, "GET", query("path", name), nil)
		if r.status != 200 || r.body != want || r.header.Get("Content-Length") == "" || !strings.HasPrefix(r.header.Get("Content-Disposition"), "inline; filename") {
			t.Errorf("%s: %d, %d bytes, %v", name, r.status, len(r.body), r.header)
		}
		if policy := r.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "sandbox;") {
			t.Errorf("%s: a page from the sandbox may run scripts: %q", name, policy)
		}
	}
	if r := b.call(t, "GET", query("path", "empty.txt"), nil); r.header.Get("Content-Length") != "0" {
		t.Errorf("an empty file: %v", r.header)
	}
	if r := b.call(t, "GET", query("path", "/proc/self/status"), nil); r.status != 200 || !strings.Contains(r.body, "Pid:") {
		t.Errorf("/proc: %d %.80q", r.status, r.body)
	}
	if r := b.call(t, "HEAD", query("path", "link"), nil); r.status != 200 || r.header.Get("Content-Length") != "300000" || r.body != "" {
		t.Errorf("head: %+v", r)
	}
	b.call(t, "GET", query("path", "none"), nil).failed(t, "no file", 404, "no such file")
	b.call(t, "GET", query("path", "dir"), nil).failed(t, "a directory", 400, "it is a directory")
	b.call(t, "GET", "/files", nil).failed(t, "no path", 400, "it is a directory")
	b.call(t, "GET", query("path", "big", "username", "no-such-user"), nil).failed(t, "no user", 401, "invalid username: 'no-such-user'")
	b.call(t, "GET", query("path", "big", "username", "root:root"), nil).failed(t, "a group", 401, "invalid username")
	b.call(t, "DELETE", query("path", "big"), nil).failed(t, "another method", 405, "GET, POST")
	if r := b.call(t, "HEAD", query("path", "none"), nil); r.status != 404 {
		t.Errorf("head of nothing: %d", r.status)
	}
}

func TestDownloadRanges(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(filepath.Join(b.home, "f"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]struct {
		status      int
		body, where string
	}{
		"bytes=2-4":   {206, "234", "bytes 2-4/10"},
		"bytes=7-":    {206, "789", "bytes 7-9/10"},
		"bytes=-2":    {206, "89", "bytes 8-9/10"},
		"bytes=-99":   {206, "0123456789", "bytes 0-9/10"},
		"bytes=5-999": {206, "56789", "bytes 5-9/10"},
	} {
		r := b.call(t, "GET", query("path", "f"), nil, "Range", spec)
		if r.status != want.status || r.body != want.body || r.header.Get("Content-Range") != want.where {
			t.Errorf("%s: %+v", spec, r)
		}
	}
	r := b.call(t, "GET", query("path", "f"), nil, "Range", "bytes=10-")
	r.failed(t, "behind the end", 416, "10 bytes")
	if r.header.Get("Content-Range") != "bytes */10" {
		t.Errorf("%v", r.header)
	}
	for _, bad := range []string{"bytes=4-2", "bytes=-0", "bytes=1-2,3-4", "lines=1-2", "bytes=x", "bytes=99999999999999999999-"} {
		b.call(t, "GET", query("path", "f"), nil, "Range", bad).failed(t, bad, 400, "Range")
	}
	if r := b.call(t, "GET", query("path", "f"), nil, "Range", "bytes=2-4", "If-Range", `"x"`); r.status != 200 || r.body != "0123456789" {
		t.Errorf("if-range: %+v", r)
	}
}

func TestDownloadEncodings(t *testing.T) {
	b := newBench(t)
	b.plant(t, "f")
	for accept, packed := range map[string]bool{"gzip": false, "": false, "identity": false, "gzip;q=1, identity;q=0": true, "gzip, *;q=0": true} {
		r := b.call(t, "GET", query("path", "f"), nil, "Accept-Encoding", accept)
		if packed {
			z, err := gzip.NewReader(strings.NewReader(r.body))
			if err != nil {
				t.Fatalf("%s: %v", accept, err)
			}
			text, err := io.ReadAll(z)
			r.body = string(text)
			if err != nil {
				t.Errorf("%s: %v", accept, err)
			}
		}
		if r.status != 200 || r.body != "f" || (r.header.Get("Content-Encoding") == "gzip") != packed {
			t.Errorf("%q: %+v", accept, r)
		}
	}
	b.call(t, "GET", query("path", "f"), nil, "Accept-Encoding", "br, identity;q=0").failed(t, "neither", 406, "accept identity or gzip")
}

// form is a multipart body with parts of files, in turns of filename and content.
func form(t *testing.T, field string, parts ...string) (io.Reader, string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(parts); i += 2 {
		h := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + field + `"; filename="` + parts[i] + `"`}, "Content-Type": {"application/octet-stream"}}
		p, err := w.CreatePart(h)
		if err == nil {
			_, err = io.WriteString(p, parts[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b, w.FormDataContentType()
}

// content reads what lies in the home.
func (b *bench) content(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.home, name))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestUploadForm(t *testing.T) {
	b := newBench(t)
	body, kind := form(t, "file", "blob", "one")
	r := b.call(t, "POST", query("path", "new/dir/f"), body, "Content-Type", kind)
	if want := `[{"path":"` + b.home + `/new/dir/f","name":"f","type":"file"}]` + "\n"; r.status != 200 || r.body != want {
		t.Errorf("%d %s", r.status, r.body)
	}
	big := strings.Repeat("y", 3<<20)
	body, kind = form(t, "file", "a/b/c", "abc", b.home+"/absolute", big, "empty", "", "ü ß", "u", "say %22hi%22", "q")
	r = b.call(t, "POST", "/files", body, "Content-Type", kind)
	var list []map[string]string
	if err := json.Unmarshal([]byte(r.body), &list); err != nil || r.status != 200 || len(list) != 5 || list[0]["path"] != b.home+"/a/b/c" {
		t.Errorf("%d %s, %v", r.status, r.body, err)
	}
	got := map[string]string{}
	want := map[string]string{"new/dir/f": "one", "a/b/c": "abc", "absolute": big, "empty": "", "ü ß": "u", `say "hi"`: "q"}
	for name := range want {
		got[name] = b.content(t, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%.2000s", diff)
	}
	if st, err := os.Stat(filepath.Join(b.home, "a/b/c")); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", st, err)
	}
	if st, err := os.Stat(filepath.Join(b.home, "a/b")); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", st, err)
	}
}

func TestUploadOctets(t *testing.T) {
	b := newBench(t)
	r := b.call(t, "POST", query("path", "f"), strings.NewReader("first, and longer"), "Content-Type", "application/octet-stream")
	if r.status != 200 || b.content(t, "f") != "first, and longer" {
		t.Errorf("%+v", r)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, "second"); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	whole := packed.String()
	r = b.call(t, "POST", query("path", "f"), &packed, "Content-Type", "application/octet-stream", "Content-Encoding", "gzip")
	if r.status != 200 || b.content(t, "f") != "second" {
		t.Errorf("%+v, %q", r, b.content(t, "f"))
	}
	// Whatever is wrong with a body, what it was for is as it was.
	octets := []string{"Content-Type", "application/octet-stream"}
	b.call(t, "POST", query("path", "f"), strings.NewReader(whole[:len(whole)-6]), append(octets, "Content-Encoding", "gzip")...).
		failed(t, "cut off inside", 400, "broke off")
	b.call(t, "POST", query("path", "f"), strings.NewReader("plain"), append(octets, "Content-Encoding", "gzip")...).failed(t, "not gzip", 400, "gzip")
	b.call(t, "POST", query("path", "f"), strings.NewReader("x"), append(octets, "Content-Encoding", "br")...).failed(t, "another encoding", 415, "gzip")
	b.call(t, "POST", query("path", "f"), strings.NewReader("x"), append(octets, "X-Metadata-Color", "red")...).failed(t, "metadata", 501, "metadata")
	b.call(t, "POST", query("path", "f", "username", "no-such-user"), strings.NewReader("x"), octets...).failed(t, "no user", 401, "invalid username")
	b.call(t, "POST", "/files", strings.NewReader("x"), octets...).failed(t, "no path", 400, "path is needed")
	b.call(t, "POST", query("path", "f"), strings.NewReader("x"), "Content-Type", "text/plain").failed(t, "another type", 400, "multipart/form-data")
	b.call(t, "POST", query("path", "/"), strings.NewReader("x"), octets...).failed(t, "a directory", 400, "it is a directory")
	if got := b.content(t, "f"); got != "second" {
		t.Errorf("after all refusals: %q", got)
	}
}

// TestUploadFormBounds: neither an answer nor a line of the log grows with what a form makes up, nor what is kept while it comes.
func TestUploadFormBounds(t *testing.T) {
	b := newBench(t)
	body, kind := form(t, strings.Repeat("f", 1<<20), "x", "1")
	if r := b.call(t, "POST", "/files", body, "Content-Type", kind); r.status != 400 || len(r.body) > 1000 {
		t.Errorf("a long field: %d, %d bytes", r.status, len(r.body))
	}
	name := strings.Repeat(strings.Repeat("d", 200)+"/", 17) + "f"
	var parts []string
	for range 1300 {
		parts = append(parts, name, "")
	}
	body, kind = form(t, "file", parts...)
	b.call(t, "POST", "/files", body, "Content-Type", kind).failed(t, "long paths", 400, "send the others by another call")
}

func TestUploadFormRefusals(t *testing.T) {
	b := newBench(t)
	post := func(path string, body io.Reader, kind string) reply {
		return b.call(t, "POST", path, body, "Content-Type", kind)
	}
	body, kind := form(t, "file", "x", "1", "y", "2")
	post(query("path", "only"), body, kind).failed(t, "a path for two", 400, "leave it out")
	body, kind = form(t, "document", "x", "1")
	post("/files", body, kind).failed(t, "another field", 400, "named file")
	body, kind = form(t, "file", "", "1")
	post("/files", body, kind).failed(t, "no name", 400, "filename")
	body, kind = form(t, "file")
	post("/files", body, kind).failed(t, "no parts", 400, "no part")
	body, kind = form(t, "file", "whole", "1", "half", strings.Repeat("2", 1000))
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	post("/files", bytes.NewReader(text[:len(text)-300]), kind).failed(t, "cut off", 400, "broke off")
	if b.content(t, "whole") != "1" || !strings.Contains(b.content(t, "half"), "no such file") {
		t.Errorf("whole %q, half %q", b.content(t, "whole"), b.content(t, "half"))
	}
	post("/files", strings.NewReader("x"), "multipart/form-data").failed(t, "no boundary", 400, "multipart/form-data")
}

// TestUploadCutOff: a client that goes away in the middle leaves no half of a file.
func TestUploadCutOff(t *testing.T) {
	b := newBench(t)
	b.plant(t, "f")
	body := io.MultiReader(strings.NewReader(strings.Repeat("x", 200_000)), iotest.ErrReader(io.ErrUnexpectedEOF))
	r, err := http.NewRequestWithContext(t.Context(), "POST", b.url+query("path", "f"), body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	if res, err := http.DefaultClient.Do(r); err == nil {
		t.Errorf("status %d", res.StatusCode)
		_ = res.Body.Close()
	}
	if got := b.content(t, "f"); got != "f" {
		t.Errorf("%d bytes", len(got))
	}
}

// TestFullDisk: a client that still sends comes to read that there is no room.
func TestFullDisk(t *testing.T) {
	b := newBench(t)
	full := "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip(err)
	}
	body := io.LimitReader(zeros{}, 64<<20)
	b.call(t, "POST", query("path", full), body, "Content-Type", "application/octet-stream").failed(t, "full", 507, "not enough disk space")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestSignsOfLife(t *testing.T) {
	b := newBench(t)
	if r := b.call(t, "GET", "/health", nil); r.status != 204 || r.body != "" {
		t.Errorf("health: %+v", r)
	}
	b.call(t, "GET", "/health", nil, "No-Target", "1").failed(t, "no sandbox", 502, "not running")
	b.call(t, "GET", "/metrics", nil, "No-Target", "1").failed(t, "no sandbox", 401, "no sandbox")
	var m map[string]float64
	r := b.call(t, "GET", "/metrics", nil)
	if err := json.Unmarshal([]byte(r.body), &m); err != nil || m["ts"] == 0 || m["cpu_used_pct"] <= 0 || m["cpu_used_pct"] > 60 {
		t.Errorf("metrics: %s, %v", r.body, err)
	}
	delete(m, "ts")
	delete(m, "cpu_used_pct")
	want := map[string]float64{"cpu_count": 2, "mem_total": 512 << 20, "mem_used": 3 << 20, "mem_total_mib": 512, "mem_used_mib": 3, "disk_total": 4 << 30}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("metrics: %s", diff)
	}
	var env map[string]string
	r = b.call(t, "GET", "/envs", nil)
	if err := json.Unmarshal([]byte(r.body), &env); err != nil || env["FROM_CREATE"] != "yes" || env["E2B_SANDBOX_ID"] != string(boxID) {
		t.Errorf("envs: %s, %v", r.body, err)
	}
	for _, path := range []string{"/init", "/freeze", "/unfreeze", "/fsfreeze", "/fsthaw", "/collapse", "/upgrade", "/", "/files/x"} {
		b.call(t, "POST", path, strings.NewReader("{}")).failed(t, path, 404, "no such path")
	}
	b.call(t, "POST", "/files/compose", strings.NewReader("{}")).failed(t, "compose", 501, "cat")
}

// TestErrors: what goes wrong behind is told in the codes that clients act upon, and a cause of ours is not told.
func TestErrors(t *testing.T) {
	b := newBench(t)
	b.fail["Files"] = core.Errorf(core.CodeUnavailable, "the sandbox's guest agent can't be reached")
	b.call(t, "GET", query("path", "f"), nil).failed(t, "gone", 502, "can't be reached")
	b.fail["Files"] = core.Wrap(core.CodeInternal, io.ErrClosedPipe, "internal error")
	if r := b.call(t, "GET", query("path", "f"), nil); r.status != 500 || strings.Contains(r.body, "pipe") {
		t.Errorf("%+v", r)
	}
	b.fail["Files"] = io.ErrClosedPipe
	if r := b.call(t, "GET", query("path", "f"), nil); r.status != 500 || strings.Contains(r.body, "pipe") {
		t.Errorf("%+v", r)
	}
	b.closing()
	b.fail["Files"] = core.Errorf(core.CodeUnavailable, "closing")
	b.call(t, "GET", query("path", "f"), nil).failed(t, "closing", 503, "closing")
}

// TestSandboxGone: what is asked of a sandbox that ends meanwhile is not answered as if a file, or every process, were missing.
func TestSandboxGone(t *testing.T) {
	for _, gone := range []error{core.Errorf(core.CodeNotFound, "no such sandbox"), core.Errorf(core.CodeConflict, "the sandbox is failed: out of memory")} {
		b := newBench(t)
		for _, method := range []string{"Files", "Exec", "ListExecs", "Metrics"} {
			b.fail[method] = gone
		}
		b.call(t, "GET", query("path", "f"), nil).failed(t, "read", 502, "not running any more")
		b.call(t, "GET", "/metrics", nil).failed(t, "metrics", 502, "not running any more")
		for path, body := range map[string]string{"filesystem.Filesystem/Stat": `{"path":"/f"}`, "filesystem.Filesystem/Remove": `{"path":"/f"}`, "process.Process/List": "{}"} {
			if r := b.call(t, "POST", "/"+path, strings.NewReader(body), "Content-Type", "application/json"); r.status != 503 || !strings.Contains(r.body, `"code":"unavailable"`) {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
		}
		if r := b.run(t, shell("true")); connect.CodeOf(r.err) != connect.CodeUnavailable {
			t.Errorf("start: %v", r.err)
		}
	}
}

// TestOrigins: pages of any origin may call, with any header.
func TestOrigins(t *testing.T) {
	b := newBench(t)
	r := b.call(t, "OPTIONS", "/process.Process/Start", nil, "No-Target", "1", "Origin", "https://example.com",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,connect-protocol-version,x-access-token")
	if r.status != 204 || r.header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(r.header.Get("Access-Control-Allow-Headers"), "authorization") ||
		!strings.Contains(r.header.Get("Access-Control-Allow-Methods"), "POST") {
		t.Errorf("%+v", r)
	}
	if r := b.call(t, "GET", "/health", nil, "Origin", "https://example.com"); r.header.Get("Access-Control-Allow-Origin") != "*" || r.header.Get("Access-Control-Expose-Headers") == "" {
		t.Errorf("%+v", r)
	}
}

// TestStrict: a field that is not known is refused, in either encoding: an option must not be accepted and ignored.
func TestStrict(t *testing.T) {
	b := newBench(t)
	r := b.call(t, "POST", "/filesystem.Filesystem/Stat", strings.NewReader(`{"path":"/","follow":true}`), "Content-Type", "application/json")
	if r.status != 400 || !strings.Contains(r.body, "invalid_argument") || !strings.Contains(r.body, "follow") {
		t.Errorf("JSON: %+v", r)
	}
	r = b.call(t, "POST", "/filesystem.Filesystem/Stat", strings.NewReader("\x0a\x01/\x10\x01"), "Content-Type", "application/proto")
	if r.status != 400 || !strings.Contains(r.body, "not known") {
		t.Errorf("binary: %+v", r)
	}
	r = b.call(t, "POST", "/filesystem.Filesystem/Stat", strings.NewReader(`{"path":"/"}`), "Content-Type", "application/json; charset=utf-8")
	if r.status != 200 || !strings.Contains(r.body, "FILE_TYPE_DIRECTORY") || !strings.Contains(r.body, "modifiedTime") {
		t.Errorf("names of fields: %+v", r)
	}
}
