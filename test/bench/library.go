package main

import (
	"context"
	"log/slog"
	"time"
)

// libraryTake is what gVisor's own calls took for one sandbox: container.New and Container.Start, without what our driver
// does around them.
type libraryTake struct{ create, start time.Duration }

// libraryTimes is a log handler that picks the library's times out of what the runtime driver logs. Sandboxes are started one
// at a time where they are taken.
type libraryTimes struct{ last libraryTake }

// take returns the times of the sandbox that was started last.
func (l *libraryTimes) take() libraryTake { return l.last }

func (l *libraryTimes) Enabled(_ context.Context, level slog.Level) bool {
	return level == slog.LevelDebug
}

func (l *libraryTimes) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "library_new":
			l.last.create = a.Value.Duration()
		case "library_start":
			l.last.start = a.Value.Duration()
		}
		return true
	})
	return nil
}

func (l *libraryTimes) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *libraryTimes) WithGroup(string) slog.Handler { return l }
