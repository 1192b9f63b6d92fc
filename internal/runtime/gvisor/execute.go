package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/runsc/boot"

	"shoal/internal/core"
)

// Execute runs a program in a started sandbox, as root inside, with null streams and no environment, and waits for it. It is
// gVisor's own way of starting a process, without the guest agent.
//
// It is there to measure against, and for nothing else: whatever descends from such a process is killed at a restore. It
// fails unless the program exits with 0. When ctx ends it stops waiting; the program goes on.
func (d *Driver) Execute(ctx context.Context, id core.SandboxID, argv ...string) error {
	b, err := d.known(id)
	if err != nil {
		return err
	}
	r := b.current()
	if !r.Started || !r.Sentry.alive() {
		return core.Errorf(core.CodeUnavailable, "the sandbox does not run")
	}
	status, err := d.execute(ctx, r.Container, argv)
	if err != nil {
		return core.Wrap(core.CodeUnavailable, err, "the program could not be run")
	}
	if status != 0 {
		return core.Errorf(core.CodeUnavailable, "the program ended with wait status %#x", uint32(status))
	}
	return nil
}

// execute starts a program and waits for it, over one connection.
func (d *Driver) execute(ctx context.Context, container string, argv []string) (status unix.WaitStatus, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("open null stream: %w", err)
	}
	defer func() { err = errors.Join(err, null.Close()) }()
	conn, err := dialControl(ctx, controlSocket(d.cfg.StateDir, container))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// Without streams the program would take its first files for them.
	files := control.NewFilePayload(map[int]*os.File{0: null, 1: null, 2: null}, nil)
	args := control.ExecArgs{Argv: argv, ContainerID: container, WorkingDirectory: "/", FilePayload: files}
	var pid int32
	if err := call(conn, methodExecute, args, &pid, files.Files...); err != nil {
		return 0, fmt.Errorf("start program: %w", errors.Join(err, ctx.Err()))
	}
	if err := call(conn, methodWaitPID, boot.WaitPIDArgs{PID: pid, CID: container}, &status); err != nil {
		return 0, fmt.Errorf("wait for program: %w", errors.Join(err, ctx.Err()))
	}
	return status, nil
}
