package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"shoal/api"
	shoal "shoal/sdk/go"
)

func TestClientFiles(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	ctx, f := t.Context(), c.Files("x")
	big := make([]byte, 5<<20+1)
	for i := range big {
		big[i] = byte(rand.Uint32())
	}
	for path, data := range map[string][]byte{
		"/plain.txt": []byte("text"), "/empty": {}, "/big": big, "/with space\nand newline": []byte("a"),
		"/not-utf8-\xff\xfe": []byte("raw"), "/a+b&c=d%20?#": []byte("query"), "/" + strings.Repeat("ü", 127): []byte("long"),
	} {
		info, err := f.Write(ctx, path, bytes.NewReader(data), shoal.WriteOptions{Mode: 0o600})
		if err != nil || info.PathBytes() != path || info.Size != int64(len(data)) || info.Mode != "0600" {
			t.Errorf("write %q: %+v, %v", path, info, err)
		}
		if info, err := f.Stat(ctx, path); err != nil || info.PathBytes() != path {
			t.Errorf("stat %q: %+v, %v", path, info, err)
		}
		r, err := f.Read(ctx, path)
		if err != nil {
			t.Errorf("read %q: %v", path, err)
			continue
		}
		if got := readAll(t, r); !bytes.Equal(got, data) {
			t.Errorf("read %q: %d bytes, want %d", path, len(got), len(data))
		}
	}
	r, err := f.ReadRange(ctx, "/big", 1000, 70_000)
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, r); !bytes.Equal(got, big[1000:71_000]) {
		t.Errorf("the range has %d bytes", len(got))
	}
	_, err = f.ReadRange(ctx, "/plain.txt", 99, -1)
	if e := wantCode(t, err, shoal.CodeInvalid); e.Status != 416 {
		t.Errorf("behind the end: %+v", e)
	}
	if err := errors.Join(
		f.Move(ctx, "/not-utf8-\xff\xfe", "/moved-\xff"), f.Mkdir(ctx, "/dir-\xff", shoal.WriteOptions{}), f.Remove(ctx, "/empty", false),
	); err != nil {
		t.Error(err)
	}
	var names []string
	for info, err := range f.List(ctx, "/") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.NameBytes())
	}
	if !slices.Contains(names, "moved-\xff") || !slices.Contains(names, "dir-\xff") || slices.Contains(names, "empty") {
		t.Errorf("listed %q", names)
	}
}

// TestFilePagesAreBounded: a page of files with very long names ends before its limit, and the next one goes on behind it.
func TestFilePagesAreBounded(t *testing.T) {
	a, fake := newAPI(t, nil)
	get := func(method, path, body string) []byte {
		req := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+tenantKey)
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, req)
		return w.Body.Bytes()
	}
	get("POST", "/v1/sandboxes", `{"name":"x"}`)
	const n = 990
	dir := "/" + strings.Repeat("d", 3800)
	guest := fake.files["s000000000000000000001"]
	for i := range n {
		guest.files[fmt.Sprintf("%s/%0255d", dir, i)] = []byte("x")
	}
	var names []string
	cursor := ""
	for pages := 1; ; pages++ {
		body := get("GET", "/v1/sandboxes/x/files/list?limit=1000&path="+dir+"&cursor="+cursor, "")
		var page api.FileList
		if err := json.Unmarshal(body, &page); err != nil {
			t.Fatal(err)
		}
		if len(body) > 5<<20 {
			t.Errorf("a page has %d bytes", len(body))
		}
		for _, f := range page.Files {
			names = append(names, f.Name)
		}
		if cursor = page.NextCursor; cursor == "" {
			if pages != 2 {
				t.Errorf("%d pages", pages)
			}
			break
		}
	}
	if len(names) != n || !slices.IsSorted(names) || len(slices.Compact(names)) != n {
		t.Errorf("%d names", len(names))
	}
}

func readAll(t *testing.T, r io.ReadCloser) []byte {
	t.Helper()
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Error(err)
	}
	return data
}

// TestFilesThatLie reads files whose size is not what they say, as in /proc and /sys, and one that shrinks.
func TestFilesThatLie(t *testing.T) {
	c, fake := newClient(t, nil)
	create(t, c, "x")
	guest := fake.files["s000000000000000000001"]
	for path, tt := range map[string]struct {
		content string
		claims  int64
	}{
		"/proc/small": {"small\n", 0}, "/sys/page": {"1\n", 4096}, "/proc/large": {strings.Repeat("line\n", 40_000), 0},
		"/log": {strings.Repeat("grown\n", 40_000), 100_000},
	} {
		guest.files[path], guest.claims[path] = []byte(tt.content), tt.claims
		r, err := c.Files("x").Read(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		want := tt.content
		if path == "/log" {
			want = want[:100_000]
		}
		if got := readAll(t, r); string(got) != want {
			t.Errorf("%s: read %d bytes, want %d", path, len(got), len(want))
		}
	}
	guest.files["/shrunk"], guest.claims["/shrunk"] = make([]byte, 100_000), 200_000
	r, err := c.Files("x").Read(t.Context(), "/shrunk")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	wantCode(t, err, shoal.CodeUnavailable)
	if len(data) > 100_000 {
		t.Errorf("read %d bytes", len(data))
	}
}

// TestUploadCutOff shows that a body that breaks off changes nothing.
func TestUploadCutOff(t *testing.T) {
	lines := make(chan logLine, 16)
	c, fake := newClient(t, withLog(lines))
	create(t, c, "x")
	<-lines
	guest := fake.files["s000000000000000000001"]
	guest.files["/f"] = []byte("old")
	broken := io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), &failing{errors.New("disk on fire")})
	if _, err := c.Files("x").Write(t.Context(), "/f", broken, shoal.WriteOptions{}); err == nil {
		t.Error("the client is told nothing")
	}
	if line := <-lines; line.attrs["operation"] != "writeFile" || line.attrs["code"] != "invalid" {
		t.Errorf("the log says %v", line.attrs)
	}
	guest.mu.Lock()
	defer guest.mu.Unlock()
	if string(guest.files["/f"]) != "old" {
		t.Errorf("the file has %d bytes", len(guest.files["/f"]))
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }
