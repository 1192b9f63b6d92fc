package control

import (
	"context"
	"io"
	"log/slog"
	"net"

	"shoal/internal/core"
	"shoal/internal/store"
)

// idle carries out rules on sandboxes that nobody has used for as long as these allow.
type idle struct {
	*deps
	lifecycle *lifecycle
}

// loop decides on each sandbox when its time has come.
func (x *idle) loop(ctx context.Context) {
	for {
		due, wait := x.activity.look(ctx)
		for _, id := range due {
			x.tasks.run(func(ctx context.Context) { x.decide(ctx, id) })
		}
		select {
		case <-ctx.Done():
			return
		case <-x.activity.moved:
		case <-x.clock.After(wait):
		}
	}
}

// decide carries out a sandbox's rule unless it turns out to be in use.
func (x *idle) decide(ctx context.Context, id core.SandboxID) {
	if x.prints(ctx, id) {
		x.activity.spare(id)
		return
	}
	rule, ok := x.activity.condemn(id)
	if !ok {
		x.activity.spare(id)
		return
	}
	err := x.lifecycle.act(ctx, rule, func(r store.Reader) (core.Sandbox, error) {
		sb, err := r.SandboxByID(id)
		if err != nil {
			return sb, err
		}
		if still, ok := core.NextIdleRule(sb); !ok || !still.Same(rule.LifecycleRule) {
			return sb, errRuleChanged
		}
		return sb, nil
	})
	if err == nil && rule.Action == core.ActionDelete {
		return // its removal forgets it
	}
	failed := x.activity.pardon(id, rule, !done(err))
	if done(err) {
		x.activity.reload(ctx, id)
	} else if ctx.Err() == nil {
		x.log.Error("a rule on an idle sandbox could not be carried out: will be tried again",
			slog.String("sandbox_id", string(id)), slog.String("action", string(rule.Action)), slog.Any("err", err))
		pause(ctx, x.clock, retryAfter(failed))
	}
	x.activity.spare(id)
}

// prints asks a sandbox that runs something whether that has printed anything since the last time. A guest agent that doesn't
// answer has not.
func (x *idle) prints(ctx context.Context, id core.SandboxID) bool {
	var open []core.Exec
	err := x.store.View(ctx, func(r store.Reader) (err error) {
		open, err = r.OpenExecs(id)
		return err
	})
	if err != nil || len(open) == 0 {
		return false
	}
	g, err := x.node.Guest(id)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	lives, err := g.ListExecs(ctx)
	return err == nil && x.activity.printed(id, lives)
}

// Touch counts as a use of a sandbox, as every call on its execs and files does. Looking at its record, its events or its
// metrics does not: whoever wants that to keep a sandbox, as some dialects do, touches it.
func (s *Service) Touch(ctx context.Context, p Principal, ref string) error {
	if err := p.may("Touch"); err != nil {
		return err
	}
	_, err := s.used(ctx, p, ref)
	return err
}

// heldStream keeps a sandbox in use until it is closed.
type heldStream struct {
	core.ExecStream
	release func()
}

// Close stops following and ends the use.
func (h heldStream) Close() error {
	defer h.release()
	return h.ExecStream.Close()
}

// heldGuest keeps its sandbox in use while a file is read or written, or a connection is open.
type heldGuest struct {
	core.Guest
	activity *activity
	id       core.SandboxID
}

// ReadFile keeps the sandbox in use until the content is closed.
func (h heldGuest) ReadFile(ctx context.Context, path string, offset, length int64) (core.FileInfo, io.ReadCloser, error) {
	return heldReader{h.Guest, h.activity, h.id}.ReadFile(ctx, path, offset, length)
}

// WriteFile keeps the sandbox in use until the file is written.
func (h heldGuest) WriteFile(ctx context.Context, path string, opts core.WriteOptions, r io.Reader) (core.FileInfo, error) {
	release, err := h.activity.hold(ctx, h.id, core.UseFileWrite)
	if err != nil {
		return core.FileInfo{}, err
	}
	defer release()
	return h.Guest.WriteFile(ctx, path, opts, r)
}

// WritePart keeps the sandbox in use until the part is written.
func (h heldGuest) WritePart(ctx context.Context, path string, opts core.PartOptions, r io.Reader) (core.PartialFile, error) {
	release, err := h.activity.hold(ctx, h.id, core.UseFileWrite)
	if err != nil {
		return core.PartialFile{}, err
	}
	defer release()
	return h.Guest.WritePart(ctx, path, opts, r)
}

// Checksum keeps the sandbox in use while a file is read.
func (h heldGuest) Checksum(ctx context.Context, path string, algorithm core.ChecksumAlgorithm) (core.Checksum, error) {
	return heldReader{h.Guest, h.activity, h.id}.Checksum(ctx, path, algorithm)
}

// Change keeps the sandbox in use while a tree is changed.
func (h heldGuest) Change(ctx context.Context, path string, change core.FileChange) (core.FileInfo, error) {
	release, err := h.activity.hold(ctx, h.id, core.UseFileWrite)
	if err != nil {
		return core.FileInfo{}, err
	}
	defer release()
	return h.Guest.Change(ctx, path, change)
}

// Watch keeps the sandbox in use until the watch is closed.
func (h heldGuest) Watch(ctx context.Context, path string, opts core.WatchOptions) (core.FileWatch, error) {
	release, err := h.activity.hold(ctx, h.id, core.UseFileWatch)
	if err != nil {
		return nil, err
	}
	w, err := h.Guest.Watch(ctx, path, opts)
	if err != nil {
		release()
		return nil, err
	}
	return heldWatch{w, release}, nil
}

type heldWatch struct {
	core.FileWatch
	release func()
}

// Close ends the use.
func (h heldWatch) Close() error {
	defer h.release()
	return h.FileWatch.Close()
}

// DialPort keeps the sandbox in use until the connection is closed.
func (h heldGuest) DialPort(ctx context.Context, port uint16) (net.Conn, error) {
	release, err := h.activity.hold(ctx, h.id, core.UseConnection)
	if err != nil {
		return nil, err
	}
	conn, err := h.Guest.DialPort(ctx, port)
	if err != nil {
		release()
		return nil, err
	}
	return heldConn{conn, release}, nil
}

// heldReader keeps its sandbox in use while a file is read.
type heldReader struct {
	core.FileReader
	activity *activity
	id       core.SandboxID
}

// ReadFile keeps the sandbox in use until the content is closed.
func (h heldReader) ReadFile(ctx context.Context, path string, offset, length int64) (core.FileInfo, io.ReadCloser, error) {
	release, err := h.activity.hold(ctx, h.id, core.UseFileRead)
	if err != nil {
		return core.FileInfo{}, nil, err
	}
	info, body, err := h.FileReader.ReadFile(ctx, path, offset, length)
	if err != nil {
		release()
		return info, nil, err
	}
	return info, heldBody{body, release}, nil
}

// Checksum keeps the sandbox in use while a file is read.
func (h heldReader) Checksum(ctx context.Context, path string, algorithm core.ChecksumAlgorithm) (core.Checksum, error) {
	release, err := h.activity.hold(ctx, h.id, core.UseFileRead)
	if err != nil {
		return core.Checksum{}, err
	}
	defer release()
	return h.FileReader.Checksum(ctx, path, algorithm)
}

type heldBody struct {
	io.ReadCloser
	release func()
}

// Close ends the use.
func (h heldBody) Close() error {
	defer h.release()
	return h.ReadCloser.Close()
}

type heldConn struct {
	net.Conn
	release func()
}

// CloseWrite tells the other side that no more comes.
func (h heldConn) CloseWrite() error {
	if c, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return core.Errorf(core.CodeUnsupported, "this connection can't be closed on one side only")
}

// Close ends the use.
func (h heldConn) Close() error {
	defer h.release()
	return h.Conn.Close()
}
