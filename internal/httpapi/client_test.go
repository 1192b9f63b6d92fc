package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
	"shoal/internal/httpapi"
	shoal "shoal/sdk/go"
)

// newClient returns a client of a real HTTP server on a fresh fake.
func newClient(t *testing.T, change func(*httpapi.Options)) (*shoal.Client, *fakeControl) {
	t.Helper()
	a, fake := newAPI(t, change)
	server := httptest.NewServer(a.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(a.Close)
	return &shoal.Client{BaseURL: server.URL, APIKey: tenantKey, HTTPClient: server.Client()}, fake
}

func create(t *testing.T, c *shoal.Client, name string) {
	t.Helper()
	if _, err := c.Sandboxes().Create(t.Context(), shoal.CreateSandboxRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code shoal.Code) *shoal.Error {
	t.Helper()
	var e *shoal.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got error %v, want code %s", err, code)
	}
	return e
}

func TestClientSandboxes(t *testing.T) {
	c, fake := newClient(t, nil)
	ctx := t.Context()
	s, err := c.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{
		Name: "a", TTLSeconds: new(int64(60)), VCPUs: new(0.5), Labels: map[string]string{"k": "v w"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "a" || s.VCPUs != 0.5 || s.State != shoal.StateRunning || !s.ExpiresAt.Equal(epoch.Add(time.Minute)) {
		t.Errorf("created %+v", s)
	}
	got, err := c.Sandboxes().Get(ctx, s.ID)
	if diff := cmp.Diff(s, got); err != nil || diff != "" {
		t.Errorf("Get: %v (-created +got):\n%s", err, diff)
	}
	_, err = c.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{Name: "a"})
	if e := wantCode(t, err, shoal.CodeConflict); e.Field != "name" || e.Status != 409 || e.RequestID == "" || e.Doc != "/errors#conflict" {
		t.Errorf("conflict is %+v", e)
	}
	for i := range 250 {
		create(t, c, fmt.Sprintf("many-%d", i))
	}
	var names []string
	for s, err := range c.Sandboxes().List(ctx, shoal.ListSandboxesOptions{States: []shoal.SandboxState{shoal.StateRunning}}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, s.Name)
	}
	if len(names) != 251 || names[0] != "many-249" || names[250] != "a" {
		t.Errorf("listed %d: %v", len(names), names)
	}
	labelled := 0
	for _, err := range c.Sandboxes().List(ctx, shoal.ListSandboxesOptions{Labels: map[string]string{"k": "v w"}}) {
		if err != nil {
			t.Fatal(err)
		}
		labelled++
	}
	if labelled != 1 {
		t.Errorf("the label selects %d", labelled)
	}
	up, err := c.Sandboxes().Update(ctx, "a", shoal.UpdateSandboxRequest{Labels: &map[string]string{}})
	if err != nil || len(up.Labels) != 0 || !up.ExpiresAt.Equal(s.ExpiresAt) {
		t.Errorf("Update: %+v, %v", up, err)
	}
	rules := []shoal.LifecycleRule{{On: "idle", AfterSeconds: 60, Action: "stop"}}
	if sb, err := c.Sandboxes().Update(ctx, "a", shoal.UpdateSandboxRequest{Rules: &rules}); err != nil || len(sb.Rules) != 1 || sb.Rules[0].AfterSeconds != 60 {
		t.Errorf("Update: %+v, %v", sb.Rules, err)
	}
	if w, err := c.Sandboxes().Why(ctx, "a"); err != nil || w.LostByStop.Execs != 1 || len(w.Rules) != 2 || !w.LostByDelete.Files {
		t.Errorf("Why: %+v, %v", w, err)
	}
	if m, err := c.Sandboxes().Metrics(ctx, "a"); err != nil || m.Processes != 2 || m.DiskBytes != nil {
		t.Errorf("Metrics: %+v, %v", m, err)
	}
	if err := c.Sandboxes().Delete(ctx, "a"); err != nil {
		t.Error(err)
	}
	wantCode(t, c.Sandboxes().Delete(ctx, "a"), shoal.CodeNotFound)
	_, err = c.Sandboxes().Get(ctx, "")
	wantCode(t, err, shoal.CodeInvalid)
	fake.full = true
	_, err = c.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{})
	if e := wantCode(t, err, shoal.CodeExhausted); e.RetryAfter != 2*time.Second {
		t.Errorf("RetryAfter is %v, want 1.5 s rounded up", e.RetryAfter)
	}
}

// TestSilentMetrics: what a sandbox would have to answer for is left out while it does not, and the host's figures are there.
func TestSilentMetrics(t *testing.T) {
	c, fake := newClient(t, nil)
	create(t, c, "a")
	fake.mu.Lock()
	fake.silent = true
	fake.mu.Unlock()
	m, err := c.Sandboxes().Metrics(t.Context(), "a")
	if err != nil || m.Processes != 0 || m.MemoryBytes == 0 || m.CPUSeconds == 0 || m.PSSBytes == nil || *m.PSSBytes != 24<<20 {
		t.Errorf("Metrics: %+v, %v", m, err)
	}
}

func TestClientServer(t *testing.T) {
	c, fake := newClient(t, func(o *httpapi.Options) { o.ReadyFor = time.Nanosecond })
	ctx := t.Context()
	if v, err := c.Version(ctx); err != nil || v.Version != "1.2.3" || v.API != "v1" {
		t.Errorf("Version: %+v, %v", v, err)
	}
	if err := errors.Join(c.Health(ctx), c.Ready(ctx)); err != nil {
		t.Error(err)
	}
	fake.ready = core.Errorf(core.CodeUnavailable, "template minimal is at 40 %%")
	if e := wantCode(t, c.Ready(ctx), shoal.CodeUnavailable); e.Message != "template minimal is at 40 %" {
		t.Errorf("Ready says %q", e.Message)
	}
	_, err := c.ServerMetrics(ctx)
	wantCode(t, err, shoal.CodeDenied)
	c.APIKey = adminKey
	text, err := c.ServerMetrics(ctx)
	for _, want := range []string{
		`shoal_http_requests_total{operation="getVersion",status="200"} 1`, "shoal_node_sandboxes_max 100",
		`shoal_http_requests_total{operation="getServerMetrics",status="403"} 1`, "shoal_http_requests_in_flight 1",
	} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("metrics lack %q (%v):\n%s", want, err, text)
		}
	}
	for tpl, err := range c.Templates().List(ctx) {
		if err != nil || (tpl.Name != "base" && tpl.Name != "app") || tpl.Packages != nil {
			t.Errorf("template %+v, %v", tpl, err)
		}
	}
	if tpl, err := c.Templates().Get(ctx, "base"); err != nil || len(tpl.Packages) != 1 {
		t.Errorf("template %+v, %v", tpl, err)
	}
}

func TestClientRun(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	run := c.Execs("x")
	res, err := run.Run(t.Context(), shoal.ExecRequest{Cmd: []string{"raw"}})
	if err != nil || !bytes.Equal(res.StdoutBytes(), []byte{0xff, 0xfe}) || res.StderrBytes() == nil {
		t.Errorf("raw: %+v, %v", res, err)
	}
	res, err = run.Run(t.Context(), shoal.ExecRequest{Cmd: []string{"cat"}, StdinRaw: []byte{0xff, 'a'}})
	if err != nil || !bytes.Equal(res.StdoutBytes(), []byte{0xff, 'a'}) {
		t.Errorf("cat: %+v, %v", res, err)
	}
	res, err = run.Run(t.Context(), shoal.ExecRequest{Cmd: []string{"exit", "3"}})
	if err != nil || res.Outcome != shoal.OutcomeExited || *res.ExitCode != 3 {
		t.Errorf("exit: %+v, %v", res, err)
	}
	res, err = run.Run(t.Context(), shoal.ExecRequest{Cmd: []string{"flood", "2000000"}})
	if err != nil || !res.Truncated || len(*res.Stdout) != 1<<20 {
		t.Errorf("flood: truncated %v, %d bytes, %v", res.Truncated, len(*res.Stdout), err)
	}
}

// collect receives until the end and returns the output and the last message.
func collect(t *testing.T, s shoal.ExecStream) (string, shoal.ExecMessage) {
	t.Helper()
	var out strings.Builder
	var last shoal.ExecMessage
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return out.String(), last
		}
		if err != nil {
			t.Fatalf("after %q: %v", out.String(), err)
		}
		if m.Type == shoal.MessageGap {
			fmt.Fprintf(&out, "[gap %d+%d]", *m.Offset, m.Missing)
		}
		out.Write(m.Bytes())
		last = m
	}
}

// TestStreams runs the same conversation over both kinds of stream.
func TestStreams(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	ctx := t.Context()
	for name, open := range map[string]func(req shoal.ExecRequest) (shoal.ExecStream, error){
		"ndjson": func(req shoal.ExecRequest) (shoal.ExecStream, error) { return c.Execs("x").Stream(ctx, req) },
		"websocket": func(req shoal.ExecRequest) (shoal.ExecStream, error) {
			e, err := c.Execs("x").Start(ctx, req)
			if err != nil {
				return nil, err
			}
			return c.Execs("x").Attach(ctx, e.ID, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(shoal.ExecRequest{Cmd: []string{"cat"}, StdinOpen: true})
			if err != nil {
				t.Fatal(err)
			}
			big := bytes.Repeat([]byte{0xff, 'x', 0}, 400_000)
			if n, err := s.Write(big); err != nil || n != len(big) {
				t.Fatalf("wrote %d: %v", n, err)
			}
			if err := s.CloseStdin(); err != nil {
				t.Fatal(err)
			}
			out, last := collect(t, s)
			if out != string(big) || last.Type != shoal.MessageEnded || *last.Exec.ExitCode != 0 {
				t.Errorf("got %d bytes back and %+v", len(out), last)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}

			s, err = open(shoal.ExecRequest{Cmd: []string{"wait"}, Tty: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Resize(30, 99), s.Signal("INT")); err != nil {
				t.Fatal(err)
			}
			out, last = collect(t, s)
			if out != "30x99\n" || last.Exec.Outcome != shoal.OutcomeSignaled || last.Exec.Signal != "SIGINT" {
				t.Errorf("got %q and %+v", out, last)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestClientGone shows that a process goes on when its follower leaves, and that attaching from an offset misses and
// repeats nothing.
func TestClientGone(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	ctx, leave := context.WithCancel(t.Context())
	s, err := c.Execs("x").Stream(ctx, shoal.ExecRequest{Cmd: []string{"cat"}, StdinOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Recv()
	if err != nil || first.Type != shoal.MessageStarted {
		t.Fatalf("first is %+v, %v", first, err)
	}
	id := first.Exec.ID
	if _, err := s.Write([]byte("one ")); err != nil {
		t.Fatal(err)
	}
	m, err := s.Recv()
	if err != nil || string(m.Bytes()) != "one " {
		t.Fatalf("got %+v, %v", m, err)
	}
	leave()
	if _, err := s.Recv(); !errors.Is(err, context.Canceled) {
		t.Errorf("after leaving: %v", err)
	}
	if err := c.Execs("x").WriteStdin(t.Context(), id, []byte("two"), true); err != nil {
		t.Fatalf("the process didn't go on: %v", err)
	}
	s, err = c.Execs("x").Attach(t.Context(), id, *m.Offset+int64(len(m.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	if out, last := collect(t, s); out != "two" || last.Exec.Outcome != shoal.OutcomeExited {
		t.Errorf("got %q and %+v", out, last)
	}
}

func TestAttach(t *testing.T) {
	c, fake := newClient(t, nil)
	create(t, c, "x")
	ctx := t.Context()
	e, err := c.Execs("x").Start(ctx, shoal.ExecRequest{Shell: "echo 0123456789"})
	if err != nil {
		t.Fatal(err)
	}
	p := fake.procs["s000000000000000000001"][0]
	<-p.done
	p.forget(4)
	s, err := c.Execs("x").Attach(ctx, e.ID, 1)
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := collect(t, s); out != "[gap 1+3]456789\n" {
		t.Errorf("got %q", out)
	}
	_, err = c.Execs("x").Attach(ctx, "nope", 0)
	if e := wantCode(t, err, shoal.CodeNotFound); e.Message != "no such exec" {
		t.Errorf("got %+v", e)
	}
	got, err := c.Execs("x").Get(ctx, e.ID)
	if err != nil || got.OutputFrom != 4 || got.OutputBytes != 11 || got.Running {
		t.Errorf("Get: %+v, %v", got, err)
	}
	wait, err := c.Execs("x").Start(ctx, shoal.ExecRequest{Cmd: []string{"wait"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Execs("x").Cancel(ctx, wait.ID); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for e, err := range c.Execs("x").List(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID+" "+string(e.Outcome))
	}
	if want := []string{wait.ID + " canceled", e.ID + " exited"}; !slices.Equal(ids, want) {
		t.Errorf("listed %v, want %v", ids, want)
	}
}

func TestFollowEvents(t *testing.T) {
	c, fake := newClient(t, func(o *httpapi.Options) { o.Keepalive = 5 * time.Millisecond })
	create(t, c, "one")
	create(t, c, "two")
	fake.mu.Lock()
	fake.oldest = 3
	fake.mu.Unlock()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var got []string
	for e, err := range c.Events().Follow(ctx, shoal.EventsOptions{After: 1}) {
		var gap *shoal.GapError
		switch {
		case errors.As(err, &gap):
			got = append(got, fmt.Sprintf("gap %d", gap.Oldest))
			create(t, c, "three")
		case err != nil:
			got = append(got, "end")
		default:
			got = append(got, fmt.Sprintf("%d %s", e.Seq, e.Type))
			stop()
		}
	}
	if want := []string{"gap 3", "3 sandbox.running", "end"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	list, err := c.Events().List(t.Context(), shoal.EventsOptions{Sandbox: "three", Wait: time.Second, Limit: 5})
	if err != nil || len(list.Events) != 1 || list.NextAfter != 3 {
		t.Errorf("List: %+v, %v", list, err)
	}
	for _, err := range c.Events().Follow(t.Context(), shoal.EventsOptions{Sandbox: "none"}) {
		wantCode(t, err, shoal.CodeNotFound)
	}
}
