package httpapi_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"shoal/internal/core"
	shoal "shoal/sdk/go"
)

// cutAfter is how much of an archive of a path that ends with "cut" is sent before it breaks off, at the end of an entry, where
// only its missing end tells.
const cutAfter = 512 + 64<<10

func (f *fakeFiles) Pack(_ context.Context, path string, _ core.PackOptions) (core.Archive, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.files[path]; !ok {
		return nil, core.Errorf(core.CodeNotFound, "no such file")
	}
	var b bytes.Buffer
	var report core.ArchiveReport
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		if rel, ok := strings.CutPrefix(name, path+"/"); ok {
			data := f.files[name]
			err := w.WriteHeader(&tar.Header{Name: rel, Size: int64(len(data)), Mode: 0o644})
			if _, werr := w.Write(data); err != nil || werr != nil {
				return nil, errors.Join(err, werr)
			}
			report.Files++
			report.Bytes += int64(len(data))
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, "cut") {
		return fakeArchive{io.MultiReader(bytes.NewReader(b.Bytes()[:cutAfter]), broken{}), report}, nil
	}
	report.Skipped, report.Notes = 1, []core.ArchiveNote{{Path: "\xff", Reason: "it is a fifo"}}
	return fakeArchive{&b, report}, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, core.Errorf(core.CodeConflict, "a file shrank") }

type fakeArchive struct {
	io.Reader
	report core.ArchiveReport
}

func (fakeArchive) Close() error                 { return nil }
func (a fakeArchive) Report() core.ArchiveReport { return a.report }

func (f *fakeFiles) Unpack(_ context.Context, path string, _ core.UnpackOptions, r io.Reader) (core.ArchiveReport, error) {
	var report core.ArchiveReport
	for t := tar.NewReader(r); ; report.Files++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) && report.Files > 0 {
			return report, nil
		}
		if err != nil {
			return report, core.Wrap(core.CodeInvalid, err, "the archive was cut off")
		}
		data, err := io.ReadAll(t)
		if err != nil {
			return report, core.Wrap(core.CodeInvalid, err, "the archive was cut off")
		}
		report.Bytes += h.Size
		f.mu.Lock()
		f.files[path+"/"+h.Name] = data
		f.mu.Unlock()
	}
}

func TestClientArchive(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	ctx, f := t.Context(), c.Files("x")
	for _, name := range []string{"/d", "/d/a", "/d/b", "/cut", "/cut/a"} {
		if _, err := f.Write(ctx, name, strings.NewReader(name), shoal.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	a, err := f.Archive(ctx, "/d", shoal.PackOptions{Exclude: []string{"x", "y"}})
	if err != nil {
		t.Fatal(err)
	}
	report, err := f.Unpack(ctx, "/e", a, shoal.UnpackOptions{Parents: true})
	if err != nil || report.Files != 2 || report.Bytes != 8 {
		t.Errorf("%+v, %v", report, err)
	}
	if r := a.Report(); r.Files != 2 || r.Skipped != 1 || len(r.Notes) != 1 || string(r.Notes[0].PathRaw) != "\xff" {
		t.Errorf("%+v", r)
	}
	if data := readAll(t, must(f.Read(ctx, "/e/b"))(t)); string(data) != "/d/b" {
		t.Errorf("%q", data)
	}
	if _, err := f.Archive(ctx, "/nothing", shoal.PackOptions{}); shoal.ErrorCode(err) != shoal.CodeNotFound {
		t.Errorf("%v", err)
	}
	if _, err := f.Unpack(ctx, "/e", strings.NewReader("no archive"), shoal.UnpackOptions{}); shoal.ErrorCode(err) != shoal.CodeInvalid {
		t.Errorf("%v", err)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestCutArchive: one that breaks off gives its reason to a client that reads trailers, and any other client a cut connection.
func TestCutArchive(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	f := c.Files("x")
	for _, name := range []string{"/cut", "/cut/a"} {
		if _, err := f.Write(t.Context(), name, bytes.NewReader(make([]byte, 64<<10)), shoal.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	a := must(f.Archive(t.Context(), "/cut", shoal.PackOptions{}))(t)
	defer func() { _ = a.Close() }()
	data, err := io.ReadAll(a)
	if shoal.ErrorCode(err) != shoal.CodeConflict || len(data) != cutAfter || !strings.Contains(err.Error(), "shrank") {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.BaseURL+"/v1/sandboxes/x/archive?path=/cut", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.APIKey)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if data, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%d bytes look whole", len(data))
	}
}
