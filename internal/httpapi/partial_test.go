package httpapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
	shoal "shoal/sdk/go"
)

// withAgent gives the sandbox x a real guest agent for its partial files, which writes here.
func withAgent(t *testing.T, fake *fakeControl) (files *fakeFiles, dir string) {
	t.Helper()
	srv, err := guest.New(guest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(client.Config{Dial: func(context.Context) (net.Conn, error) {
		host, inside := net.Pipe()
		go srv.ServeConn(context.Background(), inside)
		return host, nil
	}})
	t.Cleanup(func() { c.Close(); srv.Close() })
	files = fake.files["s000000000000000000001"]
	files.parts = c
	return files, t.TempDir()
}

// onePart has one partial file, p, of which five bytes have come.
type onePart struct{}

func (onePart) WritePart(_ context.Context, path string, o core.PartOptions, r io.Reader) (core.PartialFile, error) {
	data, err := io.ReadAll(r)
	p := core.PartialFile{Path: path, Size: o.Offset + int64(len(data)), ExpiresAt: epoch.Add(time.Hour)}
	if p.Whole = !o.More; p.Whole {
		sum := sha256.Sum256(data)
		p.SHA256, p.File = sum[:], core.FileInfo{Name: "f", Path: path, Type: core.FileRegular, Size: p.Size, MTime: epoch}
	}
	if o.Offset != 5 {
		err = &core.Error{Code: core.CodeConflict, Field: "offset", Message: "5 bytes have come: go on there"}
	}
	return p, err
}

func (onePart) PartialFile(_ context.Context, partial string) (core.PartialFile, error) {
	if partial != "p" {
		return core.PartialFile{}, &core.Error{Code: core.CodeNotFound, Field: "partial", Message: "there is no such partial file"}
	}
	return core.PartialFile{Path: "/f", Size: 5, ExpiresAt: epoch.Add(time.Hour)}, nil
}

func (o onePart) DropPartial(ctx context.Context, partial string) error {
	_, err := o.PartialFile(ctx, partial)
	return err
}

func (f *fakeFiles) WritePart(ctx context.Context, path string, o core.PartOptions, r io.Reader) (core.PartialFile, error) {
	return f.parts.WritePart(ctx, path, o, r)
}

func (f *fakeFiles) PartialFile(ctx context.Context, partial string) (core.PartialFile, error) {
	return f.parts.PartialFile(ctx, partial)
}

func (f *fakeFiles) DropPartial(ctx context.Context, partial string) error {
	return f.parts.DropPartial(ctx, partial)
}

// TestPartialFile: what each answer about a file in parts says, in HTTP's own words.
func TestPartialFile(t *testing.T) {
	c, fake := newClient(t, nil)
	create(t, c, "x")
	_, dir := withAgent(t, fake)
	name := filepath.Join(dir, "f")
	call := func(method, rest, body string, header ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, c.BaseURL+"/v1/sandboxes/x/"+rest, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.APIKey)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		resp.Body = io.NopCloser(bytes.NewReader(text))
		return resp
	}
	sum := sha256.Sum256([]byte("0123456789"))
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	for _, tc := range []struct {
		query, body string
		header      []string
		want        int
		offset, say string
	}{
		{"partial=p&more=true", "01234", nil, 202, "", `"size":5`},
		{"partial=p&more=true", "01234", nil, 409, "5", `"field":"offset"`},
		{"partial=p&offset=9", "01234", nil, 409, "5", `"field":"offset"`},
		{"partial=q&offset=9", "01234", nil, 409, "0", `"field":"offset"`},
		{"partial=p&offset=5&append=true", "56789", nil, 400, "", `"field":"append"`},
		{"partial=p&offset=5&mode=0600", "56789", nil, 409, "", `"field":"partial"`},
		{"partial=p&offset=5", "56789", []string{"Content-Digest", digest}, 501, "", `"field":"Content-Digest"`},
		{"partial=p&offset=5", "56789", []string{"Repr-Digest", "md5=:AAAA:"}, 400, "", `"field":"Repr-Digest"`},
		{"partial=p&offset=5&more=true", "56789", []string{"Repr-Digest", digest}, 400, "", `"field":"Repr-Digest"`},
		{"partial=p&offset=-1", "56789", nil, 400, "", `"field":"offset"`},
		{"offset=5", "56789", nil, 400, "", `"field":"offset"`},
		{"more=true", "56789", nil, 400, "", `"field":"more"`},
		{"", "56789", []string{"Repr-Digest", digest}, 400, "", `"field":"Repr-Digest"`},
		{"partial=p&offset=5", "56789", []string{"Repr-Digest", digest}, 200, "", `"size":10`},
		{"partial=p&offset=10", "", nil, 200, "", `"size":10`},
		{"partial=p&offset=10", "more", nil, 409, "10", `"field":"offset"`},
		{"partial=w", "another", []string{"Repr-Digest", digest}, 400, "", `"field":"Repr-Digest"`},
	} {
		resp := call(http.MethodPut, "files?path="+name+"&"+tc.query, tc.body, tc.header...)
		text, _ := io.ReadAll(resp.Body) // from memory
		if resp.StatusCode != tc.want || resp.Header.Get("Upload-Offset") != tc.offset || !strings.Contains(string(text), tc.say) {
			t.Errorf("%s: %d, offset %q, %s", tc.query, resp.StatusCode, resp.Header.Get("Upload-Offset"), text)
		}
		if tc.want == 200 && resp.Header.Get("Repr-Digest") != digest {
			t.Errorf("%s: digest %q", tc.query, resp.Header.Get("Repr-Digest"))
		}
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "0123456789" {
		t.Errorf("%q, %v", b, err)
	}
	f := c.Files("x")
	if p, err := f.Partial(t.Context(), "p"); err != nil || p.Size != 10 || p.Path != name || p.File.Size != 10 {
		t.Errorf("%+v, %v", p, err)
	}
	if err := f.DropPartial(t.Context(), "p"); err != nil {
		t.Error(err)
	}
	_, err := f.Partial(t.Context(), "p")
	wantCode(t, err, shoal.CodeNotFound)
	wantCode(t, f.DropPartial(t.Context(), "w"), shoal.CodeNotFound)
}

// cutting is a transport whose connections break after so many bytes, those of the requests or those of the replies.
type cutting struct {
	mu   sync.Mutex
	cuts []int
	down bool
}

func (c *cutting) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		cut := &cutConn{Conn: conn, left: -1, down: c.down}
		if len(c.cuts) > 0 {
			cut.left, c.cuts = c.cuts[0], c.cuts[1:]
		}
		return cut, nil
	}}}
}

// cutConn breaks once left bytes have gone; below zero it doesn't.
type cutConn struct {
	net.Conn
	mu   sync.Mutex
	left int
	down bool
}

func (c *cutConn) spend(n int) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left < 0 {
		return n, false
	}
	n = min(n, c.left)
	c.left -= n
	return n, c.left == 0
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.down {
		return c.Conn.Write(p)
	}
	n, cut := c.spend(len(p))
	n, err := c.Conn.Write(p[:n])
	if cut {
		return n, errors.Join(err, c.Close(), errors.New("cut"))
	}
	return n, err
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.down || err != nil {
		return n, err
	}
	n, cut := c.spend(n)
	if cut {
		return n, errors.Join(c.Close(), errors.New("cut"))
	}
	return n, nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// TestClientUploads: an upload whose connection breaks, also while its end is told, goes on where it was, and leaves nothing if it fails.
func TestClientUploads(t *testing.T) {
	c, fake := newClient(t, nil)
	create(t, c, "x")
	_, dir := withAgent(t, fake)
	cuts := &cutting{cuts: []int{3 << 20, 2 << 20, 100, 1 << 20}}
	c.HTTPClient, c.MaxRetries = cuts.client(), -1
	f, data := c.Files("x"), randomBytes(10<<20+7)
	var at []int64
	resume := shoal.Resume{Resumed: func(n int64, why error) {
		wantCode(t, why, shoal.CodeUnavailable)
		at = append(at, n)
	}}
	info, err := f.Upload(t.Context(), dir+"/f", bytes.NewReader(data), int64(len(data)), shoal.WriteOptions{Mode: 0o600}, resume)
	if err != nil || info.Size != int64(len(data)) || info.Mode != "0600" {
		t.Fatalf("%+v, %v", info, err)
	}
	if got, err := os.ReadFile(dir + "/f"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if len(at) < 3 || at[0] == 0 || !slices.IsSorted(at) || at[len(at)-1] < 4<<20 {
		t.Errorf("went on at %v", at)
	}

	// Less than was said, and what can't be read, is told as it is.
	for what, r := range map[string]io.ReaderAt{"short": bytes.NewReader(data[:5<<20]), "broken": brokenFile{}} {
		_, err := f.Upload(t.Context(), dir+"/"+what, r, int64(len(data)), shoal.WriteOptions{}, shoal.Resume{})
		if what == "short" && !errors.Is(err, io.ErrUnexpectedEOF) || what == "broken" && !errors.Is(err, errBrokenFile) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := f.Upload(t.Context(), dir+"/empty", bytes.NewReader(nil), 0, shoal.WriteOptions{}, shoal.Resume{}); err != nil {
		t.Error(err)
	}
	_, err = f.Upload(t.Context(), dir+"/no/f", bytes.NewReader(data), int64(len(data)), shoal.WriteOptions{}, shoal.Resume{})
	wantCode(t, err, shoal.CodeNotFound)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}

var errBrokenFile = errors.New("the disk is broken")

type brokenFile struct{}

func (brokenFile) ReadAt([]byte, int64) (int, error) { return 0, errBrokenFile }

// TestClientUploadsChanged: a file that is another when it is read again never takes its place.
func TestClientUploadsChanged(t *testing.T) {
	c, fake := newClient(t, nil)
	create(t, c, "x")
	_, dir := withAgent(t, fake)
	data := randomBytes(8 << 20)
	c.HTTPClient = (&cutting{cuts: []int{3 << 20}}).client()
	resume := shoal.Resume{Resumed: func(n int64, _ error) {
		for i := range data[n:] {
			data[int(n)+i] ^= 0xff
		}
	}}
	_, err := c.Files("x").Upload(t.Context(), dir+"/f", bytes.NewReader(data), int64(len(data)), shoal.WriteOptions{}, resume)
	if e := wantCode(t, err, shoal.CodeInvalid); e.Field != "Repr-Digest" {
		t.Errorf("%+v", e)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// unsupported is a guest agent of before there were partial files.
type unsupported struct{ core.PartWriter }

func (unsupported) WritePart(_ context.Context, _ string, _ core.PartOptions, r io.Reader) (core.PartialFile, error) {
	return core.PartialFile{}, core.Errorf(core.CodeUnsupported, "the sandbox's guest agent does not know the operation")
}

// TestClientUploadsOld: an older sandbox gets the file in one call.
func TestClientUploadsOld(t *testing.T) {
	c, fake := newClient(t, nil)
	create(t, c, "x")
	files := fake.files["s000000000000000000001"]
	files.parts = unsupported{}
	data := randomBytes(1 << 20)
	if _, err := c.Files("x").Upload(t.Context(), "/f", bytes.NewReader(data), int64(len(data)), shoal.WriteOptions{}, shoal.Resume{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(files.files["/f"], data) {
		t.Errorf("%d bytes", len(files.files["/f"]))
	}
}

// TestClientDownloads: a download whose connection breaks goes on where it was, if the file is still the same one.
func TestClientDownloads(t *testing.T) {
	c, fake := newClient(t, nil)
	create(t, c, "x")
	files := fake.files["s000000000000000000001"]
	data := randomBytes(10 << 20)
	files.files["/f"] = data
	f := c.Files("x")
	read := func(change func(), cuts ...int) ([]byte, []int64, error) {
		var at []int64
		c.HTTPClient, c.MaxRetries = (&cutting{cuts: cuts, down: true}).client(), -1
		d, err := f.Download(t.Context(), "/f", shoal.Resume{Resumed: func(n int64, _ error) { at = append(at, n) }})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		if d.Size() != int64(len(data)) {
			t.Errorf("size %d", d.Size())
		}
		change()
		got, err := io.ReadAll(d)
		return got, at, err
	}
	got, at, err := read(func() {}, 3<<20, 10, 2<<20)
	if err != nil || !bytes.Equal(got, data) || len(at) != 2 || at[1] < 4<<20 {
		t.Errorf("%d bytes, went on at %v, %v", len(got), at, err)
	}
	got, _, err = read(func() { files.set("/f", append(slices.Clone(data), 'x')) }, 3<<20)
	if e := wantCode(t, err, shoal.CodeConflict); e.Status != http.StatusPreconditionFailed || len(got) == 0 {
		t.Errorf("changed: %d bytes, %+v", len(got), e)
	}
	data = files.files["/f"]
	c.HTTPClient = (&cutting{cuts: []int{3 << 20}, down: true}).client()
	d, err := f.Download(t.Context(), "/f", shoal.Resume{Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(io.Discard, d); shoal.ErrorCode(err) != shoal.CodeUnavailable {
		t.Errorf("not to go on: %v", err)
	}
	if err := fmt.Sprint(d.Close()); err != "<nil>" {
		t.Error(err)
	}
	_, err = f.Download(t.Context(), "/no", shoal.Resume{})
	wantCode(t, err, shoal.CodeNotFound)
}

func (f *fakeFiles) set(path string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[path] = data
}
