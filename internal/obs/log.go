package obs

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// NewLogger returns a logger that writes a line for each message of at least the level (debug, info, warn, error) in a
// format (text, json). Times are UTC. Attribute names are snake_case: tenant_id, sandbox_id, node_id, op, dur_ms, err.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{ReplaceAttr: inUTC}
	switch level {
	case "debug":
		options.Level = slog.LevelDebug
	case "info":
		options.Level = slog.LevelInfo
	case "warn":
		options.Level = slog.LevelWarn
	case "error":
		options.Level = slog.LevelError
	default:
		return nil, fmt.Errorf("log level %q: allowed is debug, info, warn or error", level)
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q: allowed is text or json", format)
}

// inUTC writes times as the API does, so that lines of machines in different places can be put in order.
func inUTC(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindTime {
		a.Value = slog.StringValue(a.Value.Time().UTC().Format(time.RFC3339Nano))
	}
	return a
}
