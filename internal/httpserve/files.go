package httpserve

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"shoal/internal/core"
)

// maxTogether bounds how many events are handed over at once.
const maxTogether = 256

// FollowFiles hands what happens to files to send, events that are ready together, and calls idle whenever there has been none for the
// keepalive time. It returns nil after the last event. When it returns, the watch is closed and nothing reads from it.
func FollowFiles(
	ctx context.Context, watch core.FileWatch, keepalive time.Duration, send func([]core.FileEvent) error, idle func() error,
) error {
	events, done := make(chan fileEvent, maxTogether), make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { readEvents(watch, events, done) })
	defer reader.Wait()
	defer func() { _ = watch.Close() }()
	defer close(done)
	silent := time.NewTimer(keepalive)
	defer silent.Stop()
	for {
		var err error
		select {
		case e := <-events:
			list, failed := together(e, events)
			if len(list) > 0 {
				err = send(list)
			}
			if err == nil && failed != nil {
				if errors.Is(failed, io.EOF) {
					return nil
				}
				err = cause(ctx, failed)
			}
		case <-silent.C:
			err = idle()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		silent.Reset(keepalive)
	}
}

// cause is why a stream broke off: because its context ended, if it did.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

type fileEvent struct {
	event core.FileEvent
	err   error
}

func readEvents(watch core.FileWatch, events chan<- fileEvent, done <-chan struct{}) {
	for {
		e, err := watch.Recv()
		select {
		case events <- fileEvent{e, err}:
		case <-done:
			return
		}
		if err != nil {
			return
		}
	}
}

// together collects the events that are ready, and the error behind them.
func together(first fileEvent, events <-chan fileEvent) (list []core.FileEvent, err error) {
	for e := first; ; {
		if e.err != nil {
			return list, e.err
		}
		if list = append(list, e.event); len(list) >= maxTogether {
			return list, nil
		}
		select {
		case e = <-events:
		default:
			return list, nil
		}
	}
}
