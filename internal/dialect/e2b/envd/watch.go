package envd

import (
	"context"

	"connectrpc.com/connect"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd/filesystempb"
)

// noWatch is the answer to every call about watching, whatever its options: a change that goes unseen must not look like none.
func (s *filesystem) noWatch(ctx context.Context) error {
	return s.rpcError(ctx, core.Errorf(core.CodeUnsupported,
		"directories can't be watched here: list the directory again and compare modified times"))
}

// WatchDir answers that it can't be done.
func (s *filesystem) WatchDir(ctx context.Context, _ *connect.Request[filesystempb.WatchDirRequest], _ *connect.ServerStream[filesystempb.WatchDirResponse]) error {
	return s.noWatch(ctx)
}

// CreateWatcher answers that it can't be done.
func (s *filesystem) CreateWatcher(ctx context.Context, _ *connect.Request[filesystempb.CreateWatcherRequest]) (*connect.Response[filesystempb.CreateWatcherResponse], error) {
	return nil, s.noWatch(ctx)
}

// GetWatcherEvents answers that it can't be done.
func (s *filesystem) GetWatcherEvents(ctx context.Context, _ *connect.Request[filesystempb.GetWatcherEventsRequest]) (*connect.Response[filesystempb.GetWatcherEventsResponse], error) {
	return nil, s.noWatch(ctx)
}

// RemoveWatcher answers that it can't be done.
func (s *filesystem) RemoveWatcher(ctx context.Context, _ *connect.Request[filesystempb.RemoveWatcherRequest]) (*connect.Response[filesystempb.RemoveWatcherResponse], error) {
	return nil, s.noWatch(ctx)
}
