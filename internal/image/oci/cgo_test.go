package oci

import (
	"io"
	"log"
	"runtime/debug"
)

// cgo reports whether this program was built with cgo.
func cgo() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" {
			return s.Value == "1"
		}
	}
	return false
}

// slogger is for a registry that would write what it does.
func slogger() *log.Logger { return log.New(io.Discard, "", 0) }
