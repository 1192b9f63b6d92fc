package guest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// The characters of ids and names, checked by hand: the agent starts with each sandbox, and a pattern takes its time to compile.
const (
	lower        = "abcdefghijklmnopqrstuvwxyz"
	alphanumeric = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	maxExecID    = 64
)

func isExecID(id string) bool {
	return id != "" && len(id) <= maxExecID && strings.Trim(id, lower+"0123456789-") == ""
}

// plan is all that is decided about an exec before it is forked.
type plan struct {
	id   string
	path string
	argv []string
	env  []string
	dir  string
	user account
}

// plan checks a request and settles user, environment, directory and program.
func (s *Server) plan(q wire.ExecRequest) (plan, error) {
	id := s.who()
	if id == nil {
		return plan{}, core.Errorf(core.CodeUnavailable, "the sandbox's guest agent has no identity yet")
	}
	if !isExecID(q.ID) {
		return plan{}, core.Invalid("id", "an exec id has 1 to 64 characters of a-z, 0-9 and dash")
	}
	if (len(q.Cmd) > 0) == (q.Shell != "") {
		return plan{}, core.Invalid("cmd", "give either cmd or shell")
	}
	if q.TimeoutMS < 0 {
		return plan{}, core.Invalid("timeout_seconds", "a timeout is not negative")
	}
	name := q.User
	if name == "" {
		name = id.User
	}
	acc, err := s.accounts.lookup(name)
	if err != nil {
		return plan{}, err
	}
	env, err := environment(id, acc, q)
	if err != nil {
		return plan{}, err
	}
	p := plan{id: q.ID, user: acc}
	if q.Cwd == "" {
		p.dir = defaultDir(id.Workdir, q.User == "", acc)
	} else if p.dir, err = checkDir(string(q.Cwd), id.Workdir, acc); err != nil {
		return plan{}, err
	}
	if q.Shell != "" {
		p.argv = []string{"/bin/sh", "-c", string(q.Shell)}
	} else {
		for _, arg := range q.Cmd {
			p.argv = append(p.argv, string(arg))
		}
	}
	for _, arg := range p.argv {
		if strings.ContainsRune(arg, 0) {
			return plan{}, core.Invalid("cmd", "an argument has a zero byte")
		}
	}
	if p.path, err = findProgram(p.argv[0], p.dir, env["PATH"], acc); err != nil {
		if q.Shell != "" && core.IsCode(err, core.CodeInvalid) {
			// An image may have one program and nothing else.
			err = core.Invalid("cmd", "the sandbox's image has no /bin/sh, so there is no shell in it: run a program of the image by its path")
		}
		return plan{}, err
	}
	for k, v := range maps.All(env) {
		p.env = append(p.env, k+"="+v)
	}
	return p, nil
}

// start starts a process. The exec is in the table when it returns.
func (s *Server) start(q wire.ExecRequest) (*execution, error) {
	p, err := s.plan(q)
	if err != nil {
		return nil, err
	}
	e := &execution{srv: s, id: q.ID, tty: q.TTY}
	e.done, e.gone, e.poke = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	e.ring = newRing(s.cfg.RingBytes, s.cfg.HoldBack, s.budget, s.evict, q.Detach)
	if err := s.admit(e); err != nil {
		return nil, err
	}
	exited, err := s.spawn(e, p, q)
	if err != nil {
		s.forget(e)
		return nil, err
	}
	if q.TimeoutMS > 0 {
		e.mu.Lock()
		e.timer = time.AfterFunc(time.Duration(q.TimeoutMS)*time.Millisecond, func() { e.kill(core.OutcomeTimeout) })
		e.mu.Unlock()
	}
	s.publish(e)
	s.work.Go(func() { e.watch(exited) })
	return e, nil
}

// spawn makes pipes and group and forks. On error nothing is left.
func (s *Server) spawn(e *execution, p plan, q wire.ExecRequest) (exited <-chan syscall.WaitStatus, err error) {
	io, err := s.openStdio(q, p.user)
	if err != nil {
		return nil, err
	}
	defer io.closeChild()
	defer func() {
		if err != nil {
			io.closeParent()
			e.abandon()
		}
	}()
	if err := io.wire(e, s.buffers); err != nil {
		return nil, core.Wrap(core.CodeInternal, err, "the process's output can't be read")
	}
	g, err := s.groups.make(p.id)
	if err != nil {
		return nil, startError(p, err)
	}
	attr := &syscall.ProcAttr{
		Dir: p.dir, Env: append(p.env, g.env()...), Files: io.child(),
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: q.TTY, Ctty: 0, Credential: p.user.credential()},
	}
	g.prepare(attr.Sys)
	e.group = g
	e.started = time.Now().UTC()
	pid, exited, err := s.reaper.start(func() (int, error) { return syscall.ForkExec(p.path, p.argv, attr) })
	if err != nil {
		e.group = nil
		g.release()
		return nil, startError(p, err)
	}
	e.pid = pid
	g.lead(pid)
	return exited, nil
}

// startError says in the caller's words why a process could not be started.
func startError(p plan, err error) error {
	public := func(code core.Code, field, format string, args ...any) error {
		return &core.Error{Code: code, Field: field, Message: fmt.Sprintf(format, args...), Err: err}
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		// The file is there, so it is the interpreter that its first line names.
		return public(core.CodeInvalid, "cmd", "no such program: the interpreter of %q is missing", p.path)
	case errors.Is(err, syscall.EACCES):
		return public(core.CodeDenied, "cmd", "not executable: %q", p.path)
	case errors.Is(err, syscall.ENOEXEC):
		return public(core.CodeDenied, "cmd", "not executable: %q has an unknown format", p.path)
	case errors.Is(err, syscall.EPERM):
		return public(core.CodeDenied, "user", "the process may not run as user %d", p.user.uid)
	case errors.Is(err, syscall.E2BIG):
		return public(core.CodeInvalid, "cmd", "the arguments and the environment are too large")
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return public(core.CodeExhausted, "", "the sandbox has no room for another process")
	}
	return public(core.CodeInternal, "", "the process can't be started")
}
