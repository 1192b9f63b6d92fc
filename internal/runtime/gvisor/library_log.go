package gvisor

import (
	"fmt"
	"log/slog"
	"time"

	"gvisor.dev/gvisor/pkg/log"
)

// libraryLog turns gVisor's log lines into ours. The library has one log per process: the last driver opened has it.
type libraryLog struct{ to *slog.Logger }

// takeLibraryLog sends the library's warnings to a logger; its chatter is dropped.
func takeLibraryLog(to *slog.Logger) {
	log.SetTarget(libraryLog{to})
	log.SetLevel(log.Warning)
}

// Emit writes one line.
func (l libraryLog) Emit(_ int, _ log.Level, _ time.Time, format string, args ...any) {
	l.to.Warn("gvisor: " + fmt.Sprintf(format, args...))
}
