package isolation_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	shoal "shoal/sdk/go"
)

// testAttachFrames sends what no client of ours would over an attached exec. The exec goes on in each case.
func testAttachFrames(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	x, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Cmd: []string{"cat"}, StdinOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, frame := range map[string]struct {
		kind websocket.MessageType
		data []byte
	}{
		"no JSON": {websocket.MessageText, []byte("{")}, "array": {websocket.MessageText, []byte("[]")}, "deep": {websocket.MessageText, bytes.Repeat([]byte("["), 1<<19)},
		"unknown type": {websocket.MessageText, []byte(`{"type":"exec"}`)}, "unknown field": {websocket.MessageText, []byte(`{"type":"stdin","shell":"x"}`)},
		"not UTF-8": {websocket.MessageText, []byte("\xff\xfe")}, "unknown signal": {websocket.MessageText, []byte(`{"type":"signal","signal":"SIGFOO"}`)},
		"overflowing size": {websocket.MessageText, []byte(`{"type":"resize","rows":65536,"cols":1}`)}, "negative size": {websocket.MessageText, []byte(`{"type":"resize","rows":-1,"cols":1}`)},
		"too large": {websocket.MessageBinary, make([]byte, 3<<20)},
	} {
		c := e.attach(t, sb.ID, x.ID)
		werr := c.Write(ctx(t), frame.kind, frame.data)
		_, _, rerr := c.Read(ctx(t))
		for rerr == nil {
			_, _, rerr = c.Read(ctx(t))
		}
		// A frame above the limit may meet a connection that is closed already.
		if status := websocket.CloseStatus(rerr); status != websocket.StatusPolicyViolation && status != websocket.StatusMessageTooBig && (werr == nil && len(frame.data) < 1<<20) {
			t.Errorf("%s: ended with %v, %v", name, werr, rerr)
		}
		_ = c.CloseNow()
	}
	var conns []*websocket.Conn
	refused := 0
	for range 50 {
		c, err := e.dialAttach(t, sb.ID, x.ID)
		if err == nil {
			conns = append(conns, c)
		} else {
			refused++
		}
	}
	// So many readers are refused, and those that are there go on.
	if len(conns) == 0 || refused == 0 {
		t.Errorf("%d attached, %d refused", len(conns), refused)
	}
	e.undisturbed(t)
	for _, c := range conns {
		_ = c.CloseNow()
	}
	if got, err := e.Client.Execs(sb.ID).Get(ctx(t), x.ID); err != nil || !got.Running {
		t.Errorf("the exec has ended: %+v %v", got, err)
	}
}

func (e env) attach(t *testing.T, sandbox, exec string) *websocket.Conn {
	t.Helper()
	c, err := e.dialAttach(t, sandbox, exec)
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	return c
}

func (e env) dialAttach(t *testing.T, sandbox, exec string) (*websocket.Conn, error) {
	t.Helper()
	c, res, err := websocket.Dial(ctx(t), e.URL+"/v1/sandboxes/"+sandbox+"/execs/"+exec+"/attach", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + e.Key}},
	})
	if res != nil && res.Body != nil {
		_ = res.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	c.SetReadLimit(8 << 20)
	return c, nil
}

// testUploadOptions writes files with owners, modes and places that are wrong.
func testUploadOptions(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	for name, o := range map[string]shoal.WriteOptions{
		"no such user": {User: "nobody-here"}, "empty group": {User: "root:"}, "three parts": {User: "a:b:c"}, "newline": {User: "root\nx"}, "negative": {User: "-1"}, "overflow": {User: "4294967296"}, "long": {User: strings.Repeat("u", 4000)},
		"mode bits": {Mode: 0o170000 | 0o644},
	} {
		_, err := e.Client.Files(sb.ID).Write(ctx(t), "/root/x", strings.NewReader("x"), o)
		wantCode(t, name, err, "invalid", "not_found")
	}
	for _, path := range []string{"/proc/version", "/sys/x", "/run/shoal/agent", "/dev/null/x", "/etc/passwd/x", "/root", "/proc/sys/kernel/core_pattern", "/no/such/dir/x", "/"} {
		_, err := e.Client.Files(sb.ID).Write(ctx(t), path, io.LimitReader(endless{}, 4<<20), shoal.WriteOptions{})
		if err == nil {
			t.Errorf("%s was written", path)
		}
		if code := shoal.ErrorCode(err); code == "internal" || code == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"/proc", "/run/shoal", "/dev/pts", "/"} {
		err := e.Client.Files(sb.ID).Remove(ctx(t), path, true)
		if code := shoal.ErrorCode(err); err == nil || code == "internal" {
			t.Errorf("remove %s: %v", path, err)
		}
	}
	// With its system removed, a sandbox is of no use, and still no harm.
	if err := e.Client.Files(sb.ID).Remove(context.Background(), "/usr", true); err != nil {
		t.Error(err)
	}
	res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"true"}})
	if err == nil && res.Outcome == shoal.OutcomeExited && *res.ExitCode == 0 {
		t.Error("a program that was removed ran")
	}
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an exec without programs hangs: %v", err)
	}
}
