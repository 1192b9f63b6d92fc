package gvisor

import (
	"fmt"
	"log/slog"
	"time"

	gvisorlog "gvisor.dev/gvisor/pkg/log"
)

// libraryLog turns gVisor's log lines into ours. The library has one log per process: the last driver opened has it.
type libraryLog struct{ to *slog.Logger }

// takeLibraryLog sends the library's warnings to a logger; its chatter is dropped.
func takeLibraryLog(to *slog.Logger) {
	gvisorlog.SetTarget(libraryLog{to})   //nolint:forbidigo // This is where the library is given the injected logger.
	gvisorlog.SetLevel(gvisorlog.Warning) //nolint:forbidigo // Likewise.
}

// Emit writes one line.
func (l libraryLog) Emit(_ int, _ gvisorlog.Level, _ time.Time, format string, args ...any) { //nolint:forbidigo // The library's interface.
	l.to.Warn("gVisor warns", slog.String("text", fmt.Sprintf(format, args...)))
}
