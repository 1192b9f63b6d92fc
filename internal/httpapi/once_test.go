package httpapi_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"shoal/internal/control"
	"shoal/internal/core"
	shoal "shoal/sdk/go"
)

// fakeCall is what a call with a key made.
type fakeCall struct {
	digest  string
	sandbox core.Sandbox
	process *process
	op      core.Operation
}

func callName(p control.Principal, route string, o *core.Once) string {
	return string(p.Tenant) + " " + route + " " + o.Key
}

// again returns what an earlier call with the key made. Its caller holds f.mu.
func (f *fakeControl) again(p control.Principal, route string, o *core.Once) (fakeCall, error) {
	if o == nil {
		return fakeCall{}, nil
	}
	found, ok := f.calls[callName(p, route, o)]
	if ok && found.digest != o.Digest {
		return fakeCall{}, &core.Error{Code: core.CodeConflict, Field: "Idempotency-Key", Message: "this key was used with another request"}
	}
	o.Repeated = ok
	return found, nil
}

// made remembers what a call made. Its caller holds f.mu.
func (f *fakeControl) made(p control.Principal, route string, o *core.Once, c fakeCall) {
	if o != nil {
		c.digest = o.Digest
		f.calls[callName(p, route, o)] = c
	}
}

// TestOnceStream: the repeat of a streamed call follows the same process, and does not give it its input again.
func TestOnceStream(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	var ids []string
	for range 2 {
		s, err := c.Execs("x").WithKey("k").Stream(t.Context(), shoal.ExecRequest{Cmd: []string{"cat"}, Stdin: "once\n"})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for {
			m, err := s.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.Type == shoal.MessageStarted {
				ids = append(ids, m.Exec.ID)
			}
			out.Write(m.Bytes())
		}
		_ = s.Close()
		if out.String() != "once\n" {
			t.Errorf("the output is %q", out.String())
		}
	}
	if len(ids) != 2 || ids[0] != ids[1] {
		t.Errorf("the execs are %v", ids)
	}
	// The same key for the whole result is another call.
	_, err := c.Execs("x").WithKey("k").Run(t.Context(), shoal.ExecRequest{Cmd: []string{"cat"}, Stdin: "once\n"})
	wantCode(t, err, shoal.CodeConflict)
}

// lossy loses the replies of the first calls, after the server has done what they asked for.
type lossy struct {
	http.RoundTripper
	lose int
	keys []string
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	l.keys = append(l.keys, r.Header.Get("Idempotency-Key"))
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil && l.lose > 0 {
		l.lose--
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return resp, err
}

// TestLostReplies: the client's own retries make nothing twice.
func TestLostReplies(t *testing.T) {
	c, fake := newClient(t, nil)
	l := &lossy{RoundTripper: c.HTTPClient.Transport}
	c.HTTPClient = &http.Client{Transport: l}
	lost := func() { l.lose, l.keys = 2, nil }
	lost()
	create(t, c, "x")
	if len(l.keys) != 3 || l.keys[0] == "" || l.keys[0] != l.keys[2] {
		t.Errorf("the keys of three tries are %q", l.keys)
	}
	first := l.keys[0]
	lost()
	res, err := c.Execs("x").Run(t.Context(), shoal.ExecRequest{Cmd: []string{"echo", "hi"}})
	if err != nil || string(res.StdoutBytes()) != "hi\n" {
		t.Errorf("%+v, %v", res, err)
	}
	if l.keys[0] == first {
		t.Error("two calls have the same key")
	}
	lost()
	if _, err := c.Execs("x").Start(t.Context(), shoal.ExecRequest{Cmd: []string{"echo", "hi"}}); err != nil {
		t.Error(err)
	}
	lost()
	s, err := c.Execs("x").Stream(t.Context(), shoal.ExecRequest{Cmd: []string{"echo", "hi"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	fake.mu.Lock()
	defer fake.mu.Unlock()
	if len(fake.sandboxes) != 1 || len(fake.procs[fake.sandboxes[0].ID]) != 3 {
		t.Errorf("%d sandboxes, %d processes", len(fake.sandboxes), len(fake.procs[fake.sandboxes[0].ID]))
	}
}

func TestOnceKeys(t *testing.T) {
	c, _ := newClient(t, nil)
	for key, ok := range map[string]bool{
		"a": true, strings.Repeat("k", 255): true, "!~": true,
		strings.Repeat("k", 256): false, "a b": false, "\u00e4": false,
	} {
		_, err := c.Sandboxes().WithKey(key).Create(t.Context(), shoal.CreateSandboxRequest{})
		if ok && err != nil || !ok && shoal.ErrorCode(err) != shoal.CodeInvalid {
			t.Errorf("key %q: %v", key, err)
		}
	}
}
