package isolation_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

func (e env) dial(t *testing.T) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(ctx(t), "tcp", strings.TrimPrefix(e.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// raw sends bytes as they are and returns the status of the reply, zero if the connection was closed without.
func (e env) raw(t *testing.T, text string) int {
	t.Helper()
	c := e.dial(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		return 0
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("no answer to %.60q", text)
		}
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func testBrokenHTTP(t *testing.T, e env) {
	key := "Authorization: Bearer " + e.Key + "\r\n"
	for name, text := range map[string]string{
		"no host":                "GET /v1/sandboxes HTTP/1.1\r\n" + key + "\r\n",
		"two hosts":              "GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n" + key + "\r\n",
		"empty host":             "GET /v1/sandboxes HTTP/1.1\r\nHost:\r\n" + key + "\r\n",
		"host by target":         "GET http://evil.example/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n" + key + "\r\n",
		"NUL in a header":        "GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n" + key + "\r\n",
		"bare LF":                "GET /v1/sandboxes HTTP/1.1\nHost: evil.example\n" + strings.ReplaceAll(key, "\r", "") + "\n",
		"smuggled length":        "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n" + key + "\r\n0\r\n\r\nGET /v1/x HTTP/1.1\r\n\r\n",
		"two lengths":            "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\nContent-Type: application/json\r\n" + key + "\r\n{} ",
		"negative length":        "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n" + key + "\r\n",
		"overflowing length":     "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n" + key + "\r\n",
		"length above the limit": "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 9000000000\r\n" + key + "\r\n" + strings.Repeat(" ", 1<<20+10),
		"unknown encoding":       "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n" + key + "\r\n0\r\n\r\n",
		"overflowing chunk":      "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n" + key + "\r\nfffffffffffffffff\r\n{}",
		"large header":           "GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n" + key + "\r\n",
		"many headers":           "GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: a\r\n", 100000) + key + "\r\n",
		"long target":            "GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"asterisk":               "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n" + key + "\r\n",
		"connect":                "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: localhost\r\n" + key + "\r\n",
		"http/2 preface":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"upgrade to h2c":         "GET /v1/none HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		"tls":                    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 500),
		"binary":                 strings.Repeat("\x00\xff\r\n", 5000),
		"expectation":            "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nExpect: 200-maybe\r\nContent-Length: 2\r\n" + key + "\r\n{}",
	} {
		if status := e.raw(t, text); status != 0 && (status < 400 || status >= 600 || status == 500) {
			t.Errorf("%s: status %d", name, status)
		}
	}
	e.onlyNeighbour(t)
}

// testSlowConnections holds connections that say little or nothing, and asserts that those who speak are served, that the
// silent are dropped, and that the server holds nothing of them then.
func testSlowConnections(t *testing.T, e env) {
	files := openFiles(t, e.PID())
	var conns []net.Conn
	for i := range 300 {
		c := e.dial(t)
		text := []string{"", "GET", "GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX: ", "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + e.Key + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"}[i%4]
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if i%8 >= 4 {
			_ = c.(*net.TCPConn).CloseWrite()
		}
		conns = append(conns, c)
	}
	e.undisturbed(t)
	// Header by header, for ever: a slowloris.
	slow := e.dial(t)
	_, _ = io.WriteString(slow, "GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n")
	harness.Eventually(t, 30*time.Second, "who never ends a header is dropped", func() error {
		_ = slow.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := slow.Write([]byte("X: a\r\n")); err != nil {
			return nil //nolint:nilerr // dropped is what is waited for
		}
		_, err := io.Copy(io.Discard, slow)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return errors.New("it is still connected")
		}
		return nil
	})
	for _, c := range conns {
		_ = c.Close()
	}
	harness.Eventually(t, 30*time.Second, "connections that are gone hold no file", func() error {
		if now := openFiles(t, e.PID()); now > files+50 {
			return fmt.Errorf("%d files, before %d", now, files)
		}
		return nil
	})
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	return len(glob(t, fmt.Sprintf("/proc/%d/fd/*", pid)))
}

func testManyConnections(t *testing.T, e env) {
	const count = 2000
	before := rss(t, e.PID())
	var conns []net.Conn
	for range count {
		conns = append(conns, e.dial(t))
	}
	e.undisturbed(t)
	if now := rss(t, e.PID()); now > before+(100<<20) {
		t.Errorf("%d connections cost %d MiB", count, (now-before)>>20)
	}
	for _, c := range conns {
		_ = c.Close()
	}
}

// testAborts ends clients in the middle of uploads, downloads and creates.
func testAborts(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Out(t, sb.ID, "echo old > /root/target; head -c 30000000 /dev/zero > /root/big")
	files := e.Client.Files(sb.ID)
	before := openFiles(t, e.PID())
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			c, cancel := context.WithCancel(context.Background())
			defer cancel()
			if i%2 == 0 {
				r := &cutOff{after: 1 << 20 * (i%5 + 1), cut: cancel}
				if _, err := files.Write(c, "/root/target", r, shoal.WriteOptions{}); err == nil {
					t.Error("an upload that was cut off succeeded")
				}
				return
			}
			r, err := files.Read(c, "/root/big")
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.CopyN(io.Discard, r, int64(i)<<16)
			cancel()
			_ = r.Close()
		})
	}
	wg.Wait()
	if got := e.Out(t, sb.ID, "cat /root/target"); got != "old\n" {
		t.Errorf("after uploads that were cut off the file is %.20q", got)
	}
	harness.Eventually(t, 30*time.Second, "nothing of a cut-off upload is left", func() error {
		if got := e.Out(t, sb.ID, "ls -A /root"); strings.Count(got, "\n") > 6 || strings.Contains(got, ".tmp") || strings.Contains(got, "shoal") {
			return fmt.Errorf("in the directory is %q", got)
		}
		if now := openFiles(t, e.PID()); now > before+20 {
			return fmt.Errorf("%d files are open, before %d", now, before)
		}
		return nil
	})
	for i := range 6 {
		c, cancel := context.WithTimeout(context.Background(), time.Duration(10+i*25)*time.Millisecond)
		_, _ = e.Client.Sandboxes().Create(c, shoal.CreateSandboxRequest{Name: fmt.Sprintf("aborted-%d", i)})
		cancel()
	}
	harness.Eventually(t, 30*time.Second, "creates whose caller went away are gone or done", func() error {
		for x, err := range e.Client.Sandboxes().List(ctx(t), shoal.ListSandboxesOptions{}) {
			if err != nil {
				return err
			}
			if strings.HasPrefix(x.Name, "aborted-") {
				if x.State == shoal.StateCreating {
					return fmt.Errorf("%s is still being created", x.Name)
				}
				if err := e.Client.Sandboxes().Delete(ctx(t), x.ID); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// cutOff is an upload whose client goes away in the middle.
type cutOff struct {
	after int
	cut   func()
}

func (c *cutOff) Read(p []byte) (int, error) {
	if c.after <= 0 {
		c.cut()
		return 0, errors.New("the client is gone")
	}
	clear(p)
	c.after -= len(p)
	return len(p), nil
}

func testManyStreams(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	const count = 200
	errs := make([]error, count)
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() { errs[i] = e.echo(sb.ID, i) })
	}
	e.undisturbed(t)
	wg.Wait()
	failed := 0
	for _, err := range errs {
		if err == nil {
			continue
		}
		// The tenant's request rate and the agent's bounds may say no, by name.
		if code := shoal.ErrorCode(err); code != "quota" && code != "exhausted" {
			t.Errorf("%v", err)
		}
		failed++
	}
	if failed > count/2 {
		t.Errorf("%d of %d streams were refused", failed, count)
	}
	t.Logf("%d of %d streams were refused", failed, count)
}

// echo runs a stream that must return exactly what it printed.
func (e env) echo(id string, i int) error {
	c, cancel := context.WithTimeout(context.Background(), harness.CallLimit)
	defer cancel()
	s, err := e.Client.Execs(id).Stream(c, shoal.ExecRequest{Shell: fmt.Sprintf("echo %d; sleep 1; echo %d", i, i)})
	if err != nil {
		return err
	}
	defer s.Close()
	var out []byte
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("stream %d: %w", i, err)
		}
		out = append(out, m.Bytes()...)
	}
	if want := fmt.Sprintf("%d\n%d\n", i, i); string(out) != want {
		return fmt.Errorf("stream %d has %q", i, out)
	}
	return nil
}

func testManyCreates(t *testing.T, e env) {
	const count = 20
	ids := make([]string, count)
	errs := make([]error, count)
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			var sb shoal.Sandbox
			sb, errs[i] = e.Client.Sandboxes().Create(context.Background(), shoal.CreateSandboxRequest{})
			ids[i] = sb.ID
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil && shoal.ErrorCode(err) != "exhausted" {
			t.Errorf("create %d: %v", i, err)
		}
	}
	for _, id := range ids {
		if id == "" {
			continue
		}
		wg.Go(func() {
			if res, err := e.Client.Execs(id).Run(context.Background(), shoal.ExecRequest{Cmd: []string{"true"}}); err != nil || res.Outcome != shoal.OutcomeExited {
				t.Errorf("%s: %v %s", id, err, res.Outcome)
			}
			// Two deletes race: one wins.
			again := make(chan error, 1)
			go func() { again <- e.Client.Sandboxes().Delete(context.Background(), id) }()
			first, second := e.Client.Sandboxes().Delete(context.Background(), id), <-again
			if (first == nil) == (second == nil) {
				t.Errorf("two deletes: %v, %v", first, second)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != "" {
			e.gone(t, id)
		}
	}
	e.onlyNeighbour(t)
}
