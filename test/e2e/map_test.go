package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// mapping is a `shoal map` that runs.
type mapping struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	out  bytes.Buffer
	errs bytes.Buffer
}

// mapped is what it says of an item.
type mapped struct {
	Index    int    `json:"index"`
	Item     string `json:"item"`
	Outcome  string `json:"outcome"`
	ExitCode *int   `json:"exit_code"`
	Tries    int    `json:"tries"`
	Stdout   string `json:"stdout"`
}

// Write is what the command prints.
func (m *mapping) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.Write(p)
}

func (e env) mapping(t *testing.T, args ...string) *mapping {
	t.Helper()
	m := &mapping{cmd: exec.Command(harness.Binary(t, false), append([]string{"map", "-o", "json"}, args...)...)}
	m.cmd.Env = append(harness.CleanEnvironment(), "SHOAL_URL="+e.URL, "SHOAL_API_KEY="+e.Key)
	m.cmd.Stdout, m.cmd.Stderr = m, &m.errs
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.cmd.Process.Kill() }) // it has ended, or the test has failed
	return m
}

// told returns what it has said so far, by item.
func (m *mapping) told(t *testing.T) map[int]mapped {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[int]mapped{}
	for line := range bytes.Lines(m.out.Bytes()) {
		var r mapped
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all[r.Index] = r
	}
	return all
}

// end waits for its end.
func (m *mapping) end(t *testing.T, code int) map[int]mapped {
	t.Helper()
	_ = m.cmd.Wait()
	if got := m.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("it ended with %d, want %d: %s", got, code, m.errs.String())
	}
	return m.told(t)
}

// busy waits until so many sandboxes that were not there before have a process that runs.
func (e env) busy(t *testing.T, before []shoal.Sandbox, n int) (list []shoal.Sandbox) {
	t.Helper()
	harness.Eventually(t, 60*time.Second, fmt.Sprintf("%d items run", n), func() error {
		list = e.since(t, before)
		running := 0
		for _, sb := range list {
			for x, err := range e.Client.Execs(sb.ID).List(ctx(t)) {
				if err != nil {
					return err
				}
				if x.Outcome == "" {
					running++
				}
			}
		}
		if running != n {
			return fmt.Errorf("%d run", running)
		}
		return nil
	})
	return list
}

// since returns the sandboxes that were not there before.
func (e env) since(t *testing.T, before []shoal.Sandbox) (list []shoal.Sandbox) {
	t.Helper()
	for _, sb := range e.Sandboxes(t) {
		known := false
		for _, b := range before {
			known = known || b.ID == sb.ID
		}
		if !known {
			list = append(list, sb)
		}
	}
	return list
}

func (e env) noneSince(t *testing.T, before []shoal.Sandbox) {
	t.Helper()
	harness.Eventually(t, 20*time.Second, "its sandboxes are gone", func() error {
		if list := e.since(t, before); len(list) > 0 {
			return fmt.Errorf("%d are left", len(list))
		}
		return nil
	})
}

// testMap runs a command for numbers and for the lines of a file, with outputs in a directory.
func testMap(t *testing.T, e env) {
	before := e.Sandboxes(t)
	for i, r := range e.mapping(t, "-n", "4", "--", "sh", "-c", "echo got {}").end(t, 0) {
		if r.Stdout != fmt.Sprintf("got %d\n", i) || r.Outcome != "exited" || r.Tries != 1 {
			t.Errorf("number %d: %+v", i, r)
		}
	}
	dir := t.TempDir()
	lines := filepath.Join(dir, "lines")
	if err := os.WriteFile(lines, []byte("a b\n\nc'\"$x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	got := e.mapping(t, "--each", lines, "--dir", out, "--out", "made", "--in", lines+":/tmp/in", "--",
		"sh", "-c", `echo "$SHOAL_ITEM"; cat /tmp/in >&2; echo "$SHOAL_INDEX" >made; [ "$SHOAL_INDEX" = 1 ]`).end(t, 1)
	if len(got) != 2 || got[1].Item != "a b" || got[2].Item != `c'"$x` || *got[1].ExitCode != 0 || *got[2].ExitCode != 1 {
		t.Errorf("%+v", got)
	}
	for name, want := range map[string]string{"000001.out": "a b\n", "000002.out": "c'\"$x\n", "000002.err": "a b\n\nc'\"$x\n", "000001/made": "1\n", "000002/made": "2\n"} {
		if text, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	e.noneSince(t, before)
}

// testMapInterrupted stops it by ^C: what has run is told, and nothing of the rest is left. One that is killed leaves sandboxes with an end.
func testMapInterrupted(t *testing.T, e env) {
	before := e.Sandboxes(t)
	m := e.mapping(t, "-n", "9", "--parallel", "3", "--", "sh", "-c", "[ {} = 1 ] || exec sleep 600")
	harness.Eventually(t, 60*time.Second, "the first has ended", func() error {
		if len(m.told(t)) == 0 {
			return fmt.Errorf("nothing is told")
		}
		return nil
	})
	e.busy(t, before, 3)
	if err := m.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	got := m.end(t, 125)
	if got[1].Outcome != "exited" {
		t.Errorf("%+v", got)
	}
	for i, r := range got {
		if i != 1 && (r.Outcome == "exited" || r.ExitCode != nil) {
			t.Errorf("number %d: an outcome was invented: %+v", i, r)
		}
	}
	if !strings.Contains(m.errs.String(), "interrupted") {
		t.Errorf("it says %q", m.errs.String())
	}
	e.noneSince(t, before)

	killed := e.mapping(t, "-n", "2", "--parallel", "2", "--timeout", "1m", "--", "sleep", "600")
	e.busy(t, before, 2)
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.cmd.Wait()
	for _, sb := range e.since(t, before) {
		if end := time.Until(sb.ExpiresAt); sb.Persistent || sb.ExpiresAt.IsZero() || end > 12*time.Minute {
			t.Errorf("it ends in %s, persistent %v", end, sb.Persistent)
		}
		if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
			t.Error(err)
		}
	}
}

// testMapLost kills the machine of one item, and the server in the middle: only what was lost is run again.
func testMapLost(t *testing.T, e env) {
	at, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	before := e.Sandboxes(t)
	m := e.mapping(t, "-n", "3", "--parallel", "3", "--retry", "2", "--", "sh", "-c", "sleep 8; echo done {}")
	list := e.busy(t, before, 3)
	pid := 0
	for _, p := range harness.Processes(e.Dir) {
		if strings.HasPrefix(p.Command, "runsc-sandbox") && strings.Contains(p.Command, list[0].ID) {
			pid = p.PID
		}
	}
	if pid == 0 {
		t.Fatal("the sandbox has no process")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 20*time.Second, "another one is begun", func() error {
		for _, sb := range e.since(t, before) {
			if sb.ID != list[0].ID && sb.ID != list[1].ID && sb.ID != list[2].ID {
				return nil
			}
		}
		return fmt.Errorf("there are the three")
	})
	e.Kill()
	e.Restart(harness.Options{Listen: at.Host})
	got := m.end(t, 0)
	tries := 0
	for i, r := range got {
		if r.Outcome != "exited" || r.Stdout != fmt.Sprintf("done %d\n", i) {
			t.Errorf("number %d: %+v", i, r)
		}
		tries += r.Tries
	}
	// The kill of the server may have cut the create of the fourth off: then it was tried once more.
	if len(got) != 3 || tries < 4 || tries > 5 {
		t.Errorf("%d results after %d tries", len(got), tries)
	}
	e.noneSince(t, before)
}

// testMapFull has room for two: all are done, some later.
func testMapFull(t *testing.T, e env) {
	before := e.Sandboxes(t)
	e.Stop()
	e.Restart(harness.Options{Env: []string{fmt.Sprint("SHOAL_NODE_MAX_SANDBOXES=", len(before)+2)}})
	defer func() { e.Stop(); e.Restart(harness.Options{}) }()
	got := e.mapping(t, "-n", "8", "--", "sh", "-c", "sleep 0.2; echo {}").end(t, 0)
	for i, r := range got {
		if r.Stdout != fmt.Sprintf("%d\n", i) {
			t.Errorf("number %d: %+v", i, r)
		}
	}
	if len(got) != 8 {
		t.Errorf("%d of 8 are told", len(got))
	}
	e.noneSince(t, before)
}
