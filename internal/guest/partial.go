package guest

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"os"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// maxPartials is how many files may come in parts at a time, and of how many that have come the end is known.
const maxPartials = 64

// partials are the files that come in parts. They are in memory: when the agent ends, so does the sandbox.
type partials struct {
	age time.Duration

	// mu guards what follows and what partial says of itself.
	mu     sync.Mutex
	by     map[string]*partial
	closed bool
}

// partial is a file that comes in parts, or has come.
type partial struct {
	// q is what all parts say alike; its path is absolute.
	q wire.WriteRequest
	// w and sum belong to who has set busy.
	w   *write
	sum hash.Hash

	// busy says that a part is being written. It and what follows is guarded by the table's mutex.
	busy    bool
	size    int64
	expires time.Time
	timer   *time.Timer
	// file is how it was when it had come whole, digest its sum then.
	file   *wire.FileInfo
	digest []byte
}

// writePart adds a part to a file that comes in parts. What has come is kept if it breaks off.
func writePart(c *session, q wire.PartRequest) error {
	name, acc, err := c.target(q.Write)
	if err != nil {
		return err
	}
	q.Write.Path = wire.Bytes(name)
	t := c.srv.partials
	p, err := t.take(q)
	if err != nil {
		return err
	}
	keep := true
	defer func() { t.release(q.Partial, p, keep) }()
	if p.w == nil && p.file == nil {
		if p.w, err = openPartial(name, q.Write, acc); err != nil {
			keep = false
			return fileError(err, "path", name)
		}
	}
	keep = p.size > 0 || p.file != nil // else it was begun for nothing
	if err := c.reply(wire.Empty{}); err != nil {
		return err
	}
	keep = true
	if done, err := t.receive(c, p); done || err != nil {
		keep = p.size > 0 || p.file != nil // as above
		return err
	}
	if !q.More || p.file != nil {
		if err := t.finish(p, q.SHA256); err != nil {
			keep = p.file != nil
			return err
		}
	}
	t.mu.Lock()
	reply := p.reply(time.Now().Add(t.age))
	t.mu.Unlock()
	return c.reply(reply)
}

// take finds the file that a part is of, or makes its record, and keeps others away until release.
func (t *partials) take(q wire.PartRequest) (*partial, error) {
	switch {
	case q.Partial == "" || len(q.Partial) > core.MaxPartialName:
		return nil, core.Invalid("partial", "the name of a partial file has 1 to %d bytes", core.MaxPartialName)
	case q.Offset < 0:
		return nil, core.Invalid("offset", "an offset is not negative")
	case q.Write.Append:
		return nil, core.Invalid("append", "a file that comes in parts replaces what is there: add to the end with one call")
	case len(q.SHA256) != 0 && len(q.SHA256) != sha256.Size:
		return nil, core.Invalid("Repr-Digest", "a SHA-256 has %d bytes", sha256.Size)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.by[q.Partial]
	switch {
	case t.closed:
		return nil, core.Errorf(core.CodeUnavailable, "the sandbox is ending")
	case p == nil && q.Offset > 0:
		return nil, conflict("offset", "nothing has come of this partial file, or it was thrown away: begin at 0")
	case p == nil:
		if err := t.room(); err != nil {
			return nil, err
		}
		p = &partial{q: q.Write, sum: sha256.New()}
		p.timer = time.AfterFunc(t.age, func() { t.expire(q.Partial, p) })
		t.by[q.Partial] = p
	case p.busy:
		return nil, conflict("partial", "another call is writing to this partial file")
	case p.q != q.Write:
		return nil, conflict("partial", "this partial file was begun with another path, mode, user or parents: take another name")
	case p.size != q.Offset:
		return nil, conflict("offset", "%d bytes have come: go on there", p.size)
	}
	p.busy = true
	return p, nil
}

func conflict(field, format string, args ...any) error {
	e := core.Errorf(core.CodeConflict, format, args...)
	e.Field = field
	return e
}

// room makes room for one more; t.mu is held. How a file ended that has come is forgotten, the oldest first.
func (t *partials) room() error {
	coming, oldest, ended := 0, "", 0
	for name, p := range t.by {
		if p.file == nil {
			coming++
			continue
		}
		if ended++; !p.busy && (oldest == "" || p.expires.Before(t.by[oldest].expires)) {
			oldest = name
		}
	}
	if coming >= maxPartials {
		return core.Errorf(core.CodeExhausted, "%d files are coming in parts: finish or delete one", coming)
	}
	if ended >= maxPartials && oldest != "" {
		t.by[oldest].timer.Stop()
		delete(t.by, oldest)
	}
	return nil
}

// openPartial makes the file beside its place.
func openPartial(name string, q wire.WriteRequest, acc account) (*write, error) {
	w, err := openWrite(name, q, acc)
	if err == nil && w.temp == "" {
		w.abort()
		return nil, core.Errorf(core.CodeUnsupported, "only a regular file can come in parts: %s", quote(name))
	}
	return w, err
}

// receive writes what comes. done says that the peer was told of an error already.
func (t *partials) receive(c *session, p *partial) (done bool, err error) {
	for {
		b, end, err := c.data()
		if end || err != nil {
			return false, err
		}
		if err := t.write(p, b); err != nil {
			// The error goes out now, and the rest of the data is thrown away so that the connection can be kept.
			if err := c.send(wire.FrameError, wire.FaultOf(fileError(err, "path", string(p.q.Path)))); err != nil {
				return true, broken(err)
			}
			return true, c.discard()
		}
	}
}

// write adds bytes to a file.
func (t *partials) write(p *partial, b []byte) error {
	if p.file != nil {
		return conflict("offset", "this file has come whole")
	}
	n, err := p.w.f.WriteAt(b, p.size)
	_, _ = p.sum.Write(b[:n]) // a hash takes everything
	t.mu.Lock()
	defer t.mu.Unlock()
	p.size += int64(n)
	return err
}

// finish puts the file in its place. One that has come already stays as it is.
func (t *partials) finish(p *partial, want []byte) error {
	digest := p.sum.Sum(nil)
	if p.file != nil && len(want) > 0 && !bytes.Equal(digest, want) {
		return conflict("Repr-Digest", "this file has come whole and is in its place, with another digest")
	}
	if len(want) > 0 && !bytes.Equal(digest, want) {
		return core.Invalid("Repr-Digest", "the content is not what its digest says: what has come of it was thrown away and the file is as it was")
	}
	if p.file != nil {
		return nil
	}
	name := string(p.q.Path)
	err := p.w.untouched(p.size)
	if err != nil {
		return err
	}
	err = p.w.commit()
	var st os.FileInfo
	if err == nil {
		st, err = os.Lstat(name)
	}
	if err != nil {
		return fileError(err, "path", name)
	}
	info := fileInfo(name, st, &names{})
	t.mu.Lock()
	defer t.mu.Unlock()
	p.file, p.digest = &info, digest
	return nil
}

// reply tells how far it has come; the table's mutex is held.
func (p *partial) reply(expires time.Time) wire.PartialReply {
	return wire.PartialReply{Path: p.q.Path, Size: p.size, SHA256: p.digest, ExpiresAt: expires.UTC(), File: p.file}
}

// release lets others at the file again, or throws it away.
func (t *partials) release(name string, p *partial, keep bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.busy = false
	if !keep || t.closed {
		t.drop(name, p)
		return
	}
	p.expires = time.Now().Add(t.age)
	p.timer.Reset(t.age)
}

// expire throws away what has waited for too long.
func (t *partials) expire(name string, p *partial) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by[name] == p && !p.busy && !time.Now().Before(p.expires) {
		t.drop(name, p)
	}
}

// drop forgets a file and throws away what has come of it; t.mu is held.
func (t *partials) drop(name string, p *partial) {
	p.timer.Stop()
	delete(t.by, name)
	if p.w != nil && !p.w.done {
		_ = p.w.f.Truncate(0) // so that it takes no room, wherever somebody may have moved it
		p.w.abort()
	}
}

// close throws away all that has come, but for what a call that goes on has still to release.
func (t *partials) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for name, p := range t.by {
		if !p.busy {
			t.drop(name, p)
		}
	}
}

// partialOf tells how far a file has come.
func partialOf(c *session, q wire.PartialRequest) (wire.PartialReply, error) {
	t := c.srv.partials
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.by[q.Partial]
	if p == nil {
		return wire.PartialReply{}, unknownPartial()
	}
	expires := p.expires
	if p.busy {
		expires = time.Now().Add(t.age)
	}
	return p.reply(expires), nil
}

// dropPartial throws away what has come of a file.
func dropPartial(c *session, q wire.PartialRequest) (wire.Empty, error) {
	t := c.srv.partials
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.by[q.Partial]
	switch {
	case p == nil:
		return wire.Empty{}, unknownPartial()
	case p.busy:
		return wire.Empty{}, conflict("partial", "a call is writing to this partial file")
	}
	t.drop(q.Partial, p)
	return wire.Empty{}, nil
}

func unknownPartial() error {
	return &core.Error{Code: core.CodeNotFound, Field: "partial", Message: "there is no such partial file, or it was thrown away"}
}
