package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// gate passes on connections to a server, and once stops when so many bytes have gone through.
type gate struct {
	t *testing.T
	l net.Listener

	mu     sync.Mutex
	target string
	left   int64         // until it stops; it doesn't if this is zero
	full   chan struct{} // closed when it stops
	open   chan struct{} // closed when it goes on
}

func newGate(t *testing.T, e env) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, l: l}
	g.to(e)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(in)
		}
	}()
	return g
}

// to says where the server listens.
func (g *gate) to(e env) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.target = strings.TrimPrefix(e.URL, "http://")
}

// stopAfter has it stop after so many bytes.
func (g *gate) stopAfter(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.full, g.open = n, make(chan struct{}), make(chan struct{})
}

// spend counts bytes, and waits if they are too many.
func (g *gate) spend(n int) {
	g.mu.Lock()
	open := g.open
	if g.left == 0 {
		g.mu.Unlock()
		return
	}
	if g.left -= int64(n); g.left > 0 {
		g.mu.Unlock()
		return
	}
	g.left = 0
	close(g.full)
	g.mu.Unlock()
	<-open
}

func (g *gate) pass(in net.Conn) {
	defer in.Close()
	g.mu.Lock()
	target := g.target
	g.mu.Unlock()
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	done := make(chan struct{}, 2)
	copyTo := func(to, from net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				g.spend(n)
				if _, err := to.Write(buf[:n]); err != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		done <- struct{}{}
	}
	go copyTo(out, in)
	go copyTo(in, out)
	<-done
}

// during runs a transfer, kills the server with SIGKILL in the middle of it, and starts it again.
func (g *gate) during(e env, transfer func() error) {
	g.t.Helper()
	g.stopAfter(64 << 20)
	ended := make(chan error, 1)
	go func() { ended <- transfer() }()
	select {
	case <-g.full:
	case err := <-ended:
		g.t.Fatalf("it ended before the server was killed: %v", err)
	}
	e.Kill()
	close(g.open)
	e.Restart(harness.Options{})
	g.to(e)
	if err := <-ended; err != nil {
		g.t.Fatal(err)
	}
}

// testUploadTooLarge: what doesn't fit on the sandbox's disk is refused at once, and takes no room afterwards.
func testUploadTooLarge(t *testing.T, e env) {
	disk := int64(256 << 20)
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{DiskBytes: &disk})
	name := filepath.Join(t.TempDir(), "large")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, noise(512<<20)); err != nil {
		t.Fatal(err)
	}
	c, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err = e.Client.Files(sb.ID).Upload(c, "/root/t/large", f, 512<<20, shoal.WriteOptions{Parents: true}, shoal.Resume{})
	wantCode(t, err, "exhausted")
	if got := e.Out(t, sb.ID, "ls -A /root/t; head -c 100M /dev/zero >/root/t/fits; stat -c %s /root/t/fits"); strings.TrimSpace(got) != "104857600" {
		t.Errorf("afterwards there is %q", got)
	}
}

// testTransfersResume: the server is killed in the middle of an upload and of a download, by the SDK and by the command line; they go on, and what
// comes is right to the byte.
func testTransfersResume(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	const size = 256 << 20
	want, _ := sumOf(t, noise(size))
	local := filepath.Join(t.TempDir(), "local")
	f, err := os.Create(local)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, noise(size)); err != nil {
		t.Fatal(err)
	}
	g := newGate(t, e)
	url := "http://" + g.l.Addr().String()
	files := (&shoal.Client{BaseURL: url, APIKey: e.Key}).Files(sb.ID)
	c, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var at []int64
	resume := shoal.Resume{Resumed: func(n int64, _ error) { at = append(at, n) }}
	resumed := func(what string) {
		t.Helper()
		if len(at) == 0 || at[len(at)-1] < 16<<20 {
			t.Errorf("%s went on at %v", what, at)
		}
		at = nil
	}
	inside := func(what, name string) {
		t.Helper()
		if got := strings.Fields(e.Out(t, sb.ID, "cd /root/t && sha256sum * && ls -A")); len(got) != 3 || got[0] != want || got[2] != name {
			t.Fatalf("%s: inside is %q, want %s %s", what, got, want, name)
		}
	}

	g.during(e, func() error {
		info, err := files.Upload(c, "/root/t/sdk", f, size, shoal.WriteOptions{Parents: true}, resume)
		if err == nil && info.Size != size {
			err = fmt.Errorf("it says %+v", info)
		}
		return err
	})
	resumed("the SDK's upload")
	inside("the SDK's upload", "sdk")

	g.during(e, func() error {
		d, err := files.Download(c, "/root/t/sdk", resume)
		if err != nil {
			return err
		}
		defer d.Close()
		if got, _ := sumOf(t, d); got != want {
			err = errors.New("the SDK's download is " + got)
		}
		return err
	})
	resumed("the SDK's download")

	cp := func(from, to string) error {
		cmd := exec.CommandContext(c, harness.Binary(t, false), "cp", from, to)
		cmd.Env = append(harness.CleanEnvironment(), "SHOAL_URL="+url, "SHOAL_API_KEY="+e.Key)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "the connection broke, going on at ") || strings.Contains(string(out), "going on at 0 B") {
			return fmt.Errorf("cp says %q, %w", out, err)
		}
		return nil
	}
	e.Out(t, sb.ID, "rm /root/t/sdk")
	g.during(e, func() error { return cp(local, sb.ID+":/root/t/cli") })
	inside("the command line's upload", "cli")
	g.during(e, func() error { return cp(sb.ID+":/root/t/cli", local+".down") })
	down, err := os.Open(local + ".down")
	if err != nil {
		t.Fatal(err)
	}
	defer down.Close()
	if got, _ := sumOf(t, down); got != want {
		t.Errorf("the command line's download is %s, want %s", got, want)
	}
}
