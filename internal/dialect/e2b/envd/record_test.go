package envd_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// record writes a request to a file of its own, and leaves the request as it was. What changes from run to run is left out.
func record(t *testing.T, dir string, r *http.Request) {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Errorf("record: %v", err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.Method, r.URL.RequestURI())
	var names []string
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\r\n", name, r.Header.Get(name))
	}
	fmt.Fprintf(&b, "Host: %s\r\n\r\n", r.Host)
	b.Write(body)
	name := strings.NewReplacer("/", "_", ".", "_").Replace(strings.Trim(r.URL.Path, "/"))
	for i := 0; ; i++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%s-%03d.http", name, i)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if os.IsExist(err) {
			continue
		}
		if err == nil {
			_, err = f.Write(b.Bytes())
		}
		if err != nil {
			t.Errorf("record: %v", err)
		} else if err := f.Close(); err != nil {
			t.Errorf("record: %v", err)
		}
		return
	}
}
