package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/boot"
)

// What the driver asks a sentry. gVisor's own client blocks a thread per call and knows no deadline, so these go over a
// connection of Go's: one JSON object each way, as in gVisor's pkg/urpc.
const (
	methodWait      = boot.ContMgrWait
	methodState     = boot.ContMgrContainerRuntimeState
	methodProcesses = boot.ContMgrProcesses
	methodExecute   = boot.ContMgrExecuteAsync
	methodWaitPID   = boot.ContMgrWaitPID
	methodPause     = boot.ContMgrPause
	methodResume    = boot.ContMgrResume
	methodStacks    = boot.DebugStacks
)

// controlSocketPrefix begins the name of a control socket, gVisor's choice.
const controlSocketPrefix = "runsc-"

// pingTimeout bounds a sign of life.
const pingTimeout = 2 * time.Second

// controlSocket is where the sentry of a container listens.
func controlSocket(stateDir, container string) string {
	return filepath.Join(stateDir, controlSocketPrefix+container+".sock")
}

// errUnreached says that a sentry was asked nothing.
var errUnreached = errors.New("connect to sentry")

// dialControl connects to a sentry. A path longer than an address may be is reached through a descriptor.
func dialControl(ctx context.Context, path string) (conn net.Conn, err error) {
	var dialer net.Dialer
	if len(path) < 108 {
		conn, err = dialer.DialContext(ctx, "unix", path)
	} else {
		fd, openErr := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if openErr != nil {
			return nil, fmt.Errorf("%w: open control socket: %w", errUnreached, openErr)
		}
		f := os.NewFile(uintptr(fd), path)
		defer func() { err = errors.Join(err, f.Close()) }()
		conn, err = dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreached, err)
	}
	return conn, nil
}

// maxReply bounds a sentry's answer: a guest may have taken the sentry over. maxStacks does for its stacks, which are those of some
// thousands of threads: many sentries are looked at together.
const (
	maxReply  = 4 << 20
	maxStacks = 8 << 20
)

// call makes one call on a connection, and hands files over with it. The connection's deadline, or closing it, ends the wait.
func call(conn net.Conn, method string, arg, out any, files ...*os.File) error {
	request, err := json.Marshal(struct {
		Method string `json:"method"`
		Arg    any    `json:"arg"`
	}{method, arg})
	if err != nil {
		return fmt.Errorf("encode question: %w", err)
	}
	if err := send(conn, request, files); err != nil {
		return fmt.Errorf("ask sentry: %w", err)
	}
	var reply struct {
		Success bool            `json:"success"`
		Err     string          `json:"err"`
		Result  json.RawMessage `json:"result"`
	}
	most := int64(maxReply)
	if method == methodStacks {
		most = maxStacks
	}
	if err := json.NewDecoder(limitReader(conn, most)).Decode(&reply); err != nil {
		return fmt.Errorf("read sentry's answer: %w", err)
	}
	if !reply.Success {
		return fmt.Errorf("sentry: %s", reply.Err)
	}
	if err := json.Unmarshal(reply.Result, out); err != nil {
		return fmt.Errorf("decode sentry's answer: %w", err)
	}
	return nil
}

// send writes a question. Files travel with its first bytes.
func send(conn net.Conn, question []byte, files []*os.File) error {
	if len(files) == 0 {
		_, err := conn.Write(question)
		return err
	}
	stream, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("files need a unix connection")
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	// A stream takes the whole of a question this short, or fails.
	_, _, err := stream.WriteMsgUnix(question, unix.UnixRights(fds...), nil)
	return err
}

// ask makes one call on a connection of its own, within the context and pingTimeout.
func (d *Driver) ask(ctx context.Context, container, method string, arg, out any) error {
	return askWithin(ctx, pingTimeout, controlSocket(d.cfg.StateDir, container), question{method, arg, out})
}

// question is a call, and where its answer goes.
type question struct {
	method   string
	arg, out any
}

// askWithin is ask with a bound of its own.
func askWithin(ctx context.Context, limit time.Duration, socket string, q question) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := dialControl(ctx, socket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	return call(conn, q.method, q.arg, q.out)
}

// ping asks the sentry of a record for the state of its container.
func (d *Driver) ping(ctx context.Context, r record) (boot.ContainerRuntimeState, error) {
	var state boot.ContainerRuntimeState
	err := d.ask(ctx, r.Container, methodState, r.Container, &state)
	return state, err
}
