package envd_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what the handler answers to the golden files")

// TestRecordedRequests sends what the official clients sent, byte for byte (TestClients records it), each to a sandbox of its own, and
// compares the answer with the one beside it. A process id of the recording means nothing now.
func TestRecordedRequests(t *testing.T) {
	requests, err := filepath.Glob("testdata/requests/*.http")
	if err != nil || len(requests) < 40 {
		t.Fatalf("%d requests, %v", len(requests), err)
	}
	for _, name := range requests {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b := newBench(t)
			b.plant(t, "dir/sub/one.txt")
			got := b.replay(t, name)
			golden := strings.TrimSuffix(name, ".http") + ".want"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// replay sends a recorded request and returns what came back, without what differs from run to run.
func (b *bench) replay(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, body, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !ok {
		t.Fatal("no end of the header")
	}
	r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(head), strings.NewReader("\r\n\r\n"))))
	if err != nil {
		t.Fatal(err)
	}
	if r.URL, err = url.Parse(b.url + r.RequestURI); err != nil {
		t.Fatal(err)
	}
	r.RequestURI, r.ContentLength = "", 0
	if len(body) > 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
	}
	res, err := http.DefaultTransport.RoundTrip(r.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	reply, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d %s\n", res.StatusCode, res.Header.Get("Content-Type"))
	switch kind := res.Header.Get("Content-Type"); {
	case strings.HasPrefix(kind, "application/connect+json"):
		b.stream(t, &out, reply)
		return out.String()
	case strings.HasPrefix(kind, "application/json"):
		fmt.Fprintf(&out, "%s\n", b.scrub(t, reply))
	}
	if len(reply) > 0 && !strings.Contains(res.Header.Get("Content-Type"), "json") {
		fmt.Fprintf(&out, "%s\n", reply)
	}
	return out.String()
}

// stream writes the messages of a stream, with all output in one place: how it is cut, and which of two pipes comes first, is chance.
func (b *bench) stream(t *testing.T, out io.Writer, reply []byte) {
	t.Helper()
	output := map[string]string{}
	for len(reply) >= 5 {
		size := 5 + int(binary.BigEndian.Uint32(reply[1:5]))
		var m struct {
			Event struct{ Data map[string][]byte }
		}
		if err := json.Unmarshal(reply[5:size], &m); err != nil {
			t.Fatalf("%q: %v", reply[5:size], err)
		}
		for pipe, data := range m.Event.Data {
			output[pipe] += string(data)
		}
		if len(m.Event.Data) == 0 {
			fmt.Fprintf(out, "%d %s\n", reply[0], b.scrub(t, reply[5:size]))
		}
		reply = reply[size:]
	}
	for _, pipe := range []string{"stdout", "stderr", "pty"} {
		if text, ok := output[pipe]; ok {
			fmt.Fprintf(out, "%s %q\n", pipe, text)
		}
	}
	if len(reply) > 0 {
		t.Errorf("after the last message: %q", reply)
	}
}

// scrub returns JSON in one form, without the home, times, owners and process ids of this run.
func (b *bench) scrub(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	var one bytes.Buffer
	e := json.NewEncoder(&one)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	s := strings.ReplaceAll(strings.TrimSpace(one.String()), b.home, "HOME")
	s = regexp.MustCompile(`"(modifiedTime|owner|group)":"[^"]*"`).ReplaceAllString(s, `"$1":"…"`)
	s = regexp.MustCompile(`"size":"\d+","type":"FILE_TYPE_DIRECTORY"`).ReplaceAllString(s, `"size":"…","type":"FILE_TYPE_DIRECTORY"`)
	return regexp.MustCompile(`"pid":\d+`).ReplaceAllString(s, `"pid":0`)
}
