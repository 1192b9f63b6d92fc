package gvisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The descriptors that a creator has beside its null streams.
const (
	jobFD    = 3
	resultFD = 4
	netNSFD  = 5
)

// job is what the server tells a creator.
type job struct {
	Container   string `json:"container"`
	Bundle      string `json:"bundle"`
	StateDir    string `json:"state_dir"`
	RootFS      string `json:"root_fs"`
	RunDir      string `json:"run_dir"`
	Hostname    string `json:"hostname"`
	OwnerUID    int    `json:"owner_uid"`
	OwnerIDs    int    `json:"owner_ids"`
	DebugLogDir string `json:"debug_log_dir,omitempty"`
}

// result is a creator's answer.
type result struct {
	Sentry process `json:"sentry"`
	Gofer  process `json:"gofer"`
	// Took is how long gVisor itself took.
	Took time.Duration `json:"took_ns"`
	// Err is for the operator; empty if the sandbox was made.
	Err string `json:"err,omitempty"`
}

// maxResult bounds what is read from a creator, which is our own program.
const maxResult = 64 << 10

// creator is a creator that has been started and waits for its job. If the server dies before it has given one, the creator
// reads the end of its pipe and ends.
type creator struct {
	cmd    *exec.Cmd
	job    *os.File
	result *os.File
}

// startCreator starts a creator, which dies when ctx ends; what it has started by then is in the sandbox's groups, and is the
// caller's to kill. The caller must call either run and end, or stop.
func startCreator(ctx context.Context, program string, netNS *os.File) (*creator, error) {
	jobRead, jobWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make job pipe: %w", err)
	}
	resultRead, resultWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make result pipe: %w", err), jobRead.Close(), jobWrite.Close())
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Args = []string{nameCreator}
	// Nothing of the server's environment: it may hold secrets, and the gofer inherits the creator's.
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{jobRead, resultWrite, netNS}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS}
	startErr := cmd.Start()
	err = errors.Join(startErr, jobRead.Close(), resultWrite.Close())
	c := &creator{cmd: cmd, job: jobWrite, result: resultRead}
	switch {
	case startErr != nil:
		return nil, errors.Join(fmt.Errorf("start creator: %w", err), jobWrite.Close(), resultRead.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("start creator: %w", err), c.stop())
	}
	return c, nil
}

// stop ends a creator that has been given no job.
func (c *creator) stop() error {
	err := errors.Join(c.job.Close(), c.result.Close())
	// Without a job it fails, as it should: that is no news.
	_ = c.cmd.Wait()
	return err
}

// run hands the creator its job and returns its answer. The creator then ends by itself: the caller must call end.
func (c *creator) run(ctx context.Context, j job) (result, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return result{}, fmt.Errorf("encode job: %w", errors.Join(err, c.job.Close()))
	}
	// The pipe holds more than a job: this can't block.
	_, writeErr := io.Copy(c.job, bytes.NewReader(text))
	writeErr = errors.Join(writeErr, c.job.Close())
	var r result
	readErr := json.NewDecoder(io.LimitReader(c.result, maxResult)).Decode(&r)
	switch err := errors.Join(writeErr, readErr); {
	case ctx.Err() != nil:
		return result{}, fmt.Errorf("wait for creator: %w", ctx.Err())
	case err != nil:
		return result{}, fmt.Errorf("creator gave no answer: %w", err)
	case r.Err != "":
		return result{}, fmt.Errorf("creator: %s", r.Err)
	}
	return r, nil
}

// end waits for the end of a creator that was given its job: some milliseconds after its answer.
func (c *creator) end() error {
	return errors.Join(c.cmd.Wait(), c.result.Close())
}
