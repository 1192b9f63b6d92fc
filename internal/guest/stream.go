package guest

import (
	"shoal/internal/guest/wire"
)

// exec starts a process and follows it from its first byte.
func (c *session) exec(q wire.ExecRequest) error {
	e, err := c.srv.start(q)
	if err != nil {
		return err
	}
	return c.follow(e, 0)
}

// attach follows an exec from an offset.
func (c *session) attach(q wire.AttachRequest) error {
	e, err := c.srv.find(q.ID)
	if err != nil {
		return err
	}
	return c.follow(e, q.From)
}

// follow sends an exec's output until its end, or until the peer goes away.
func (c *session) follow(e *execution, from int64) error {
	f, err := e.ring.follow(from)
	if err != nil {
		return err
	}
	defer f.close()
	if err := c.send(wire.FrameStarted, e.info()); err != nil {
		return broken(err)
	}
	// limit is the end of the output at the exec's end: what its group prints later is not waited for.
	limit := int64(-1)
	for {
		if limit < 0 && e.isDone() {
			_, limit = e.ring.bounds()
		}
		caught, wait, err := c.forward(f, limit)
		if err != nil {
			return broken(err)
		}
		if !caught {
			continue
		}
		if limit >= 0 {
			return broken(c.send(wire.FrameEnded, e.info()))
		}
		select {
		case <-wait:
		case <-e.done:
		case <-c.ctx.Done():
			return broken(c.ctx.Err())
		}
	}
}

// forward sends what comes next. caught says that there was nothing; wait then tells when to look again.
func (c *session) forward(f *follower, limit int64) (caught bool, wait <-chan struct{}, err error) {
	buf := c.srv.buffers.Get().(*[]byte)
	defer c.srv.buffers.Put(buf)
	n := f.next(*buf, limit)
	switch {
	case n.caught:
		return true, n.wait, nil
	case n.missing > 0:
		if err := c.w.Write(wire.FrameGap, wire.GapPayload(n.from, n.missing)); err != nil {
			return false, nil, err
		}
		f.advance(n.from + n.missing)
	default:
		if err := c.w.Write(n.kind, wire.OutputHeader(n.from), n.data); err != nil {
			return false, nil, err
		}
		f.advance(n.from + int64(len(n.data)))
	}
	return false, nil, nil
}
