package shoal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultURL is where a server listens unless it is told otherwise.
const DefaultURL = "http://127.0.0.1:8700"

// Client reaches one server. Its fields must not be changed once it is in use; it may be used from many goroutines.
type Client struct {
	// BaseURL is the server's origin, such as "http://127.0.0.1:8700"; empty means DefaultURL.
	BaseURL string
	// APIKey is sent as bearer token.
	APIKey string
	// Tenant is the id or name of the tenant that the calls are for; empty means the key's own. Only the operator's key may name another.
	Tenant string
	// HTTPClient carries the requests; nil means one with http.DefaultTransport. It should have no Timeout, which would cut streams.
	HTTPClient *http.Client
	// MaxRetries is how often a call that may be repeated is tried again; zero means 3, negative none.
	MaxRetries int
	// UserAgent names the calling program; empty means "shoal-go".
	UserAgent string
}

// call is one request to be made.
type call struct {
	method string
	// path is the path below the origin, its parts escaped.
	path  string
	query url.Values
	// in is sent as JSON; nil sends no body. body is sent as it is.
	in   any
	body io.Reader
	// header holds further headers.
	header http.Header
	// once says that the server makes the call once for each key. Unless the caller has one, it gets its own.
	once bool
	key  string
}

// repeatable reports whether making the call again after an error has the effect of making it once. One that is made once for its
// key, or creates what isn't there, is made again if there was no reply: what a reply says is for the caller to know at once.
func (c call) repeatable(err error) bool {
	if c.once || c.method == http.MethodPut && c.body == nil {
		e, ok := errors.AsType[*Error](err)
		return ok && e.RequestID == ""
	}
	return c.body == nil && (c.method == http.MethodGet || c.method == http.MethodHead || c.method == http.MethodDelete)
}

// path escapes and joins the parts of a path. A part that is empty would name something else, so it is refused.
func path(parts ...string) (string, error) {
	var b strings.Builder
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return "", &Error{Code: CodeInvalid, Message: fmt.Sprintf("%q is no id or name", part)}
		}
		b.WriteString("/" + url.PathEscape(part))
	}
	return b.String(), nil
}

// do makes a call and decodes the reply into out, which may be nil.
func (c *Client) do(ctx context.Context, cl call, out any) error {
	resp, err := c.send(ctx, cl) //nolint:bodyclose // decode closes it.
	if err != nil {
		return err
	}
	return decode(ctx, resp, out)
}

// decode reads a reply into out, which may be nil.
func decode(ctx context.Context, resp *http.Response, out any) error {
	defer func() { _ = resp.Body.Close() }()
	if out == nil || resp.StatusCode == http.StatusNoContent {
		_, err := io.Copy(io.Discard, resp.Body)
		return transportError(ctx, err)
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return transportError(ctx, fmt.Errorf("decode reply: %w", err))
	}
	return nil
}

// send makes a call, again where that helps, and returns a reply whose status is below 300. The caller closes its body.
func (c *Client) send(ctx context.Context, cl call) (*http.Response, error) {
	var body []byte
	if cl.in != nil {
		var err error
		if body, err = json.Marshal(cl.in); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}
	if cl.once && cl.key == "" {
		cl.key = rand.Text()
	}
	for attempt := 0; ; attempt++ {
		resp, err := c.once(ctx, cl, body)
		if err == nil {
			return resp, nil
		}
		if attempt > 0 && cl.method == http.MethodDelete && ErrorCode(err) == CodeNotFound {
			// The first try did it and its answer was lost.
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		}
		if !cl.repeatable(err) || attempt >= c.retries() {
			return nil, err
		}
		if wait, ok := delay(err, attempt); !ok || sleep(ctx, wait) != nil {
			return nil, err
		}
	}
}

// once makes a call once.
func (c *Client) once(ctx context.Context, cl call, body []byte) (*http.Response, error) {
	req, err := c.request(ctx, cl, body)
	if err != nil {
		return nil, err
	}
	resp, err := c.httpClient().Do(req)
	if err != nil {
		return nil, transportError(ctx, err)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, replyError(resp)
}

// request makes the HTTP request of a call.
func (c *Client) request(ctx context.Context, cl call, body []byte) (*http.Request, error) {
	target, err := c.url(cl)
	if err != nil {
		return nil, err
	}
	reader := cl.body
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, cl.method, target, reader)
	if err != nil {
		return nil, &Error{Code: CodeInvalid, Message: "the request can't be made", Err: err}
	}
	for name, values := range cl.header {
		req.Header[name] = values
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if cl.once {
		req.Header.Set("Idempotency-Key", cl.key)
	}
	c.authorize(req.Header)
	return req, nil
}

// authorize sets the headers that every request has.
func (c *Client) authorize(h http.Header) {
	if c.APIKey != "" {
		h.Set("Authorization", "Bearer "+c.APIKey)
	}
	if c.Tenant != "" {
		h.Set("Shoal-Tenant", c.Tenant)
	}
	agent := c.UserAgent
	if agent == "" {
		agent = "shoal-go"
	}
	h.Set("User-Agent", agent)
}

// url returns the absolute URL of a call.
func (c *Client) url(cl call) (string, error) {
	base := c.BaseURL
	if base == "" {
		base = DefaultURL
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", &Error{Code: CodeInvalid, Field: fieldURL, Message: fmt.Sprintf("%q is no URL of a server, such as %s", base, DefaultURL)}
	}
	target := strings.TrimSuffix(base, "/") + cl.path
	if len(cl.query) > 0 {
		target += "?" + cl.query.Encode()
	}
	return target, nil
}

func (c *Client) httpClient() *http.Client {
	if c.HTTPClient != nil {
		return c.HTTPClient
	}
	return &http.Client{} // It shares the default transport, and so the connections.
}

func (c *Client) retries() int {
	switch {
	case c.MaxRetries < 0:
		return 0
	case c.MaxRetries == 0:
		return 3
	}
	return c.MaxRetries
}

// Version returns which server answers.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v Version
	return v, c.do(ctx, call{method: http.MethodGet, path: "/v1/version"}, &v)
}

// Health returns nil if the server answers. It takes no key and is not tried again.
func (c *Client) Health(ctx context.Context) error { return c.probe(ctx, "/healthz") }

// Ready returns nil if sandboxes can be created, else an *Error that says what is missing. It takes no key and is not
// tried again.
func (c *Client) Ready(ctx context.Context) error { return c.probe(ctx, "/readyz") }

func (c *Client) probe(ctx context.Context, path string) error {
	resp, err := c.once(ctx, call{method: http.MethodGet, path: path}, nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// ServerMetrics returns the server's own metrics in Prometheus's text format; it takes an admin key.
func (c *Client) ServerMetrics(ctx context.Context) ([]byte, error) {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: "/metrics"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return data, transportError(ctx, err)
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
