package guest

import (
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

const (
	maxList = 1000
	// cancelWait is how long a cancel waits for the group: thousands of processes take seconds to go.
	cancelWait = time.Minute
)

// get tells what is known of an exec.
func (c *session) get(q wire.ExecRef) (wire.ExecInfo, error) {
	e, err := c.srv.find(q.ID)
	if err != nil {
		return wire.ExecInfo{}, err
	}
	return e.info(), nil
}

// list returns a page of execs in the order in which they started.
func (c *session) list(q wire.ListRequest) (wire.ListReply, error) {
	if q.Limit <= 0 || q.Limit > maxList {
		return wire.ListReply{}, core.Invalid("limit", "a limit is 1 to %d", maxList)
	}
	s := c.srv
	s.mu.Lock()
	begin := 0
	if q.After != "" {
		for i, e := range s.order {
			if e.id == q.After {
				begin = i + 1
				break
			}
		}
	}
	page := s.order[begin:]
	more := len(page) > q.Limit
	page = append([]*execution(nil), page[:min(len(page), q.Limit)]...)
	s.mu.Unlock()
	reply := wire.ListReply{Execs: make([]wire.ExecInfo, 0, len(page)), More: more}
	for _, e := range page {
		reply.Execs = append(reply.Execs, e.info())
	}
	return reply, nil
}

// signal sends a signal to an exec's group.
func (c *session) signal(q wire.SignalRequest) (wire.Empty, error) {
	sig, err := parseSignal(q.Signal)
	if err != nil {
		return wire.Empty{}, err
	}
	e, err := c.srv.find(q.ID)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, e.send(sig)
}

// parseSignal reads a name such as SIGTERM, or SIGRTMIN+3.
func parseSignal(name string) (syscall.Signal, error) {
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	if rest, ok := strings.CutPrefix(name, "SIGRTMIN+"); ok {
		if n, err := strconv.Atoi(rest); err == nil && n >= 0 && n <= 30 {
			return syscall.Signal(34 + n), nil
		}
	}
	return 0, core.Invalid("signal", "no such signal: %q", name)
}

// cancelExec kills an exec's group and waits until all of it is gone.
func (c *session) cancelExec(q wire.ExecRef) (wire.Empty, error) {
	e, err := c.srv.find(q.ID)
	if err != nil {
		return wire.Empty{}, err
	}
	e.kill(core.OutcomeCanceled)
	t := time.NewTimer(cancelWait)
	defer t.Stop()
	select {
	case <-e.gone:
	case <-t.C:
		return wire.Empty{}, core.Errorf(core.CodeTimeout, "the exec was killed but has not ended yet")
	case <-c.ctx.Done():
		return wire.Empty{}, broken(c.ctx.Err())
	}
	return wire.Empty{}, nil
}

// resize changes the size of an exec's terminal.
func (c *session) resize(q wire.ResizeRequest) (wire.Empty, error) {
	if q.Rows == 0 || q.Cols == 0 {
		return wire.Empty{}, core.Invalid("rows", "a terminal has at least one row and one column")
	}
	e, err := c.srv.find(q.ID)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, e.resize(q.Rows, q.Cols)
}

// stdin appends to an exec's input. All data frames are read before an error is told, so that the connection stays
// usable.
func (c *session) stdin(q wire.StdinRequest) error {
	e, fault := c.srv.find(q.ID)
	for {
		b, end, err := c.data()
		if err != nil {
			return err
		}
		if end {
			break
		}
		if fault == nil {
			fault = e.stdin.write(c.ctx, b, false)
		}
	}
	if fault == nil && q.End {
		fault = e.stdin.write(c.ctx, nil, true)
	}
	if fault != nil {
		return fault
	}
	return c.reply(wire.Empty{})
}

// acknowledge lets records go when room is needed. Unknown ids are those that have gone already.
func (c *session) acknowledge(q wire.AckRequest) (wire.Empty, error) {
	for _, id := range q.IDs {
		if e, err := c.srv.find(id); err == nil && e.isDone() {
			e.mu.Lock()
			e.acked = true
			e.mu.Unlock()
		}
	}
	return wire.Empty{}, nil
}
