package e2e_test

import (
	"bytes"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// testTLS drives a sandbox over TLS and HTTP/2 with a certificate of the installation's own authority, which a restart keeps.
func testTLS(t *testing.T, e env) {
	options := harness.Options{Env: []string{"SHOAL_TLS_LISTEN=127.0.0.1:0", "SHOAL_DOMAIN=localhost"}}
	e.Stop()
	e.Restart(options)
	t.Cleanup(func() { e.Stop(); e.Restart(harness.Options{}) })
	ca, err := e.Client.CA(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	c := encrypted(t, e, ca)
	if _, err := (&shoal.Client{BaseURL: c.BaseURL, APIKey: e.Key, MaxRetries: -1}).Version(ctx(t)); err == nil {
		t.Error("who doesn't trust the authority is answered")
	}
	sb, err := c.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	e.DeleteAtEnd(t, sb.ID)
	content := bytes.Repeat([]byte("over TLS "), 100_000)
	if _, err := c.Files(sb.ID).Write(ctx(t), "/tmp/f", bytes.NewReader(content), shoal.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := c.Files(sb.ID).Read(ctx(t), "/tmp/f")
	if err != nil {
		t.Fatal(err)
	}
	back, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(back, content) {
		t.Fatalf("read %d bytes, %v", len(back), err)
	}
	detached, err := c.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Cmd: []string{"cat"}, StdinOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.Execs(sb.ID).Attach(ctx(t), detached.ID, 0) // a WebSocket
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Write([]byte("attached\n")); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for {
		m, err := stream.Recv()
		if err != nil {
			break
		}
		out.WriteString(m.Data)
	}
	if out.String() != "attached\n" {
		t.Errorf("attached: %q", out.String())
	}
	e.Stop()
	e.Restart(options)
	if again, err := e.Client.CA(ctx(t)); err != nil || again.Fingerprint != ca.Fingerprint {
		t.Fatalf("after a restart the authority is %s, %v", again.Fingerprint, err)
	}
	if got, err := encrypted(t, e, ca).Sandboxes().Get(ctx(t), sb.ID); err != nil || got.State != shoal.StateRunning {
		t.Errorf("after a restart: %v, %v", got.State, err)
	}
	// The command line finds the authority in the data directory.
	if _, errs, code := e.CLI("", "ls", "--data-dir", e.Dir, "--url", c.BaseURL); code != 125 || !strings.Contains(errs, "can't reach") {
		t.Errorf("the port before the restart: exit code %d, %s", code, errs)
	}
	if _, errs, code := e.CLI("", "ls", "--data-dir", e.Dir, "--url", encrypted(t, e, ca).BaseURL); code != 0 {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if _, errs, code := e.CLI("", "ls", "--ca-file", filepath.Join(e.Dir, "ca", "ca.crt"), "--url", encrypted(t, e, ca).BaseURL); code != 0 {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// encrypted returns a client of the server's TLS address. Its port is part of the dialects' host names.
func encrypted(t *testing.T, e env, ca shoal.CA) *shoal.Client {
	t.Helper()
	list, err := e.Client.Dialects(ctx(t))
	if err != nil || len(list) == 0 {
		t.Fatalf("dialects: %v, %v", list, err)
	}
	u, err := url.Parse(list[0].DomainURL)
	if err != nil {
		t.Fatal(err)
	}
	trusting, err := shoal.Trust([]byte(ca.Certificate))
	if err != nil {
		t.Fatal(err)
	}
	return &shoal.Client{BaseURL: "https://localhost:" + u.Port(), APIKey: e.Key, HTTPClient: trusting}
}
