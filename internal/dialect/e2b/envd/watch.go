package envd

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"

	"connectrpc.com/connect"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd/filesystempb"
	"shoal/internal/httpserve"
)

// The protocol has no word for events that were lost: who watches must not take their silence for none.
var (
	errMissed = core.Errorf(core.CodeDataLoss,
		"so much has happened that not all of it can be told: list the directory again, and watch it anew")
	errDirGone = core.Errorf(core.CodeNotFound, "the directory is not at its path any more, so there is nothing left to watch")
)

// watchedDir is a directory that is watched for a client.
type watchedDir struct {
	files
	base string
	// entries says that files are described with what happens to them.
	entries bool
}

// watchRequest is what both kinds of watch are asked with. Nothing here is a network mount, so that both answers to that are obeyed.
type watchRequest interface {
	GetPath() string
	GetRecursive() bool
	GetIncludeEntry() bool
}

// watched returns the directory that a request means.
func (s *filesystem) watched(ctx context.Context, f files, q watchRequest) (watchedDir, error) {
	place, err := f.place(ctx, "path", q.GetPath())
	if err != nil {
		return watchedDir{}, err
	}
	return watchedDir{files: f, base: place.Path, entries: q.GetIncludeEntry()}, nil
}

// WatchDir tells what happens in a directory until the client leaves or the directory goes.
func (s *filesystem) WatchDir(ctx context.Context, r *connect.Request[filesystempb.WatchDirRequest], out *connect.ServerStream[filesystempb.WatchDirResponse]) error {
	return s.rpcError(ctx, s.watchDir(ctx, r, out.Send))
}

func (s *filesystem) watchDir(ctx context.Context, r *connect.Request[filesystempb.WatchDirRequest], send func(*filesystempb.WatchDirResponse) error) error {
	beat, err := keepAlive(r.Header())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)() //nolint:contextcheck // Two contexts end this call.
	f, err := s.callFiles(ctx, r.Header())
	if err != nil {
		return err
	}
	dir, err := s.watched(ctx, f, r.Msg)
	if err != nil {
		return err
	}
	watch, err := f.guest.Watch(ctx, dir.base, core.WatchOptions{Recursive: r.Msg.GetRecursive()})
	if err != nil {
		return err
	}
	if err := send(&filesystempb.WatchDirResponse{Event: &filesystempb.WatchDirResponse_Start{Start: &filesystempb.WatchDirResponse_StartEvent{}}}); err != nil {
		_ = watch.Close()
		return err
	}
	alive := &filesystempb.WatchDirResponse{Event: &filesystempb.WatchDirResponse_Keepalive{Keepalive: &filesystempb.WatchDirResponse_KeepAlive{}}}
	err = httpserve.FollowFiles(ctx, watch, beat, func(list []core.FileEvent) error {
		events, err := dir.events(ctx, list)
		for _, e := range events {
			if err := send(&filesystempb.WatchDirResponse{Event: &filesystempb.WatchDirResponse_Filesystem{Filesystem: e}}); err != nil {
				return err
			}
		}
		return err
	}, func() error { return send(alive) })
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return core.Wrap(core.CodeTimeout, err, "the call's deadline has passed")
	case errors.Is(err, context.Canceled):
		return core.Wrap(core.CodeCanceled, err, "the call was canceled")
	}
	return err
}

// events turns what has happened into the clients' form. The error is what can't be said in it, and comes with what was before.
func (d *watchedDir) events(ctx context.Context, list []core.FileEvent) ([]*filesystempb.FilesystemEvent, error) {
	out := make([]*filesystempb.FilesystemEvent, 0, len(list))
	add := func(kind filesystempb.EventType, path string) error {
		e := &filesystempb.FilesystemEvent{Name: d.name(path), Type: kind}
		if d.entries && kind != filesystempb.EventType_EVENT_TYPE_REMOVE && kind != filesystempb.EventType_EVENT_TYPE_RENAME {
			info, err := d.stat(ctx, path)
			if err == nil {
				e.Entry = entryOf(info)
			} else if !core.IsCode(err, core.CodeNotFound) && !core.IsCode(err, core.CodeInvalid) {
				return err // it is no sign that the file has gone or was replaced
			}
		}
		out = append(out, e)
		return nil
	}
	for _, e := range list {
		var err error
		switch e.Kind {
		case core.FileCreated:
			err = add(filesystempb.EventType_EVENT_TYPE_CREATE, e.Path)
		case core.FileWritten:
			err = add(filesystempb.EventType_EVENT_TYPE_WRITE, e.Path)
		case core.FileRemoved:
			err = add(filesystempb.EventType_EVENT_TYPE_REMOVE, e.Path)
		case core.FileChanged:
			err = add(filesystempb.EventType_EVENT_TYPE_CHMOD, e.Path)
		case core.FileRenamed:
			// The clients know two events for it.
			if err = add(filesystempb.EventType_EVENT_TYPE_RENAME, e.Path); err == nil && e.To != "" {
				err = add(filesystempb.EventType_EVENT_TYPE_CREATE, e.To)
			}
		case core.FileOverflow:
			err = errMissed
		case core.FileGone:
			err = errDirGone
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// name is a path as clients are told it: from the directory that is watched.
func (d *watchedDir) name(path string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(path, strings.TrimSuffix(d.base, "/")), "/")
	if rel == "" {
		return "."
	}
	return text(rel)
}

// CreateWatcher begins to keep what happens in a directory.
func (s *filesystem) CreateWatcher(ctx context.Context, r *connect.Request[filesystempb.CreateWatcherRequest]) (*connect.Response[filesystempb.CreateWatcherResponse], error) {
	id, err := s.createWatcher(ctx, r)
	if err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&filesystempb.CreateWatcherResponse{WatcherId: id}), nil
}

func (s *filesystem) createWatcher(ctx context.Context, r *connect.Request[filesystempb.CreateWatcherRequest]) (string, error) {
	f, err := s.callFiles(ctx, r.Header())
	if err != nil {
		return "", err
	}
	dir, err := s.watched(ctx, f, r.Msg)
	if err != nil {
		return "", err
	}
	t := target(ctx)
	id, err := s.control.KeepWatch(ctx, t.Principal, t.ref(), dir.base, core.WatchOptions{Recursive: r.Msg.GetRecursive()})
	if err != nil {
		return "", err
	}
	return watcherID(id, dir), nil
}

// A watcher's id tells, besides its watch, whether files are described and where it began: nothing is kept here.
const (
	withEntries    = "e"
	withoutEntries = "w"
)

func watcherID(id string, dir watchedDir) string {
	kind := withoutEntries
	if dir.entries {
		kind = withEntries
	}
	return kind + id + "." + url.PathEscape(dir.base)
}

// watcherOf reads a watcher's id. What isn't one names no watch.
func watcherOf(f files, id string) (watch string, dir watchedDir) {
	head, base, _ := strings.Cut(id, ".")
	base, err := url.PathUnescape(base)
	if err != nil || len(head) < 2 || len(base) > maxPath {
		return "none", watchedDir{}
	}
	return head[1:], watchedDir{files: f, base: base, entries: head[:1] == withEntries}
}

// GetWatcherEvents returns what has happened since it was last asked.
func (s *filesystem) GetWatcherEvents(ctx context.Context, r *connect.Request[filesystempb.GetWatcherEventsRequest]) (*connect.Response[filesystempb.GetWatcherEventsResponse], error) {
	events, err := s.watcherEvents(ctx, r)
	if err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&filesystempb.GetWatcherEventsResponse{Events: events}), nil
}

func (s *filesystem) watcherEvents(ctx context.Context, r *connect.Request[filesystempb.GetWatcherEventsRequest]) ([]*filesystempb.FilesystemEvent, error) {
	f, err := s.callFiles(ctx, r.Header())
	if err != nil {
		return nil, err
	}
	t := target(ctx)
	watch, dir := watcherOf(f, r.Msg.GetWatcherId())
	var events []*filesystempb.FilesystemEvent
	var said error
	err = s.control.WatchEvents(ctx, t.Principal, t.ref(), watch, func(list []core.FileEvent) (err error) {
		events, err = dir.events(ctx, list)
		if errors.Is(err, errMissed) || errors.Is(err, errDirGone) {
			said, err = err, nil
		}
		return err // the events are told again to who asks again
	})
	if errors.Is(err, io.EOF) {
		return nil, errDirGone
	}
	if errors.Is(said, errDirGone) && len(events) > 0 {
		return events, nil // it is told when it is asked for the next time
	}
	return events, errors.Join(err, said)
}

// RemoveWatcher ends a watcher.
func (s *filesystem) RemoveWatcher(ctx context.Context, r *connect.Request[filesystempb.RemoveWatcherRequest]) (*connect.Response[filesystempb.RemoveWatcherResponse], error) {
	f, err := s.callFiles(ctx, r.Header())
	if err == nil {
		t := target(ctx)
		watch, _ := watcherOf(f, r.Msg.GetWatcherId())
		err = s.control.EndWatch(ctx, t.Principal, t.ref(), watch)
	}
	if err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&filesystempb.RemoveWatcherResponse{}), nil
}
