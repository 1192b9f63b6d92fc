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
	Container string `json:"container"`
	Bundle    string `json:"bundle"`
	StateDir  string `json:"state_dir"`
	RootFS    string `json:"root_fs"`
	RunDir    string `json:"run_dir"`
	Hostname  string `json:"hostname"`
	OwnerUID  int    `json:"owner_uid"`
	OwnerIDs  int    `json:"owner_ids"`
	// Cgroups are the files by which to enter the sandbox's groups.
	Cgroups     []string `json:"cgroups"`
	DebugLogDir string   `json:"debug_log_dir,omitempty"`
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

// runCreator starts a creator, hands it the job and returns its answer. When ctx ends it kills the creator; what that has
// started is in the sandbox's groups by then, and is the caller's to kill.
func runCreator(ctx context.Context, program string, j job, netNS *os.File) (result, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return result{}, fmt.Errorf("encode job: %w", err)
	}
	jobRead, jobWrite, err := os.Pipe()
	if err != nil {
		return result{}, fmt.Errorf("make job pipe: %w", err)
	}
	resultRead, resultWrite, err := os.Pipe()
	if err != nil {
		return result{}, errors.Join(fmt.Errorf("make result pipe: %w", err), jobRead.Close(), jobWrite.Close())
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Args = []string{nameCreator}
	// Nothing of the server's environment: it may hold secrets, and the gofer inherits the creator's.
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{jobRead, resultWrite, netNS}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS}
	startErr := cmd.Start()
	closeErr := errors.Join(jobRead.Close(), resultWrite.Close())
	if err := errors.Join(startErr, closeErr); err != nil {
		return result{}, errors.Join(fmt.Errorf("start creator: %w", err), jobWrite.Close(), resultRead.Close())
	}
	// The pipe holds more than a job: this can't block.
	_, writeErr := io.Copy(jobWrite, bytes.NewReader(text))
	writeErr = errors.Join(writeErr, jobWrite.Close())
	answer, readErr := io.ReadAll(io.LimitReader(resultRead, maxResult))
	waitErr := errors.Join(cmd.Wait(), resultRead.Close())
	if err := ctx.Err(); err != nil {
		return result{}, fmt.Errorf("wait for creator: %w", err)
	}
	var r result
	if err := json.Unmarshal(answer, &r); err != nil {
		return result{}, fmt.Errorf("creator gave no answer: %w", errors.Join(waitErr, writeErr, readErr, err))
	}
	if r.Err != "" {
		return result{}, fmt.Errorf("creator: %s", r.Err)
	}
	return r, nil
}
