package envd

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd/processpb"
)

type deadlineKey struct{}

// holdDeadline keeps the deadline of a start from the library, which would make it the stream's. It is the process's: the guest agent
// kills the whole group when it passes, and the stream ends by what it says then.
func holdDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != processpb.ProcessStartProcedure {
			next.ServeHTTP(w, r)
			return
		}
		ctx := context.WithValue(r.Context(), deadlineKey{}, [2]string{r.Header.Get("Connect-Timeout-Ms"), r.Header.Get("Grpc-Timeout")})
		r = r.WithContext(ctx)
		r.Header = r.Header.Clone()
		r.Header.Del("Connect-Timeout-Ms")
		r.Header.Del("Grpc-Timeout")
		next.ServeHTTP(w, r)
	})
}

// heldDeadline returns how long a process may run; zero means for ever.
func heldDeadline(ctx context.Context) (time.Duration, error) {
	held, _ := ctx.Value(deadlineKey{}).([2]string)
	if held[0] != "" {
		return parseMillis(held[0])
	}
	if held[1] != "" {
		return parseGRPCTimeout(held[1])
	}
	return 0, nil
}

// parseMillis reads Connect-Timeout-Ms: at most ten digits. Zero has passed already, so it becomes the shortest time.
func parseMillis(s string) (time.Duration, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || len(s) > 10 {
		return 0, core.Invalid("Connect-Timeout-Ms", "Connect-Timeout-Ms is a number of milliseconds, of at most ten digits")
	}
	return max(time.Duration(n)*time.Millisecond, time.Millisecond), nil
}

// parseGRPCTimeout reads Grpc-Timeout: at most eight digits and a unit.
func parseGRPCTimeout(s string) (time.Duration, error) {
	bad := core.Invalid("Grpc-Timeout", "Grpc-Timeout is a number of at most eight digits and a unit: H, M, S, m, u or n")
	if len(s) < 2 || len(s) > 9 {
		return 0, bad
	}
	const units = "HMSmun"
	unit := strings.IndexByte(units, s[len(s)-1])
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if err != nil || unit < 0 {
		return 0, bad
	}
	size := [len(units)]time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond, time.Nanosecond}[unit]
	const most = 365 * 24 * time.Hour // far above what is allowed, and far below what overflows
	if time.Duration(n) > most/size {
		return most, nil
	}
	return max(time.Duration(n)*size, time.Millisecond), nil
}

const (
	defaultKeepAlive = 90 * time.Second
	maxKeepAlive     = time.Hour
)

// keepAlive returns how long a stream may be silent before it says that it lives: what the caller asked for, in seconds.
func keepAlive(header http.Header) (time.Duration, error) {
	text := header.Get("Keepalive-Ping-Interval")
	if text == "" {
		return defaultKeepAlive, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n == 0 || time.Duration(n) > maxKeepAlive/time.Second {
		return 0, core.Invalid("Keepalive-Ping-Interval", "Keepalive-Ping-Interval is 1 to 3600 seconds")
	}
	return time.Duration(n) * time.Second, nil
}
