package panda

import (
	"net/http"
	"time"

	"shoal/internal/dialect"
)

// NewPinging is New with another time of silence after which a stream says that it lives.
func NewPinging(cfg dialect.Config, keepalive time.Duration) http.Handler {
	return newAdapter(cfg, keepalive).handler()
}

// Harmless is harmless, for tests.
func Harmless(message string, failing bool) string { return harmless(message, failing) }
