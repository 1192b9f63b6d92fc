package httpapi

import (
	"net/http"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// watchFiles streams what happens to files until the client, the directory or the server goes.
func (a fileAPI) watchFiles(w http.ResponseWriter, r *request) error {
	path, err := r.filePath()
	if err != nil {
		return err
	}
	guest, err := a.guest(r)
	if err != nil {
		return err
	}
	ctx, cancel := a.streamContext(r)
	defer cancel()
	watch, err := guest.Watch(ctx, path, core.WatchOptions{Recursive: r.flag("recursive")})
	if err != nil {
		return err
	}
	out := a.lines(w)
	err = out.send(api.WatchMessage{Type: api.WatchMessageTypeWatching})
	if err != nil {
		_ = watch.Close()
	} else {
		err = httpserve.FollowFiles(ctx, watch, a.options.Keepalive, func(list []core.FileEvent) error {
			return out.sendAll(convert(list, encodeChange))
		}, func() error { return out.send(api.WatchMessage{Type: api.WatchMessageTypeKeepalive}) })
	}
	return a.endStream(r, err, func(e api.Error) error {
		return out.send(api.WatchMessage{Type: api.WatchMessageTypeError, Error: e})
	})
}

// sendAll writes several lines at once and flushes them.
func (l *lineWriter) sendAll(list []api.WatchMessage) error {
	var data []byte
	for _, m := range list {
		line, err := encodeJSON(m)
		if err != nil {
			return err
		}
		data = append(data, line...)
	}
	return l.put(data)
}

func encodeChange(e core.FileEvent) api.WatchMessage {
	out := api.WatchMessage{Type: api.WatchMessageType(e.Kind), Dir: e.Dir}
	out.Path, out.PathRaw = api.Text([]byte(e.Path))
	out.To, out.ToRaw = api.Text([]byte(e.To))
	return out
}
