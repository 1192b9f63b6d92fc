package e2e_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// tenant makes a tenant and returns a client with a key of it, which may do all that a tenant's may, and the key.
func (e env) tenant(t *testing.T, name string, quota shoal.TenantQuota) (*shoal.Client, shoal.Key) {
	t.Helper()
	made, err := e.Client.Tenants().Create(ctx(t), shoal.CreateTenantRequest{Name: name, Quota: quota})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		limit, cancel := context.WithTimeout(context.Background(), harness.CallLimit)
		defer cancel()
		if err := e.Client.Tenants().Delete(limit, made.ID, true); err != nil && shoal.ErrorCode(err) != shoal.CodeNotFound {
			t.Error(err)
		}
	})
	as := &shoal.Client{BaseURL: e.URL, APIKey: e.Key, Tenant: name}
	key, err := as.Keys().Create(ctx(t), shoal.CreateKeyRequest{Name: "first", Scopes: []string{
		"sandboxes:read", "sandboxes:write", "execs", "files", "templates:read", "templates:write", "events:read", "usage:read", "keys",
		"audit:read",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &shoal.Client{BaseURL: e.URL, APIKey: key.Secret}, key
}

// testTenants: tenants see nothing of each other, a tenant at its quota frees a place by a delete at once, and a deleted tenant's machines
// go with it.
func testTenants(t *testing.T, e env) {
	one := int64(1)
	c, _ := e.tenant(t, "quota-test", shoal.TenantQuota{Sandboxes: &one})
	sb, err := c.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Client.Sandboxes().Get(ctx(t), sb.ID)
	wantCode(t, err, shoal.CodeNotFound)
	for range 3 {
		_, err = c.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
		if refused := wantCode(t, err, "quota"); refused.Field != "quota.sandboxes" || refused.Status != http.StatusTooManyRequests || refused.RetryAfter != 0 {
			t.Errorf("refused by %+v", refused)
		}
		if err := c.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
			t.Fatal(err)
		}
		if sb, err = c.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{}); err != nil {
			t.Fatalf("after a delete: %v", err)
		}
	}
	own, err := c.Quota(ctx(t))
	if err != nil || own.Use.Sandboxes != 1 || *own.Limits.Sandboxes != 1 {
		t.Errorf("it sees %+v, %v", own, err)
	}
	wantCode(t, e.Client.Tenants().Delete(ctx(t), "quota-test", false), shoal.CodeConflict)
	if err := e.Client.Tenants().Delete(ctx(t), "quota-test", true); err != nil {
		t.Fatal(err)
	}
	_, err = c.Sandboxes().Get(ctx(t), sb.ID)
	wantCode(t, err, shoal.CodeUnauthenticated)
	harness.Eventually(t, 30*time.Second, "its machine is gone", func() error {
		text, err := e.Client.ServerMetrics(ctx(t))
		if err == nil && !strings.Contains(string(text), "\nshoal_node_sandboxes 0\n") {
			err = errors.New("a sandbox has a reservation")
		}
		return err
	})
}

// ending is how a call ended that was under way.
type ending struct {
	name, text string
	at         time.Time
}

// underWay begins a call and returns when its reply has begun; its end comes on ends.
func underWay(t *testing.T, ends chan<- ending, name string, req *http.Request) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %d %s", name, resp.StatusCode, text)
	}
	go func() {
		defer func() { _ = resp.Body.Close() }()
		var last bytes.Buffer
		buffer := make([]byte, 64<<10)
		for {
			n, err := resp.Body.Read(buffer)
			last.Write(buffer[:n])
			last.Next(max(0, last.Len()-8<<10))
			if err != nil {
				ends <- ending{name, fmt.Sprintf("%s %v", last.String(), err), time.Now()}
				return
			}
		}
	}()
}

// testKeyRevoked: whatever is under way with a key ends within a second of its deletion, at every listener, and says why; so it is when its
// tenant is suspended.
func testKeyRevoked(t *testing.T, e env) {
	c, key := e.tenant(t, "revoke-test", shoal.TenantQuota{})
	sb, err := c.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	dialects := map[string]string{}
	list, err := c.Dialects(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		dialects[d.Name] = d.URL
	}
	call := func(method, target, body string, header map[string]string) *http.Request {
		req, err := http.NewRequestWithContext(ctx(t), method, target, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key.Secret)
		for k, v := range header {
			req.Header.Set(k, v)
		}
		return req
	}
	inside := e.URL + "/v1/sandboxes/" + sb.ID
	stream := map[string]string{"Accept": "application/x-ndjson", "Content-Type": "application/json"}
	token := e.envdToken(t, dialects["e2b"], key.Secret, sb.ID)
	ends := make(chan ending, 16)
	underWay(t, ends, "exec", call(http.MethodPost, inside+"/execs", `{"cmd":["sleep","1000"]}`, stream))
	underWay(t, ends, "events", call(http.MethodGet, e.URL+"/v1/events?after=1000000", "", stream))
	underWay(t, ends, "download", call(http.MethodGet, inside+"/files?path=/dev/zero", "", nil))
	underWay(t, ends, "watch", call(http.MethodGet, inside+"/watch?path=/tmp", "", stream))
	underWay(t, ends, "panda", call(http.MethodPost, dialects["panda"]+"/v1/sandboxes/"+sb.ID+"/exec/stream", `{"cmd":"sleep 1000"}`,
		map[string]string{"Content-Type": "application/json"}))
	pipe, upload := io.Pipe()
	defer func() { _ = upload.Close() }()
	go func() {
		req := call(http.MethodPut, inside+"/files?path=/tmp/up", "", nil)
		req.Body, req.ContentLength = pipe, -1
		text := ""
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			body, _ := io.ReadAll(resp.Body)
			text = string(body)
		}
		ends <- ending{"upload", fmt.Sprint(text, err), time.Now()}
	}()
	if _, err := upload.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	exec, err := c.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Cmd: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	attached, err := c.Execs(sb.ID).Attach(ctx(t), exec.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		var err error
		for err == nil {
			_, err = attached.Recv()
		}
		ends <- ending{"attach", fmt.Sprint(err), time.Now()}
	}()
	// With a token of the sandbox and no key: it ends with the tenant.
	tokenEnds := make(chan ending, 1)
	start := []byte(`{"process":{"cmd":"/bin/sleep","args":["1000"]}}`)
	envelope := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(start))), start...)
	underWay(t, tokenEnds, "e2b", call(http.MethodPost, dialects["e2b"]+"/process.Process/Start", string(envelope), map[string]string{
		"Authorization": "", "E2b-Sandbox-Id": sb.ID, "E2b-Sandbox-Port": "49983", "X-Access-Token": token, "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1",
	}))

	as := &shoal.Client{BaseURL: e.URL, APIKey: e.Key, Tenant: "revoke-test"}
	if err := as.Keys().Delete(ctx(t), key.ID); err != nil {
		t.Fatal(err)
	}
	gone := time.Now()
	// A download is cut off: what has begun with 200 can't say more.
	for range 7 {
		soonEnded(t, ends, gone, map[string]string{"download": "EOF", "default": "was deleted"})
	}
	if err := as.Keys().Delete(ctx(t), key.ID); shoal.ErrorCode(err) != shoal.CodeNotFound {
		t.Errorf("a second time: %v", err)
	}
	select {
	case end := <-tokenEnds:
		t.Errorf("the call with a token ended with the key: %s", end.text)
	default:
	}
	suspended := true
	if _, err := e.Client.Tenants().Update(ctx(t), "revoke-test", shoal.UpdateTenantRequest{Suspended: &suspended}); err != nil {
		t.Fatal(err)
	}
	soonEnded(t, tokenEnds, time.Now(), map[string]string{"default": "is suspended"})
	// The processes go on, as does the sandbox.
	if got, err := as.Execs(sb.ID).Get(ctx(t), exec.ID); err != nil || got.Outcome != "" {
		t.Errorf("the process: %+v, %v", got, err)
	}
	harness.Eventually(t, 5*time.Second, "the audit has it", func() error {
		for entry, err := range as.Audit(ctx(t), shoal.AuditOptions{}) {
			if err != nil {
				return err
			}
			if entry.Operation == "deleteKey" && entry.Target == key.ID && entry.Outcome == "ok" && entry.Actor.Kind == "key" && entry.Remote == "127.0.0.1" {
				return nil
			}
		}
		return errors.New("no entry")
	})
}

// soonEnded takes one end, which must have come within a second and say why.
func soonEnded(t *testing.T, ends <-chan ending, since time.Time, why map[string]string) {
	t.Helper()
	select {
	case end := <-ends:
		want, ok := why[end.name]
		if !ok {
			want = why["default"]
		}
		if took := end.at.Sub(since); took > time.Second {
			t.Errorf("%s went on for %s", end.name, took)
		}
		if !strings.Contains(end.text, want) {
			t.Errorf("%s ended with %q", end.name, end.text)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a call goes on")
	}
}

// envdToken returns the access token of a sandbox, as E2B's clients learn it.
func (e env) envdToken(t *testing.T, origin, secret, id string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx(t), http.MethodGet, origin+"/sandboxes/"+url.PathEscape(id), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var out struct {
		EnvdAccessToken string `json:"envdAccessToken"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.EnvdAccessToken == "" {
		t.Fatalf("no access token: %d, %v", resp.StatusCode, err)
	}
	return out.EnvdAccessToken
}
