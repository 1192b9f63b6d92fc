package shoal

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"shoal/api"
)

// FileWatch is a stream of what happens to files. One goroutine may receive; Close may come from another.
type FileWatch struct {
	lines *lineReader
	gone  bool
}

// Watch follows what happens in a directory, recursively also below it. It returns once everything is being watched, so that what
// happens from then on is told. The watch lives until ctx ends or it is closed.
func (f Files) Watch(ctx context.Context, path string, recursive bool) (*FileWatch, error) {
	p, err := watchPath(f.sandbox)
	if err != nil {
		return nil, err
	}
	q := pathQuery(path)
	if recursive {
		q.Set("recursive", "true")
	}
	lines, err := f.c.lines(ctx, call{method: http.MethodGet, path: p, query: q})
	if err != nil {
		return nil, err
	}
	w := &FileWatch{lines: lines}
	first, err := w.next()
	if err == nil && first.Type != api.WatchMessageTypeWatching {
		err = &Error{Code: CodeInternal, Message: fmt.Sprintf("the stream begins with %q", first.Type)}
	}
	if err != nil {
		_ = w.Close()
		return nil, err
	}
	return w, nil
}

func watchPath(sandbox string) (string, error) { return path("v1", "sandboxes", sandbox, "watch") }

// Recv returns what happened next. An event of type overflow says that not everything was told: list the directory again, what happens
// from then on is told. The last event has type gone, after which Recv returns io.EOF.
func (w *FileWatch) Recv() (FileEvent, error) {
	if w.gone {
		return FileEvent{}, io.EOF
	}
	return w.next()
}

func (w *FileWatch) next() (FileEvent, error) {
	for {
		var m FileEvent
		if err := w.lines.next(&m); err != nil {
			return FileEvent{}, err
		}
		switch m.Type {
		case api.WatchMessageTypeKeepalive:
			continue
		case api.WatchMessageTypeError:
			return FileEvent{}, fromAPI(m.Error)
		case api.WatchMessageTypeGone:
			w.gone = true
		case api.WatchMessageTypeWatching, api.WatchMessageTypeCreate, api.WatchMessageTypeWrite, api.WatchMessageTypeRemove,
			api.WatchMessageTypeRename, api.WatchMessageTypeChmod, api.WatchMessageTypeOverflow:
		}
		return m, nil
	}
}

// Close stops watching.
func (w *FileWatch) Close() error { return w.lines.close() }
