package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"shoal/internal/archive"
	"shoal/internal/core"
)

// guest is a core.Guest whose processes run on this machine and whose files lie below root.
type guest struct {
	core.Guest // no command uses the methods that are not below

	root  string
	spec  core.NodeSpec
	began time.Time

	mu    sync.Mutex
	cond  *sync.Cond
	execs map[core.ExecID]*process
	order []core.ExecID
}

// process is one exec. Its fields are guarded by the guest's mutex.
type process struct {
	exec   core.Exec
	frames []core.ExecMessage
	ended  bool
	asked  core.Outcome // why we killed it, if we did
	stdin  io.WriteCloser
	pty    *os.File
	pgid   int
}

func newGuest(root string, spec core.NodeSpec) (*guest, error) {
	g := &guest{root: root, spec: spec, began: time.Now(), execs: map[core.ExecID]*process{}}
	g.cond = sync.NewCond(&g.mu)
	return g, errors.Join(os.MkdirAll(filepath.Join(root, "home"), 0o755), os.MkdirAll(filepath.Join(root, "tmp"), 0o755))
}

// die ends everything as the end of a sandbox would: what runs is lost.
func (g *guest) die() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.execs {
		if !p.ended {
			p.asked = core.OutcomeLost
			_ = unix.Kill(-p.pgid, unix.SIGKILL)
		}
	}
}

func (g *guest) at(path string) string { return filepath.Join(g.root, filepath.Join("/", path)) }

func (g *guest) Ping(context.Context) error { return nil }

func (g *guest) command(spec core.ExecSpec) (*exec.Cmd, error) {
	args := spec.Cmd
	if spec.Shell != "" {
		args = []string{"/bin/sh", "-c", spec.Shell}
	}
	program, err := exec.LookPath(args[0])
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, &core.Error{Code: core.CodeDenied, Field: "cmd", Message: "the program " + args[0] + " may not be executed"}
	case err != nil:
		return nil, core.Invalid("cmd", "there is no program %s", args[0])
	}
	cmd := &exec.Cmd{Path: program, Args: args, Dir: g.at(spec.Cwd)}
	if spec.Cwd == "" {
		cmd.Dir = g.at("/home")
	}
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + g.root}
	for _, env := range []map[string]string{g.spec.Env, spec.Env} {
		for k, v := range env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	return cmd, nil
}

var hangUps sync.Once

func (g *guest) Exec(_ context.Context, id core.ExecID, spec core.ExecSpec) (core.ExecStream, error) {
	cmd, err := g.command(spec)
	if err != nil {
		return nil, err
	}
	p := &process{}
	pumps, err := p.connect(cmd, spec)
	if err != nil {
		return nil, err
	}
	// Who runs the tests may have this signal ignored, as nohup does, and what we start would inherit that.
	hangUps.Do(func() { signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) })
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for _, f := range pumps {
		_ = f.child.Close()
	}
	p.pgid = cmd.Process.Pid
	p.exec = core.Exec{ID: id, Sandbox: g.spec.Sandbox, Spec: spec, PID: 1000 + len(g.order), StartedAt: time.Now(), Processes: 1}
	g.mu.Lock()
	g.execs[id] = p
	g.order = append(g.order, id)
	g.mu.Unlock()
	var timer *time.Timer
	if spec.Timeout > 0 {
		timer = time.AfterFunc(spec.Timeout, func() { g.end(p, core.OutcomeTimeout) })
	}
	first := p.exec
	go g.watch(cmd, p, pumps, timer)
	return &stream{g: g, p: p, started: &core.ExecMessage{Kind: core.ExecStarted, Exec: &first}}, nil
}

// pump carries one output of a process.
type pump struct {
	kind        core.ExecStreamKind
	ours, child *os.File
}

func (p *process) connect(cmd *exec.Cmd, spec core.ExecSpec) ([]pump, error) {
	if spec.TTY {
		master, slave, err := openPTY(spec.Rows, spec.Cols)
		if err != nil {
			return nil, err
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		p.stdin, p.pty = master, master
		return []pump{{core.ExecStdout, master, slave}}, nil
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = outW, errW
	if spec.Stdin {
		inR, inW, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		cmd.Stdin, p.stdin = inR, inW
	}
	return []pump{{core.ExecStdout, outR, outW}, {core.ExecStderr, errR, errW}}, nil
}

// openPTY makes a terminal.
func openPTY(rows, cols uint16) (master, slave *os.File, err error) {
	if master, slave, err = pty.Open(); err == nil {
		err = pty.Setsize(master, &pty.Winsize{Rows: rows, Cols: cols})
	}
	return master, slave, err
}

// watch carries a process's output until it has ended, and records the end.
func (g *guest) watch(cmd *exec.Cmd, p *process, pumps []pump, timer *time.Timer) {
	var wg sync.WaitGroup
	for _, f := range pumps {
		wg.Go(func() {
			buf := make([]byte, 4096)
			for {
				n, err := f.ours.Read(buf)
				if n > 0 {
					g.mu.Lock()
					p.frames = append(p.frames, core.ExecMessage{Kind: f.kind, Offset: p.exec.OutputBytes, Data: bytes.Clone(buf[:n])})
					p.exec.OutputBytes += int64(n)
					g.cond.Broadcast()
					g.mu.Unlock()
				}
				if err != nil {
					return
				}
			}
		})
	}
	err := cmd.Wait()
	wg.Wait()
	if timer != nil {
		timer.Stop()
	}
	for _, f := range pumps {
		_ = f.ours.Close()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	p.ended, p.exec.EndedAt, p.exec.Processes = true, time.Now(), 0
	switch {
	case p.asked != "":
		p.exec.Outcome = p.asked
	case status.Signaled():
		p.exec.Outcome, p.exec.Signal = core.OutcomeSignaled, unix.SignalName(status.Signal())
	case err == nil || status.Exited():
		code := status.ExitStatus()
		p.exec.Outcome, p.exec.ExitCode = core.OutcomeExited, &code
	}
	g.cond.Broadcast()
}

// end kills a process's group for a reason of ours.
func (g *guest) end(p *process, why core.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !p.ended {
		p.asked = why
		_ = unix.Kill(-p.pgid, unix.SIGKILL)
	}
}

func (g *guest) find(id core.ExecID) (*process, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.execs[id]; p != nil {
		return p, nil
	}
	return nil, core.Errorf(core.CodeNotFound, "no such exec")
}

func (g *guest) Attach(_ context.Context, id core.ExecID, from int64) (core.ExecStream, error) {
	p, err := g.find(id)
	if err != nil {
		return nil, err
	}
	return &stream{g: g, p: p, offset: from}, nil
}

func (g *guest) GetExec(_ context.Context, id core.ExecID) (core.Exec, error) {
	p, err := g.find(id)
	if err != nil {
		return core.Exec{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.exec, nil
}

func (g *guest) ListExecs(context.Context) ([]core.Exec, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []core.Exec
	for _, id := range g.order {
		list = append(list, g.execs[id].exec)
	}
	return list, nil
}

func (g *guest) Signal(_ context.Context, id core.ExecID, name string) error {
	p, err := g.find(id)
	if err != nil {
		return err
	}
	return unix.Kill(-p.pgid, unix.SignalNum(name))
}

func (g *guest) Cancel(_ context.Context, id core.ExecID) error {
	p, err := g.find(id)
	if err == nil {
		g.end(p, core.OutcomeCanceled)
	}
	return err
}

func (g *guest) Resize(_ context.Context, id core.ExecID, rows, cols uint16) error {
	p, err := g.find(id)
	if err != nil {
		return err
	}
	raw, err := p.pty.SyscallConn() // unlike Fd it is safe beside Close
	if err != nil {
		return core.Wrap(core.CodeConflict, err, "the terminal is closed")
	}
	var ioctl error
	err = raw.Control(func(fd uintptr) {
		ioctl = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	return errors.Join(err, ioctl)
}

func (g *guest) WriteStdin(_ context.Context, id core.ExecID, data []byte, end bool) error {
	p, err := g.find(id)
	if err != nil {
		return err
	}
	if _, err := p.stdin.Write(data); err != nil {
		return core.Wrap(core.CodeConflict, err, "the input is closed")
	}
	switch {
	case end && p.pty != nil:
		_, err = p.stdin.Write([]byte{4})
	case end:
		err = p.stdin.Close()
	}
	return err
}

func (g *guest) Acknowledge(context.Context, []core.ExecID) error { return nil }

func (g *guest) DialPort(context.Context, uint16) (net.Conn, error) {
	return nil, core.Errorf(core.CodeUnsupported, "a test has no ports")
}

// fileError turns an error of this machine into what a guest agent answers.
func fileError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &core.Error{Code: core.CodeNotFound, Field: "path", Message: "no such file or directory", Err: err}
	case errors.Is(err, fs.ErrExist):
		return &core.Error{Code: core.CodeExists, Field: "path", Message: "it is there already", Err: err}
	case errors.Is(err, unix.ENOSPC):
		return &core.Error{Code: core.CodeExhausted, Field: "path", Message: "the sandbox's disk is full", Err: err}
	}
	return err
}

func (g *guest) info(path string, i fs.FileInfo) core.FileInfo {
	f := core.FileInfo{Name: i.Name(), Path: path, Size: i.Size(), Mode: uint32(i.Mode().Perm()), MTime: i.ModTime(), Type: core.FileOther}
	switch {
	case i.Mode().IsRegular():
		f.Type = core.FileRegular
	case i.IsDir():
		f.Type = core.FileDirectory
	case i.Mode().Type() == fs.ModeSymlink:
		f.Type = core.FileSymlink
		f.Target, _ = os.Readlink(g.at(path))
	}
	return f
}

func (g *guest) Stat(_ context.Context, path string) (core.FileInfo, error) {
	i, err := os.Lstat(g.at(path))
	if err != nil {
		return core.FileInfo{}, fileError(err)
	}
	return g.info(path, i), nil
}

func (g *guest) ListFiles(_ context.Context, path, after string, limit int) ([]core.FileInfo, bool, error) {
	entries, err := os.ReadDir(g.at(path))
	if err != nil {
		return nil, false, fileError(err)
	}
	var list []core.FileInfo
	for _, e := range entries {
		i, err := e.Info()
		if err == nil && e.Name() > after && len(list) < limit {
			list = append(list, g.info(filepath.Join(path, e.Name()), i))
		}
	}
	return list, len(list) == limit, nil
}

func (g *guest) ReadFile(_ context.Context, path string, offset, length int64) (core.FileInfo, io.ReadCloser, error) {
	data, err := os.ReadFile(g.at(path))
	if err != nil {
		return core.FileInfo{}, nil, fileError(err)
	}
	i, err := os.Stat(g.at(path))
	if err != nil {
		return core.FileInfo{}, nil, fileError(err)
	}
	data = data[min(offset, int64(len(data))):]
	if length >= 0 {
		data = data[:min(length, int64(len(data)))]
	}
	return g.info(path, i), io.NopCloser(bytes.NewReader(data)), nil
}

func (g *guest) WriteFile(ctx context.Context, path string, o core.WriteOptions, r io.Reader) (core.FileInfo, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return core.FileInfo{}, err
	}
	if filepath.Base(path) == "on-a-full-disk" {
		return core.FileInfo{}, fileError(unix.ENOSPC)
	}
	if o.Parents {
		if err := os.MkdirAll(filepath.Dir(g.at(path)), 0o755); err != nil {
			return core.FileInfo{}, fileError(err)
		}
	}
	mode := fs.FileMode(o.Mode)
	if mode == 0 {
		mode = 0o644
	}
	if old, err := os.ReadFile(g.at(path)); err == nil && o.Append {
		data = append(old, data...)
	}
	if err := errors.Join(os.WriteFile(g.at(path), data, mode), os.Chmod(g.at(path), mode)); err != nil {
		return core.FileInfo{}, fileError(err)
	}
	return g.Stat(ctx, path)
}

func (g *guest) Pack(ctx context.Context, path string, o core.PackOptions) (core.Archive, error) {
	var b bytes.Buffer
	r, err := archive.Pack(ctx, &b, g.at(path), archive.PackOptions{Exclude: o.Exclude, Gzip: o.Gzip})
	if err != nil {
		return nil, fileError(err)
	}
	return packed{&b, r}, nil
}

type packed struct {
	io.Reader
	report core.ArchiveReport
}

func (packed) Close() error                 { return nil }
func (p packed) Report() core.ArchiveReport { return p.report }

func (g *guest) Unpack(ctx context.Context, path string, o core.UnpackOptions, r io.Reader) (core.ArchiveReport, error) {
	made := false
	if _, err := os.Stat(g.at(path)); err != nil && o.Parents {
		made = true
		if err := os.MkdirAll(g.at(path), 0o755); err != nil {
			return core.ArchiveReport{}, fileError(err)
		}
	}
	report, err := archive.Unpack(ctx, r, g.at(path), archive.UnpackOptions{UID: -1, GID: -1, Made: made, Gzip: o.Gzip})
	var known *core.Error
	if err == nil || errors.As(err, &known) {
		return report, err
	}
	return report, fileError(err)
}

func (g *guest) Mkdir(_ context.Context, path string, o core.WriteOptions) error {
	if o.Parents {
		return fileError(os.MkdirAll(g.at(path), 0o755))
	}
	return fileError(os.Mkdir(g.at(path), 0o755))
}

func (g *guest) Move(_ context.Context, from, to string) error {
	return fileError(os.Rename(g.at(from), g.at(to)))
}

func (g *guest) Remove(_ context.Context, path string, o core.RemoveOptions) error {
	if o.Recursive {
		return fileError(os.RemoveAll(g.at(path)))
	}
	return fileError(os.Remove(g.at(path)))
}

// stream follows one process.
type stream struct {
	g       *guest
	p       *process
	started *core.ExecMessage
	offset  int64
	next    int
	done    bool
	closed  bool
}

func (s *stream) Recv() (core.ExecMessage, error) {
	if m := s.started; m != nil {
		s.started = nil
		return *m, nil
	}
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	for {
		switch {
		case s.done:
			return core.ExecMessage{}, io.EOF
		case s.closed:
			return core.ExecMessage{}, core.Errorf(core.CodeCanceled, "closed")
		case s.next < len(s.p.frames):
			m := s.p.frames[s.next]
			s.next++
			end := m.Offset + int64(len(m.Data))
			if end <= s.offset {
				continue
			}
			if skip := s.offset - m.Offset; skip > 0 {
				m.Offset, m.Data = s.offset, m.Data[skip:]
			}
			s.offset = end
			return m, nil
		case s.p.ended:
			s.done = true
			e := s.p.exec
			return core.ExecMessage{Kind: core.ExecEnded, Exec: &e}, nil
		}
		s.g.cond.Wait()
	}
}

func (s *stream) SendStdin(data []byte) error {
	return s.g.WriteStdin(context.Background(), s.p.exec.ID, data, false)
}

func (s *stream) CloseStdin() error {
	return s.g.WriteStdin(context.Background(), s.p.exec.ID, nil, true)
}

func (s *stream) Signal(name string) error {
	return s.g.Signal(context.Background(), s.p.exec.ID, name)
}

func (s *stream) Resize(rows, cols uint16) error {
	return s.g.Resize(context.Background(), s.p.exec.ID, rows, cols)
}

func (s *stream) Close() error {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	s.closed = true
	s.g.cond.Broadcast()
	return nil
}
