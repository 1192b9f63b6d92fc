package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/httpapi"
)

// counted counts how often keys were looked up.
type counted struct {
	*fakeControl
	mu      sync.Mutex
	lookups int
	probes  int
	// broken is what a look-up answers instead, nil if nothing is wrong.
	broken error
}

func (c *counted) Authenticate(ctx context.Context, secret string) (control.Principal, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookups++
	if c.broken != nil {
		return control.Principal{}, c.broken
	}
	return c.fakeControl.Authenticate(ctx, secret)
}

// breakStore makes every look-up fail with err, or work again.
func (c *counted) breakStore(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
}

func (c *counted) Ready(ctx context.Context) error {
	c.mu.Lock()
	c.probes++
	c.mu.Unlock()
	return c.fakeControl.Ready(ctx)
}

// newCounted returns an API that counts, and sends its log lines to lines.
func newCounted(t *testing.T, lines chan<- logLine) (http.Handler, *counted) {
	t.Helper()
	c := &counted{fakeControl: newFake()}
	a, err := httpapi.New(c, httpapi.Options{Logger: slog.New(logTo{lines})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a.Handler(), c
}

// from sends one request from an address, with a key if it isn't empty.
func from(t *testing.T, h http.Handler, remote, path, key string) *http.Response {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	req.RemoteAddr = remote
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Result()
}

// TestStrangers: what comes without a good key is refused before the store is asked, by address, and good keys are not, whether
// they were seen before or not.
func TestStrangers(t *testing.T) {
	const attempts = 500
	lines := make(chan logLine, 10*attempts)
	h, c := newCounted(t, lines)
	if got := from(t, h, "192.0.2.1:1", "/v1/version", tenantKey).StatusCode; got != 200 {
		t.Fatalf("a good key: %d", got)
	}
	refused := 0
	for i := range attempts {
		got := from(t, h, fmt.Sprintf("192.0.2.1:%d", 1000+i), "/v1/sandboxes", "stale")
		switch got.StatusCode {
		case 401:
		case 429:
			refused++
			if wait, err := strconv.Atoi(got.Header.Get("Retry-After")); err != nil || wait < 1 {
				t.Errorf("Retry-After is %q", got.Header.Get("Retry-After"))
			}
		default:
			t.Errorf("status %d", got.StatusCode)
		}
	}
	if c.lookups > 150 || refused < attempts-150 {
		t.Errorf("%d lookups and %d refused of %d", c.lookups, refused, attempts)
	}
	for _, tc := range []struct {
		name, remote, key string
		want              int
	}{
		{"without a key", "192.0.2.1:9", "", 429},
		{"a key that was good lately", "192.0.2.1:9", tenantKey, 200},
		{"a key that was not seen yet", "192.0.2.1:9", otherKey, 200},
		{"another wrong one", "192.0.2.1:9", "wrong", 401},
		{"that one again", "192.0.2.1:9", "wrong", 429},
		{"the same written as IPv6", "[::ffff:192.0.2.1]:9", "wrong", 429},
		{"another address, wrong", "192.0.2.2:9", "wrong", 401},
		{"another address, good", "192.0.2.2:9", adminKey, 200},
	} {
		if got := from(t, h, tc.remote, "/v1/version", tc.key).StatusCode; got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	if got := from(t, h, "192.0.2.1:9", "/healthz", "").StatusCode; got != 200 {
		t.Errorf("a probe: %d", got)
	}
	info := 0
	for len(lines) > 0 {
		if l := <-lines; l.level >= slog.LevelInfo && l.attrs["status"] != "200" {
			info++
		}
	}
	if info != 2 { // one for each address
		t.Errorf("%d lines about failures", info)
	}
}

// TestKeyNoLongerGood: a key that was good passes while its address has nothing left, until it is answered that it is good no more.
func TestKeyNoLongerGood(t *testing.T) {
	h, c := newCounted(t, make(chan logLine, 1000))
	ask := func(key string) int { return from(t, h, "192.0.2.1:1", "/v1/version", key).StatusCode }
	if got := ask(tenantKey); got != 200 {
		t.Fatalf("a good key: %d", got)
	}
	for range 150 {
		ask("stale")
	}
	c.breakStore(core.Errorf(core.CodeUnavailable, "the store is away"))
	if got := ask(tenantKey); got != 503 {
		t.Errorf("without a store: %d", got)
	}
	c.breakStore(core.Errorf(core.CodeUnauthenticated, "the API key is unknown or expired"))
	if got := ask(tenantKey); got != 401 {
		t.Errorf("a key that has expired: %d", got)
	}
	before := c.lookups
	for range 50 {
		ask(tenantKey)
	}
	if n := c.lookups - before; n > 10 { // what the address earns meanwhile
		t.Errorf("looked up %d times of 50 after it had expired", n)
	}
}

// TestOutageIsLogged: what this side is to blame for is told each time, though nobody could say whose request it is.
func TestOutageIsLogged(t *testing.T) {
	const requests = 20
	lines := make(chan logLine, 100)
	h, c := newCounted(t, lines)
	c.breakStore(core.Errorf(core.CodeUnavailable, "the store is away"))
	for range requests {
		from(t, h, "192.0.2.1:1", "/v1/version", tenantKey)
	}
	told := 0
	for len(lines) > 0 {
		if l := <-lines; l.level >= slog.LevelInfo && l.attrs["code"] == "unavailable" {
			told++
		}
	}
	if told != requests {
		t.Errorf("%d of %d are told", told, requests)
	}
}

// TestStrangersOfNetworks: of IPv6 the network counts, and unknown paths are logged as seldom as wrong keys.
func TestStrangersOfNetworks(t *testing.T) {
	lines := make(chan logLine, 1000)
	h, _ := newCounted(t, lines)
	last := 0
	for i := range 150 {
		last = from(t, h, fmt.Sprintf("[2001:db8::%x]:1", i+1), "/v1/version", "wrong").StatusCode
		from(t, h, fmt.Sprintf("[2001:db8::%x]:1", i+1), "/no/such/path", "")
	}
	if last != 429 {
		t.Errorf("the last of a network: %d", last)
	}
	if got := from(t, h, "[2001:db8:0:1::1]:1", "/v1/version", "wrong").StatusCode; got != 401 {
		t.Errorf("the network beside it: %d", got)
	}
	info := 0
	for len(lines) > 0 {
		if l := <-lines; l.level >= slog.LevelInfo {
			info++
		}
	}
	if info != 2 {
		t.Errorf("%d lines, want one for each network", info)
	}
}

// TestReadinessIsRemembered: however many probes come, the store is asked once a second.
func TestReadinessIsRemembered(t *testing.T) {
	h, c := newCounted(t, make(chan logLine, 1000))
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if got := from(t, h, fmt.Sprintf("192.0.2.%d:1", i), "/readyz", "").StatusCode; got != 200 {
				t.Errorf("status %d", got)
			}
		})
	}
	wg.Wait()
	if c.probes > 2 { // two, if a second passed meanwhile
		t.Errorf("asked %d times", c.probes)
	}
}
