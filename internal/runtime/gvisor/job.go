package gvisor

import (
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
)

// job is what the server tells a creator, in one message that the network namespace comes with.
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

// maxMessage bounds a job and its result.
const maxMessage = 64 << 10

// creator is a creator that has been started and waits for its job. If the server dies before it has given one, the creator
// sees its socket closed and ends.
type creator struct {
	cmd    *exec.Cmd
	job    *os.File
	result *os.File
}

// startCreator starts a creator, which dies when ctx ends; what it has started by then is in the sandbox's groups, and is the
// caller's to kill. It is born in the group home, unless that is nil. The caller must call either run and end, or stop.
func startCreator(ctx context.Context, program string, home *os.File) (*creator, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make job socket: %w", err)
	}
	jobRead, jobWrite := os.NewFile(uintptr(pair[0]), "job"), os.NewFile(uintptr(pair[1]), "job")
	resultRead, resultWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make result pipe: %w", err), jobRead.Close(), jobWrite.Close())
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Args = []string{nameCreator}
	// Nothing of the server's environment: it may hold secrets, and the gofer inherits the creator's.
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{jobRead, resultWrite}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS}
	if home != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(home.Fd())
	}
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
func (c *creator) run(ctx context.Context, netNS *os.File, j job) (result, error) {
	text, err := json.Marshal(j)
	if err == nil {
		// The socket has room for it: this can't block.
		err = unix.Sendmsg(int(c.job.Fd()), text, unix.UnixRights(int(netNS.Fd())), nil, unix.MSG_NOSIGNAL)
	}
	writeErr := errors.Join(err, c.job.Close())
	var r result
	readErr := json.NewDecoder(io.LimitReader(c.result, maxMessage)).Decode(&r)
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
	// One that says more than is read must not wait for a reader.
	return errors.Join(c.result.Close(), c.cmd.Wait())
}

// receiveJob is the creator's side: it waits for the job and returns it with the descriptor of the network namespace.
func receiveJob(socket int) (j job, netNS int, err error) {
	text, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))
	n, rightsLen, flags, _, err := unix.Recvmsg(socket, text, rights, unix.MSG_CMSG_CLOEXEC)
	for errors.Is(err, unix.EINTR) {
		n, rightsLen, flags, _, err = unix.Recvmsg(socket, text, rights, unix.MSG_CMSG_CLOEXEC)
	}
	switch {
	case err != nil:
		return job{}, -1, fmt.Errorf("receive job: %w", err)
	case n == 0:
		return job{}, -1, errors.New("receive job: there is none")
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return job{}, -1, errors.New("receive job: it is too large")
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rightsLen])
	if err != nil || len(messages) != 1 {
		return job{}, -1, fmt.Errorf("receive job: %d control messages: %w", len(messages), errors.Join(err, unix.EBADMSG))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return job{}, -1, fmt.Errorf("receive job: %d descriptors: %w", len(fds), errors.Join(err, unix.EBADMSG))
	}
	if err := json.Unmarshal(text[:n], &j); err != nil {
		return job{}, -1, fmt.Errorf("decode job: %w", err)
	}
	return j, fds[0], nil
}
