// Package fault_test breaks a real server on purpose at every failpoint of create, exec and delete, restarts it, and asserts
// that what it acknowledged is there, that what it lists answers, and that nothing leaked.
//
// It knows no detail of how the server recovers. Start with TestFaults.
package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/failpoint"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// env is one server that is broken and restarted again and again.
type env struct {
	*harness.Server
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	return harness.Context(t)
}

// TestFaults walks every failpoint but those of template imports, each with a kill and with an error.
func TestFaults(t *testing.T) {
	e := env{harness.Start(t, harness.Options{})}
	for _, point := range failpoint.Names() {
		var run func(*testing.T, env, string, string)
		switch {
		case strings.Contains(point, ".checkpoint."):
			run = testCheckpoint
		case strings.Contains(point, ".fork."):
			run = testFork
		case strings.Contains(point, ".create."):
			run = testCreate
		case strings.Contains(point, ".delete."):
			run = testDelete
		case strings.Contains(point, ".stop."):
			run = testStop
		case strings.Contains(point, ".wake."):
			run = testWake
		case strings.Contains(point, ".restore."):
			run = testRestore
		case strings.Contains(point, ".resize."):
			run = testResize
		case strings.Contains(point, ".diff."):
			run = testDiff
		case strings.Contains(point, ".exec."):
			run = testExec
		case strings.Contains(point, ".rule."):
			run = testRule
		case strings.Contains(point, ".tenant."):
			run = testTenant
		case strings.Contains(point, ".template."), strings.Contains(point, ".operation."), strings.Contains(point, ".capture."):
			run = testTemplate
		default:
			continue // imports: TestImportFaults; calls with a key: testOnce
		}
		for _, action := range []string{"kill", "error"} {
			if !t.Run(point+" "+action, func(t *testing.T) { run(t, e, point, action) }) {
				t.Fatal("the state of the server is in doubt: the rest is not run")
			}
		}
	}
	for _, point := range []string{failpoint.NodeDeleteKilled, failpoint.NodeDeleteDetached} { // a stop comes through these as well
		t.Run("stop "+point+" kill", func(t *testing.T) { testStop(t, e, point, "kill") })
	}
	for _, point := range []string{failpoint.NodeCheckpointHeld, failpoint.NodeCheckpointCloned, failpoint.NodeCreateCloned, "2*" + failpoint.NodeCreateReady} {
		hits, name, ok := strings.Cut(point, "*") // a fork comes through these as well
		action := "kill"
		if ok {
			action = hits + "*kill"
		} else {
			name = point
		}
		t.Run("fork "+point+" kill", func(t *testing.T) { testFork(t, e, name, action) })
	}
	for _, point := range []string{failpoint.NodeWakeStarted, failpoint.ControlCheckpointNodeDone} { // and a restore through these
		t.Run("restore "+point+" kill", func(t *testing.T) { testRestore(t, e, point, "kill") })
	}
	t.Run("once", func(t *testing.T) { testOnce(t, e) })
	t.Run("rules", func(t *testing.T) { testRules(t, e) })
	t.Run("burst of 100", func(t *testing.T) { testBurst(t, e) })
	t.Run("kill while busy", func(t *testing.T) { testKillWhileBusy(t, e) })
	t.Run("follow", func(t *testing.T) { testFollowKilled(t, e) })
	t.Run("usage", func(t *testing.T) { testUsage(t, e) })
}

// arm restarts the server with a failpoint.
func (e env) arm(point, action string) {
	e.Stop()
	e.Restart(harness.Options{Failpoints: point + "=" + action})
}

// settle restarts the server without failpoints, waiting first for the one that was to be killed.
func (e env) settle(action string) {
	if strings.HasSuffix(action, "kill") {
		e.WaitExit()
	} else {
		e.Stop()
	}
	e.Restart(harness.Options{})
}

func testCreate(t *testing.T, e env, point, action string) {
	e.arm(point, action)
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "victim"})
	if action == "error" && err == nil && !strings.HasSuffix(point, ".committed") {
		t.Errorf("the create succeeded in spite of the fault: %s", sb.ID)
	}
	e.settle(action)
	for _, sb := range e.Sandboxes(t) {
		e.answers(t, sb)
		if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	e.empty(t)
	again, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "victim"})
	if err != nil {
		t.Fatalf("the name can't be used again: %v", err)
	}
	e.answers(t, again)
	if err := e.Client.Sandboxes().Delete(ctx(t), again.ID); err != nil {
		t.Error(err)
	}
	e.empty(t)
}

func testDelete(t *testing.T, e env, point, action string) {
	e.arm(point, action)
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "victim"})
	if err != nil {
		t.Fatal(err)
	}
	deleted := e.Client.Sandboxes().Delete(ctx(t), sb.ID)
	if action == "error" {
		// Whatever the fault, the delete is tried again in the background until it is done.
		if deleted != nil && point != failpoint.ControlDeleteRecorded {
			t.Errorf("delete: %v", deleted)
		}
	}
	e.settle(action)
	_, err = e.Client.Sandboxes().Get(ctx(t), sb.ID)
	if shoal.ErrorCode(err) != "not_found" {
		t.Errorf("get says %v", err)
	}
	e.empty(t)
}

// testResize breaks a change of limits: afterwards they are those of the record, on the host, in the guest agent and for the next change.
func testResize(t *testing.T, e env, point, action string) {
	up, down := int64(384<<20), int64(128<<20)
	directions := []int64{up, down}
	if os.Getenv("SHOAL_TEST_FULL") == "" {
		if action == "error" {
			t.Skip("the same steps back are unit tests: set SHOAL_TEST_FULL=1")
		}
		directions = directions[len(point)%2:][:1]
	}
	for _, to := range directions {
		e.arm(point, action)
		from := int64(256 << 20)
		sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{MemoryBytes: &from})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Client.Sandboxes().Update(ctx(t), sb.ID, shoal.UpdateSandboxRequest{MemoryBytes: &to})
		if action == "error" && err == nil && point != failpoint.ControlResizeCommitted {
			t.Error("the change succeeded in spite of the fault")
		}
		e.settle(action)
		var got shoal.Sandbox
		harness.Eventually(t, 30*time.Second, "the change is settled", func() error {
			if got, err = e.Client.Sandboxes().Get(ctx(t), sb.ID); err == nil && got.Operation != "" {
				err = fmt.Errorf("a %s is under way", got.Operation)
			}
			return err
		})
		want := to
		if action == "error" && point != failpoint.ControlResizeCommitted {
			want = from // it was taken back before the caller was told
		}
		if got.MemoryBytes != want {
			t.Errorf("from %d to %d: the record has %d, want %d", from, to, got.MemoryBytes, want)
		}
		if m, err := e.Client.Sandboxes().Metrics(ctx(t), sb.ID); err != nil || m.MemoryLimitBytes != want {
			t.Errorf("from %d to %d: the machine has %d, want %d: %v", from, to, m.MemoryLimitBytes, want, err)
		}
		for mib, fits := range map[int64]bool{want>>20 - 48: true, want>>20 + 24: false} {
			script := fmt.Sprintf("python3 -c 'import time; x = b\"x\" * (%d << 20); time.sleep(1)'", mib)
			res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: script})
			if err != nil || res.OutOfMemory == fits {
				t.Errorf("%d of %d MiB: out of memory %v, %v", mib, want>>20, res.OutOfMemory, err)
			}
		}
		if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
			t.Error(err)
		}
		e.empty(t)
	}
}

func testExec(t *testing.T, e env, point, action string) {
	e.arm(point, action)
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "victim"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: "sleep 0.2; exit 3"})
	if err == nil && (res.Outcome != shoal.OutcomeExited || *res.ExitCode != 3) {
		t.Errorf("the reply says %+v", res)
	}
	e.settle(action)
	e.answers(t, sb)
	harness.Eventually(t, 30*time.Second, "every exec has a true outcome", func() error {
		for x, err := range e.Client.Execs(sb.ID).List(ctx(t)) {
			if err != nil {
				return err
			}
			switch {
			case x.Outcome == "":
				return fmt.Errorf("exec %s still runs", x.ID)
			case x.Outcome == shoal.OutcomeExited && x.Shell != "" && *x.ExitCode != 3:
				t.Fatalf("exec %s: invented exit code %d", x.ID, *x.ExitCode)
			case x.Outcome != shoal.OutcomeExited && x.ExitCode != nil:
				t.Fatalf("exec %s: outcome %s with an exit code", x.ID, x.Outcome)
			}
		}
		return nil
	})
	if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
		t.Error(err)
	}
	e.empty(t)
}

// answers asserts that a sandbox that is listed can be used.
func (e env) answers(t *testing.T, sb shoal.Sandbox) {
	t.Helper()
	res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"true"}})
	if err != nil || res.Outcome != shoal.OutcomeExited || *res.ExitCode != 0 {
		t.Errorf("a sandbox that is listed as %s does not answer: %v %+v", sb.State, err, res)
	}
}

// empty asserts that nothing of any sandbox is left: no record, process, journal entry, run directory, tree, slot or cgroup.
func (e env) empty(t *testing.T) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "nothing is left", func() error {
		if l := e.Sandboxes(t); len(l) > 0 {
			return fmt.Errorf("%d sandboxes are listed", len(l))
		}
		if p := harness.Processes(e.Dir); len(p) > 0 {
			return fmt.Errorf("processes: %v", p)
		}
		for _, pattern := range []string{"node/journal/*.json*", "node/run/*", "pool/mnt/sandbox/*/*", "pool/mnt/checkpoint/*/*"} {
			if left, _ := filepath.Glob(filepath.Join(e.Dir, pattern)); len(left) > 0 {
				return fmt.Errorf("files: %v", left)
			}
		}
		return errors.Join(e.noSlots(), e.noGroups())
	})
}

// noSlots asks the router's namespace for interfaces of sandboxes.
func (e env) noSlots() error {
	names, err := harness.RouterLinks(e.Dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n != "lo" {
			return fmt.Errorf("interface %s", n)
		}
	}
	return nil
}

// noGroups looks for cgroups of sandboxes.
func (e env) noGroups() error {
	var left []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, "/"+e.Cgroup()+"/") && len(d.Name()) >= 22 {
			left = append(left, path)
		}
		return nil
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("cgroups: %v", left)
	}
	return err
}

// TestImportFaults kills the server in the middle of a template import. It builds a template for each point.
func TestImportFaults(t *testing.T) {
	if os.Getenv("SHOAL_TEST_FULL") == "" {
		t.Skip("builds a template for each failpoint: set SHOAL_TEST_FULL=1")
	}
	for _, point := range []string{failpoint.NodeImportCreated, failpoint.NodeImportFilled, failpoint.NodeImportFrozen} {
		t.Run(point, func(t *testing.T) {
			s := harness.Start(t, harness.Options{NoTemplates: true})
			s.Stop()
			s.Restart(harness.Options{Failpoints: point + "=kill"})
			s.WaitExit()
			s.Restart(harness.Options{})
			s.WaitTemplate("minimal")
			e := env{s}
			sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
			if err != nil {
				t.Fatal(err)
			}
			e.answers(t, sb)
			trees, _ := filepath.Glob(filepath.Join(s.Dir, "pool/mnt/template/*/*"))
			if len(trees) != 1 {
				t.Errorf("trees of templates: %v", trees)
			}
			if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// testKillWhileBusy kills the server again and again while clients create, run and delete.
func testKillWhileBusy(t *testing.T, e env) {
	before, err := e.Client.Events().List(ctx(t), shoal.EventsOptions{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	last := before.NextAfter
	for range 3 {
		stop := make(chan struct{})
		done := make(chan struct{})
		client := e.Client
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				sb, err := client.Sandboxes().Create(context.Background(), shoal.CreateSandboxRequest{})
				if err != nil {
					continue
				}
				if s, err := client.Execs(sb.ID).Stream(context.Background(), shoal.ExecRequest{Shell: "echo x"}); err == nil {
					for err == nil {
						_, err = s.Recv()
					}
					if !errors.Is(err, io.EOF) {
						continue
					}
				}
				_ = client.Sandboxes().Delete(context.Background(), sb.ID)
			}
		}()
		harness.Eventually(t, 30*time.Second, "some sandboxes have come and gone", func() error {
			list, err := client.Events().List(ctx(t), shoal.EventsOptions{Limit: 1000, After: last})
			if err == nil && len(list.Events) < 20 {
				return fmt.Errorf("%d events", len(list.Events))
			}
			last = list.NextAfter
			return err
		})
		e.Kill()
		close(stop)
		<-done
		e.Restart(harness.Options{})
		for _, sb := range e.Sandboxes(t) {
			e.answers(t, sb)
			if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
				t.Errorf("delete: %v", err)
			}
		}
		e.empty(t)
	}
}
