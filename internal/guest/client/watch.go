package client

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// Watch follows what happens to files; see core.Guest. An agent of before version 3 answers unsupported.
func (f fileCalls) Watch(ctx context.Context, path string, opts core.WatchOptions) (core.FileWatch, error) {
	request, err := frames(wire.OpWatch, wire.WatchRequest{Path: wire.Bytes(path), Recursive: opts.Recursive})
	if err != nil {
		return nil, err
	}
	k, _, release, err := f.c.begin(ctx, request, true)
	if err != nil {
		return nil, err
	}
	base := strings.TrimRight(path, "/")
	return &watch{c: f.c, ctx: ctx, k: k, release: release, base: base}, nil
}

// watch reads an agent's changes. It is for one goroutine, but Close may come from another.
type watch struct {
	c       *Client
	ctx     context.Context
	k       *conn
	release func()
	// base is the path without a slash at its end; of the root nothing is left.
	base string
	rest []wire.FileEvent
	// gone says that the last event has come.
	gone bool
	err  error
	once sync.Once
}

// Recv returns what happened next.
func (w *watch) Recv() (core.FileEvent, error) {
	for len(w.rest) == 0 {
		if w.err != nil {
			return core.FileEvent{}, w.err
		}
		w.rest, w.err = w.more()
	}
	e, err := w.event(w.rest[0])
	w.rest = w.rest[1:]
	if err != nil {
		w.rest, w.err = nil, w.fail(err)
		return core.FileEvent{}, w.err
	}
	return e, nil
}

// more reads the next frame.
func (w *watch) more() ([]wire.FileEvent, error) {
	f, err := w.c.next(w.ctx, w.k)
	if err != nil {
		return nil, w.fail(err)
	}
	switch f.Type {
	case wire.FrameChanges:
		var list wire.FileEvents
		if err := wire.DecodeReply(f.Payload, &list); err != nil {
			return nil, w.fail(err)
		}
		if len(list.Events) == 0 || w.gone {
			return nil, w.fail(fmt.Errorf("%w: changes of nothing", wire.ErrMalformed))
		}
		return list.Events, nil
	case wire.FrameEnd:
		if w.gone {
			w.finish(true)
			return nil, io.EOF
		}
	case wire.FrameError:
		fault, err := parseFault(f.Payload)
		if err == nil {
			w.finish(true)
			return nil, fault
		}
	case wire.FrameRequest, wire.FrameReply, wire.FrameData, wire.FrameStarted, wire.FrameStdout, wire.FrameStderr, wire.FrameGap,
		wire.FrameEnded, wire.FrameHeartbeat:
	}
	return nil, w.fail(fmt.Errorf("%w: type %d among changes", wire.ErrMalformed, f.Type))
}

// event checks what a guest says that happened.
func (w *watch) event(e wire.FileEvent) (core.FileEvent, error) {
	out := core.FileEvent{Kind: core.FileEventKind(e.Kind), Path: string(e.Path), To: string(e.To), Dir: e.Dir}
	bad := w.gone || !w.below(out.Path) || out.To != "" && (out.Kind != core.FileRenamed || !w.below(out.To))
	switch out.Kind {
	case core.FileCreated, core.FileWritten, core.FileRemoved, core.FileRenamed, core.FileChanged, core.FileOverflow:
	case core.FileGone:
		w.gone = true
	default:
		bad = true
	}
	if bad {
		return core.FileEvent{}, fmt.Errorf("%w: an impossible change", wire.ErrMalformed)
	}
	return out, nil
}

// below reports whether a path is the one that is watched, or below it.
func (w *watch) below(path string) bool {
	rest, ok := strings.CutPrefix(path, w.base)
	return ok && len(path) <= maxResolved && strings.HasPrefix(path, "/") && !strings.ContainsRune(path, 0) && (rest == "" || rest[0] == '/')
}

func (w *watch) fail(err error) error {
	w.finish(false)
	return w.c.broken(w.ctx, err)
}

func (w *watch) finish(clean bool) {
	w.once.Do(func() {
		w.release()
		if clean {
			w.c.give(w.k)
		} else {
			w.k.close()
		}
	})
}

// Close stops watching.
func (w *watch) Close() error {
	w.finish(false)
	return nil
}
