package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// killSentry kills the sandbox's sentry on the host.
func (e env) killSentry(t *testing.T, id string) {
	t.Helper()
	for _, p := range harness.Processes(e.Dir) {
		if strings.HasPrefix(p.Command, "runsc-sandbox") && strings.Contains(p.Command, id) {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no sentry of %s among %v", id, harness.Processes(e.Dir))
}

func testLifeOfASandbox(t *testing.T, e env) {
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "life", Labels: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Out(t, sb.ID, "hostname; python3 -c 'print(6*7)'"); got != "life\n42\n" {
		t.Errorf("output %q", got)
	}
	n := 0
	for got, err := range e.Client.Sandboxes().List(ctx(t), shoal.ListSandboxesOptions{Labels: map[string]string{"a": "b"}}) {
		if err != nil || got.ID != sb.ID {
			t.Errorf("list: %v %v", got.ID, err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d sandboxes listed", n)
	}
	for got := range e.Client.Sandboxes().List(ctx(t), shoal.ListSandboxesOptions{Labels: map[string]string{"a": "c"}}) {
		t.Errorf("a filter that matches nothing returned %s", got.ID)
	}
	if err := e.Client.Sandboxes().Delete(ctx(t), "life"); err != nil {
		t.Fatal(err)
	}
	_, err = e.Client.Sandboxes().Get(ctx(t), sb.ID)
	wantCode(t, err, "not_found")
	e.nothingLeft(t, sb.ID)
}

// nothingLeft waits until no process, run directory, tree or journal entry of a deleted sandbox is there.
func (e env) nothingLeft(t *testing.T, id string) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "nothing of the sandbox is left", func() error {
		for _, p := range harness.Processes(e.Dir) {
			if strings.Contains(p.Command, id) {
				return fmt.Errorf("process %d: %s", p.PID, p.Command)
			}
		}
		var left []string
		for _, pattern := range []string{"node/*/*" + id + "*", "runtime/*" + id + "*", "runtime/*/*" + id + "*", "pool/mnt/*/*/*" + id + "*"} {
			found, _ := filepath.Glob(filepath.Join(e.Dir, pattern))
			left = append(left, found...)
		}
		if len(left) > 0 {
			return fmt.Errorf("files %v", left)
		}
		return nil
	})
}

func testIsolation(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	if got := e.Out(t, sb.ID, "dmesg 2>/dev/null | head -n 3; cat /proc/version"); !strings.Contains(got, "gVisor") && !strings.Contains(got, "4.19.0") {
		t.Errorf("the kernel is %q", got)
	}
	for _, p := range harness.Processes(e.Dir) {
		if !strings.Contains(p.Command, sb.ID) {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(status), "\n") {
			if strings.HasPrefix(line, "Uid:") && strings.Contains(line+"\t", "\t0\t") {
				t.Errorf("%s runs as host root: %s", p.Command[:min(60, len(p.Command))], line)
			}
		}
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID))
		for _, fd := range fds {
			target, _ := os.Readlink(fd)
			for _, secret := range []string{"shoal.db", "admin.key", "/lock", "server.log"} {
				if strings.HasSuffix(target, secret) {
					t.Errorf("%s holds %s", p.Command[:min(60, len(p.Command))], target)
				}
			}
		}
	}
	if got := e.Out(t, sb.ID, "touch /run/shoal/x 2>/dev/null && echo writable || echo read-only"); got != "read-only\n" {
		t.Errorf("/run/shoal is %s", got)
	}
}

// Named test 7.
func testDeleteRaces(t *testing.T, e env) {
	t.Run("delete during create", func(t *testing.T) {
		for i := range 6 {
			name := fmt.Sprintf("race-%d", i)
			created := make(chan error, 1)
			go func() {
				_, err := e.Client.Sandboxes().Create(context.Background(), shoal.CreateSandboxRequest{Name: name})
				created <- err
			}()
			deleted := false
			harness.Eventually(t, 30*time.Second, "the delete or the create ends it", func() error {
				err := e.Client.Sandboxes().Delete(ctx(t), name)
				if err == nil {
					deleted = true
				} else if shoal.ErrorCode(err) == "not_found" && !deleted {
					return err
				}
				return nil
			})
			if err := <-created; err == nil && !deleted {
				t.Errorf("%s: neither deleted nor refused", name)
			}
			_, err := e.Client.Sandboxes().Get(ctx(t), name)
			wantCode(t, err, "not_found")
		}
	})
	t.Run("delete during exec and delete", func(t *testing.T) {
		sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
		stream, err := e.Client.Execs(sb.ID).Stream(ctx(t), shoal.ExecRequest{Shell: "sleep 1000"})
		if err != nil {
			t.Fatal(err)
		}
		errs := make([]error, 5)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = e.Client.Sandboxes().Delete(context.Background(), sb.ID) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				wantCode(t, err, "not_found")
			}
		}
		if won != 1 {
			t.Errorf("%d deletes won", won)
		}
		if _, _, _, end := collect(t, stream); end.Exec.Outcome != shoal.OutcomeLost {
			t.Errorf("the exec ended as %s", end.Exec.Outcome)
		}
		e.nothingLeft(t, sb.ID)
	})
}

// Named test 8.
func testOneName(t *testing.T, e env) {
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = e.Client.Sandboxes().Create(context.Background(), shoal.CreateSandboxRequest{Name: "popular"})
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			wantCode(t, err, "conflict")
		}
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
	if err := e.Client.Sandboxes().Delete(ctx(t), "popular"); err != nil {
		t.Error(err)
	}
}

// testManyAtOnce makes sandboxes at the same time. Making one moves a thread of the server through namespaces: each must come
// back, or the server would do its own work in a sandbox's network.
func testManyAtOnce(t *testing.T, e env) {
	const count = 16
	errs := make([]error, count)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			sb, err := e.Client.Sandboxes().Create(context.Background(), shoal.CreateSandboxRequest{})
			if err == nil {
				_, err = e.Client.Execs(sb.ID).Run(context.Background(), shoal.ExecRequest{Cmd: []string{"true"}})
				err = errors.Join(err, e.Client.Sandboxes().Delete(context.Background(), sb.ID))
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	router, err := harness.RouterNamespace(e.Dir)
	if err != nil {
		t.Fatal(err)
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/net", e.PID()))
	for _, thread := range threads {
		ns, err := os.Readlink(thread)
		if err == nil && ns != home && ns != router {
			t.Errorf("%s is in %s, neither the host's network nor the router's", thread, ns)
		}
	}
	if len(threads) < 2 {
		t.Errorf("%d threads seen", len(threads))
	}
}

// Named test 15.
func testRefusals(t *testing.T, e env) {
	for _, tc := range []struct {
		body   string
		status int
		field  string
	}{
		{`{"colour":"red"}`, 400, "colour"},
		{`{"template":"no-such-template"}`, 404, "template"},
		{`{"vcpus":4096}`, 400, "vcpus"},
		{`{"memory_bytes":1}`, 400, "memory_bytes"},
		{`{"ttl_seconds":99999999}`, 400, "ttl_seconds"},
		{`{"name":"UPPER"}`, 400, "name"},
		{`{`, 400, "body"},
	} {
		req, err := http.NewRequestWithContext(ctx(t), http.MethodPost, e.URL+"/v1/sandboxes", strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+e.Key)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Error struct{ Code, Message, Field string }
		}
		err = json.NewDecoder(res.Body).Decode(&body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != tc.status || body.Error.Field != tc.field || body.Error.Message == "" {
			t.Errorf("%s: %d %+v %v", tc.body, res.StatusCode, body, err)
		}
	}
}

func testFullNode(t *testing.T, e env) {
	e.Stop()
	e.Restart(harness.Options{Env: []string{"SHOAL_NODE_MAX_SANDBOXES=2"}})
	defer func() { e.Stop(); e.Restart(harness.Options{}) }()
	a := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Sandbox(t, shoal.CreateSandboxRequest{})
	_, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "third"})
	if e := wantCode(t, err, "exhausted"); e.Status != http.StatusServiceUnavailable || e.RetryAfter == 0 {
		t.Errorf("%+v", e)
	}
	_, err = e.Client.Sandboxes().Get(ctx(t), "third")
	wantCode(t, err, "not_found")
	if err := e.Client.Sandboxes().Delete(ctx(t), a.ID); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 10*time.Second, "a place is free", func() error {
		sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "third"})
		if err == nil {
			err = e.Client.Sandboxes().Delete(ctx(t), sb.ID)
		}
		return err
	})
}

func testNoEgress(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	script := `import socket, time, errno
def tcp(a, p):
    t = time.time()
    try:
        socket.create_connection((a, p), 5); r = "open"
    except OSError as e:
        r = errno.errorcode.get(e.errno, str(e))
    return r, time.time() - t < 3
def udp(a, p):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.connect((a, p)); s.send(b"x")
    try:
        s.recv(1); return "answer"
    except OSError as e:
        return type(e).__name__
for a, p in [("1.1.1.1", 443), ("169.254.169.254", 80), ("10.0.0.1", 22), ("100.64.0.1", 7070), ("10.88.0.1", 8700), ("10.88.0.1", 53)]:
    print(a, p, *tcp(a, p))
for a, p in [("8.8.8.8", 53), ("1.1.1.1", 443)]:
    print(a, p, udp(a, p))
`
	res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"python3", "-"}, Stdin: script})
	if err != nil || res.Outcome != shoal.OutcomeExited || *res.ExitCode != 0 {
		t.Fatalf("%v %s %s", err, harness.Describe(res), res.StderrBytes())
	}
	lines := strings.Split(strings.TrimSpace(string(res.StdoutBytes())), "\n")
	if len(lines) != 8 {
		t.Fatalf("%q", lines)
	}
	for _, line := range lines[:6] {
		if !strings.HasSuffix(line, "ECONNREFUSED True") && !strings.HasSuffix(line, "ECONNRESET True") {
			t.Errorf("not refused at once: %s", line)
		}
	}
	for _, line := range lines[6:] {
		if !strings.HasSuffix(line, "ConnectionRefusedError") {
			t.Errorf("not refused at once: %s", line)
		}
	}
}

func testLimits(t *testing.T, e env) {
	memory := int64(256 << 20)
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{MemoryBytes: &memory})
	total := e.Out(t, sb.ID, "awk '/MemTotal/ {print $2*1024}' /proc/meminfo")
	var bytesSeen float64
	if _, err := fmt.Sscan(total, &bytesSeen); err != nil || bytesSeen < float64(memory)*0.9 || bytesSeen > float64(memory)*1.3 {
		t.Errorf("inside, memory is %q", total)
	}
	vcpus := 0.5
	slow := e.Sandbox(t, shoal.CreateSandboxRequest{VCPUs: &vcpus})
	before, err := e.Client.Sandboxes().Metrics(ctx(t), slow.ID)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	e.Out(t, slow.ID, "timeout 4 sh -c 'while :; do :; done' & timeout 4 sh -c 'while :; do :; done' & wait; true")
	after, err := e.Client.Sandboxes().Metrics(ctx(t), slow.ID)
	if err != nil {
		t.Fatal(err)
	}
	if used := (after.CPUSeconds - before.CPUSeconds) / time.Since(start).Seconds(); used > 0.75 {
		t.Errorf("half a vcpu used %.2f", used)
	}
}

func testMetrics(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Out(t, sb.ID, "head -c 20000000 /dev/urandom > /root/x; sync")
	harness.Eventually(t, 60*time.Second, "the metrics tell what is used", func() error {
		m, err := e.Client.Sandboxes().Metrics(ctx(t), sb.ID)
		if err != nil {
			return err
		}
		if m.CPUSeconds <= 0 || m.MemoryBytes <= 0 || m.MemoryLimitBytes <= 0 || m.Processes < 1 {
			return fmt.Errorf("%+v", m)
		}
		if m.DiskBytes != nil && *m.DiskBytes < 20_000_000 {
			return fmt.Errorf("disk %d", *m.DiskBytes)
		}
		return nil
	})
	text, err := e.Client.ServerMetrics(ctx(t))
	if err != nil || !bytes.Contains(text, []byte("shoal_sandboxes")) {
		t.Errorf("%v %.300s", err, text)
	}
}

func testEvents(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Out(t, sb.ID, "true")
	list, err := e.Client.Events().List(ctx(t), shoal.EventsOptions{Sandbox: sb.ID})
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, ev := range list.Events {
		types = append(types, ev.Type)
	}
	if got, want := strings.Join(types, " "), "sandbox.creating sandbox.running exec.started exec.ended"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}
