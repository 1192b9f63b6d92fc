package e2e_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// noise is a reader of so many bytes that no part of repeats, always the same for the same size.
func noise(size int64) io.Reader {
	var seed [32]byte
	copy(seed[:], fmt.Sprint(size))
	return io.LimitReader(rand.NewChaCha8(seed), size)
}

func sumOf(t *testing.T, r io.Reader) (string, int64) {
	t.Helper()
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		t.Fatalf("after %d bytes: %v", n, err)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), n
}

// Named test: writes are byte-exact at every size at which something changes, by each way up and down.
func testByteExact(t *testing.T, e env) {
	sizes := []int64{1, 4095, 4096, 4097, 18 << 10, 1 << 20, 64 << 20}
	if os.Getenv("SHOAL_TEST_FULL") != "" {
		sizes = append(sizes, 3<<30)
	}
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	for _, size := range sizes {
		limit := harness.CallLimit
		if size > 1<<30 {
			limit = 20 * time.Minute
		}
		c, cancel := context.WithTimeout(t.Context(), limit)
		want, _ := sumOf(t, noise(size))
		for _, way := range []struct {
			name     string
			up, down func(*testing.T, context.Context, string, int64) string
		}{
			{"sdk", e.upBySDK(sb), e.downBySDK(sb)},
			{"command line", e.upByCLI(sb), e.downByCLI(sb)},
			{"archive", e.upByArchive(sb), e.downByArchive(sb)},
			{"signed URL", e.upBySignedURL(sb), e.downBySignedURL(sb)},
		} {
			path := "/root/exact"
			way.up(t, c, path, size)
			if got := strings.Fields(e.Out(t, sb.ID, "sha256sum "+path)); len(got) == 0 || got[0] != want {
				t.Fatalf("%d bytes by %s are %v inside, want %s", size, way.name, got, want)
			}
			if got := way.down(t, c, path, size); got != want {
				t.Fatalf("%d bytes by %s came back as %s, want %s", size, way.name, got, want)
			}
			e.Out(t, sb.ID, "rm "+path)
		}
		cancel()
	}
}

type way = func(*testing.T, context.Context, string, int64) string

func (e env) upBySDK(sb shoal.Sandbox) way {
	return func(t *testing.T, c context.Context, path string, size int64) string {
		t.Helper()
		if info, err := e.Client.Files(sb.ID).Write(c, path, noise(size), shoal.WriteOptions{}); err != nil || info.Size != size {
			t.Fatalf("%d bytes: %+v, %v", size, info, err)
		}
		return ""
	}
}

func (e env) downBySDK(sb shoal.Sandbox) way {
	return func(t *testing.T, c context.Context, path string, _ int64) string {
		t.Helper()
		r, err := e.Client.Files(sb.ID).Read(c, path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		sum, _ := sumOf(t, r)
		return sum
	}
}

func (e env) upByCLI(sb shoal.Sandbox) way {
	return func(t *testing.T, _ context.Context, path string, size int64) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "up")
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(f, noise(size))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := e.CLI("", "cp", name, sb.ID+":"+path); code != 0 {
			t.Fatalf("cp: %d, %s", code, stderr)
		}
		return ""
	}
}

func (e env) downByCLI(sb shoal.Sandbox) way {
	return func(t *testing.T, _ context.Context, path string, _ int64) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "down")
		if _, stderr, code := e.CLI("", "cp", sb.ID+":"+path, name); code != 0 {
			t.Fatalf("cp: %d, %s", code, stderr)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		sum, _ := sumOf(t, f)
		return sum
	}
}

func (e env) upByArchive(sb shoal.Sandbox) way {
	return func(t *testing.T, c context.Context, path string, size int64) string {
		t.Helper()
		r, w := io.Pipe()
		go func() {
			tw := tar.NewWriter(w)
			err := tw.WriteHeader(&tar.Header{Name: filepath.Base(path), Size: size, Mode: 0o600})
			if err == nil {
				_, err = io.Copy(tw, noise(size))
			}
			_ = w.CloseWithError(errors.Join(err, tw.Close()))
		}()
		if report, err := e.Client.Files(sb.ID).Unpack(c, filepath.Dir(path), r, shoal.UnpackOptions{}); err != nil || report.Bytes != size {
			t.Fatalf("%+v, %v", report, err)
		}
		return ""
	}
}

func (e env) downByArchive(sb shoal.Sandbox) way {
	return func(t *testing.T, c context.Context, path string, _ int64) string {
		t.Helper()
		a, err := e.Client.Files(sb.ID).Archive(c, path, shoal.PackOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		tr := tar.NewReader(a)
		if _, err := tr.Next(); err != nil {
			t.Fatal(err)
		}
		sum, _ := sumOf(t, tr)
		if _, err := io.Copy(io.Discard, a); err != nil {
			t.Fatal(err)
		}
		return sum
	}
}

func (e env) signed(c context.Context, t *testing.T, sb shoal.Sandbox, path string, write bool) string {
	t.Helper()
	s, err := e.Client.Files(sb.ID).Sign(c, path, shoal.SignOptions{Write: write})
	if err != nil {
		t.Fatal(err)
	}
	return s.URL
}

// bare makes a request without a key.
func bare(c context.Context, t *testing.T, method, url string, body io.Reader, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(c, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func (e env) upBySignedURL(sb shoal.Sandbox) way {
	return func(t *testing.T, c context.Context, path string, size int64) string {
		t.Helper()
		h := sha256.New()
		_, _ = io.Copy(h, noise(size))
		resp := bare(c, t, http.MethodPut, e.signed(c, t, sb, path, true), noise(size), http.Header{"Content-Digest": {digestOf(h)}})
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b, _ := io.ReadAll(resp.Body)
			t.Fatalf("%d: %s", resp.StatusCode, b)
		}
		return ""
	}
}

func digestOf(h hash.Hash) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(h.Sum(nil)) + ":"
}

// downBySignedURL reads in two ranges, the second only if the file is still the same.
func (e env) downBySignedURL(sb shoal.Sandbox) way {
	return func(t *testing.T, c context.Context, path string, size int64) string {
		t.Helper()
		url := e.signed(c, t, sb, path, false)
		h := sha256.New()
		tag := ""
		for _, part := range []string{fmt.Sprintf("bytes=0-%d", size/2), fmt.Sprintf("bytes=%d-", size/2+1)} {
			if size == 1 && tag != "" {
				break
			}
			header := http.Header{"Range": {part}}
			if tag != "" {
				header.Set("If-Range", tag)
			}
			resp := bare(c, t, http.MethodGet, url, nil, header)
			_, err := io.Copy(h, resp.Body)
			_ = resp.Body.Close()
			if tag = resp.Header.Get("ETag"); resp.StatusCode != http.StatusPartialContent || err != nil || tag == "" {
				t.Fatalf("%s: %d, %v, %v", part, resp.StatusCode, err, resp.Header)
			}
		}
		return fmt.Sprintf("%x", h.Sum(nil))
	}
}

// testChangedDownload: a download that goes on never mixes two versions, whoever changed the file and however.
func testChangedDownload(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	url := e.signed(ctx(t), t, sb, "/root/f", false)
	get := func(header http.Header) (int, string, string) {
		t.Helper()
		resp := bare(ctx(t), t, http.MethodGet, url, nil, header)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b), resp.Header.Get("ETag")
	}
	e.Out(t, sb.ID, "printf 0123456789 >/root/f")
	_, _, tag := get(nil)
	for name, change := range map[string]string{
		"same size and time": `touch -r f g; printf 9876543210 >f; touch -r g f`, "replaced": `printf 9876543210 >h; mv h f`,
		"in place": `printf x | dd of=f bs=1 seek=9 conv=notrunc 2>/dev/null`,
	} {
		if code, got, again := get(http.Header{"Range": {"bytes=5-"}, "If-Range": {tag}}); code != http.StatusPartialContent || len(got) != 5 || again != tag {
			t.Errorf("unchanged before %s: %d, %q, %s", name, code, got, again)
		}
		e.Out(t, sb.ID, "cd /root && "+change)
		code, got, fresh := get(http.Header{"Range": {"bytes=5-"}, "If-Range": {tag}})
		if code != http.StatusOK || len(got) != 10 || fresh == tag || !bytes.HasPrefix([]byte(got), []byte("9")) {
			t.Errorf("%s: %d, %q, the same tag: %v", name, code, got, fresh == tag)
		}
		tag = fresh
	}
}

// Named test: what there is to know of files stays as it is through a restart of the server, and when the sandbox has failed.
func testMetadataKept(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Persistent: true})
	e.Out(t, sb.ID, `mkdir -p /root/kept/d && cd /root/kept && echo content >f && ln f d/hard && ln -s ../f d/soft && chown 1234:4321 f &&
		chmod 4751 f && chmod 1750 d && chown -h 7:8 d/soft && touch -d '1999-12-31 23:59:59.123456789' f && touch -d 2001-02-03 d && touch -h -d 2002-03-04 d/soft`)
	if _, err := e.Client.Files(sb.ID).Change(ctx(t), "/root/kept/d", shoal.FileChange{SetXattrs: map[string][]byte{"user.kept": []byte("\xffvalue")}}); err != nil {
		t.Fatal(err)
	}
	look := func() string {
		t.Helper()
		var b strings.Builder
		attrs, err := e.Client.Files(sb.ID).Xattrs(ctx(t), "/root/kept/d")
		if err != nil || string(attrs["user.kept"]) != "\xffvalue" {
			t.Errorf("attributes: %q, %v", attrs, err)
		}
		for _, name := range []string{"f", "d", "d/hard", "d/soft"} {
			i, err := e.Client.Files(sb.ID).Stat(ctx(t), "/root/kept/"+name)
			if err != nil {
				t.Fatal(err)
			}
			if i.Type == "directory" {
				i.Size = 0 // that is the filesystem's own affair
			}
			fmt.Fprintln(&b, name, i.Type, i.Size, i.Mode, i.UID, i.GID, i.ModifiedAt.Format(time.RFC3339Nano), i.Target)
		}
		return b.String()
	}
	want := look()
	if !strings.Contains(want, "f file 8 4751 1234 4321 1999-12-31T23:59:59.123456789Z") || !strings.Contains(want, "d/soft symlink 4 0777 7 8 2002-03-04T00:00:00Z ../f") {
		t.Errorf("at first:\n%s", want)
	}
	e.Kill()
	e.Restart(harness.Options{})
	if got := look(); got != want {
		t.Errorf("after a restart:\n%s\nbefore\n%s", got, want)
	}
	// Root inside may end its own sandbox.
	_, _ = e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: "kill -9 1"})
	harness.Eventually(t, time.Minute, "the sandbox to fail", func() error {
		got, err := e.Client.Sandboxes().Get(ctx(t), sb.ID)
		if err == nil && got.State != "failed" {
			err = fmt.Errorf("it is %s", got.State)
		}
		return err
	})
	if got := look(); got != want {
		t.Errorf("when it has failed:\n%s\nbefore\n%s", got, want)
	}
	if got := e.read(t, sb, "/root/kept/f"); string(got) != "content\n" {
		t.Errorf("when it has failed: %q", got)
	}
	e.stop(t, sb)
	if got := look(); got != want {
		t.Errorf("when it is stopped:\n%s\nbefore\n%s", got, want)
	}
	if _, err := e.Client.Sandboxes().Wake(ctx(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	if got := look(); got != want {
		t.Errorf("when it has been woken:\n%s\nbefore\n%s", got, want)
	}
}
