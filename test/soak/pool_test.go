package soak_test

import (
	"errors"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// TestFullPool has one sandbox fill the pool in which all trees are. It is told that there is no space, and nobody else is but those
// who write: neighbours read and compute, new sandboxes are refused by name, deletes go on, and when it is gone all is well.
func TestFullPool(t *testing.T) {
	needFull(t)
	harness.NeedRoot(t)
	e := env{harness.Start(t, harness.Options{Env: []string{"SHOAL_POOL_MAX_SIZE=2G", "SHOAL_SANDBOX_DISK=0"}})}
	filler := e.Create(t, shoal.CreateSandboxRequest{})
	neighbour := e.Create(t, shoal.CreateSandboxRequest{})
	limit := 600.0
	res, err := e.Client.Execs(filler.ID).Run(t.Context(), shoal.ExecRequest{TimeoutSeconds: &limit, Cmd: []string{"python3", "-c", `import errno, os
block, n = os.urandom(1 << 20), 0
try:
    while n < 4096:
        f = os.open("/root/fill%d" % (n // 64), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(f, block); n += 1
        if n % 16 == 0: os.fsync(f)
        os.close(f)
except OSError as e:
    print(errno.errorcode[e.errno])`}})
	if err != nil || string(res.StdoutBytes()) != "ENOSPC\n" {
		t.Fatalf("the filler: %v, %s %q %q", err, res.Outcome, res.StdoutBytes(), res.StderrBytes())
	}
	// The last blocks go to small files: what is left is less than what a new sandbox needs.
	for range 20 {
		e.Out(t, neighbour.ID, "cat /etc/passwd /usr/bin/python3 >/dev/null; python3 -c 'print(sum(range(1000)))'")
	}
	_, err = e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
	if shoal.ErrorCode(err) != "exhausted" {
		t.Errorf("a create in a full pool: %v", err)
	}
	if got, err := e.Client.Sandboxes().Get(ctx(t), filler.ID); err != nil || got.State != shoal.StateRunning {
		t.Errorf("the filler is %s: %v", got.State, err)
	}
	e.Out(t, filler.ID, "true")
	if err := e.Client.Sandboxes().Delete(ctx(t), filler.ID); err != nil {
		t.Errorf("delete of the filler: %v", err)
	}
	harness.Eventually(t, time.Minute, "there is room again", func() error {
		sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
		if err != nil {
			return err
		}
		res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: "head -c 50000000 /dev/urandom > /root/x && sync"})
		if err == nil && (res.ExitCode == nil || *res.ExitCode != 0) {
			err = errors.New("what is written does not fit")
		}
		return errors.Join(err, e.Client.Sandboxes().Delete(ctx(t), sb.ID))
	})
	e.Out(t, neighbour.ID, "head -c 10000000 /dev/urandom > /root/x && sync")
	e.deleteAll(t)
}
