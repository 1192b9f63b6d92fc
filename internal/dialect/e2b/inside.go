package e2b

import (
	"context"
	"crypto/subtle"
	"net/http"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/dialect/e2b/envd"
	"shoal/internal/httpserve"
)

const (
	// envdPort is the port at which E2B's guest agent listens, and behind which this server answers for it.
	envdPort = 49983

	healthPath  = "/health"
	filesPath   = "/files"
	headerToken = "X-Access-Token"
)

// inside is the inside of all sandboxes.
type inside struct {
	dialect.Config
	envd http.Handler
}

// serve answers a request to the inside of a sandbox.
func (s *inside) serve(w http.ResponseWriter, r *http.Request, at place) {
	c := dialect.CallOf(r.Context())
	c.Quiet, c.Sandbox = true, string(at.sandbox)
	envd.AllowOrigins(w.Header(), r)
	switch {
	case at.port == envdPort && r.Method == http.MethodOptions:
		s.envd.ServeHTTP(w, r) // A browser asks whether it may ask, and shows no token for that.
	case !core.IsID(string(at.sandbox)):
		s.dead(w, r, at)
	case at.port != envdPort || r.URL.Path == healthPath:
		s.probe(w, r, at)
	case internalPaths[r.URL.Path] || !httpserve.CleanPath(r.URL.Path):
		s.refuse(w, r, core.Errorf(core.CodeNotFound, "there is nothing at %s", clip(r.URL.Path)))
	default:
		s.open(w, r, at)
	}
}

// internalPaths are those that E2B's own servers call in a sandbox. Nobody else may.
var internalPaths = map[string]bool{
	"/init": true, "/freeze": true, "/unfreeze": true, "/fsfreeze": true, "/fsthaw": true, "/collapse": true, "/upgrade": true,
}

// probe answers what needs no token: whether the sandbox lives, and that its other ports can't be reached.
func (s *inside) probe(w http.ResponseWriter, r *http.Request, at place) {
	switch {
	case !s.Control.Alive(r.Context(), at.sandbox):
		s.dead(w, r, at)
	case at.port != envdPort:
		s.refuse(w, r, core.Errorf(core.CodeUnsupported, "port %d: %s", at.port, noPort(at.port)))
	default:
		// Who has no token learns that the sandbox lives, and nothing else.
		alive := envd.Target{Sandbox: core.Sandbox{ID: at.sandbox}}
		s.envd.ServeHTTP(w, r.WithContext(envd.WithTarget(r.Context(), alive)))
	}
}

// interpreterPort is where run_code of E2B's code interpreter asks.
const interpreterPort = 49999

// noPort says what to do instead of asking a port.
func noPort(port uint16) string {
	if port == interpreterPort {
		return "this server has no code interpreter (run_code, contexts): write the code to a file and run it with a command, such as python3 FILE"
	}
	return "ports of sandboxes can't be reached from outside yet: ask for it from inside, with a command"
}

// refuse answers with an error in the form that clients of the inside read, and notes it for the log.
func (s *inside) refuse(w http.ResponseWriter, r *http.Request, err error) {
	shown := dialect.CallOf(r.Context()).Failed(dialect.AtTheEnd(s.Closing.Err() != nil, err))
	setRetry(w.Header(), statusOf(shown), shown)
	envd.Refuse(w, r, statusOf(shown), shown)
}

// dead is the answer for a sandbox that isn't there, or no longer. Clients go by the status and by the words.
func (s *inside) dead(w http.ResponseWriter, r *http.Request, at place) {
	_ = dialect.CallOf(r.Context()).Failed(core.Errorf(core.CodeUnavailable, "the sandbox was not found"))
	_ = writeJSON(w, http.StatusBadGateway, struct {
		SandboxID core.SandboxID `json:"sandboxId"`
		Message   string         `json:"message"`
		Code      int            `json:"code"`
	}{core.SandboxID(clip(string(at.sandbox))), "The sandbox was not found", http.StatusBadGateway})
}

// open lets a caller in who shows the sandbox's access token, or a URL that was signed with it.
func (s *inside) open(w http.ResponseWriter, r *http.Request, at place) {
	target, err := s.admit(r.Context(), r, at)
	switch {
	case core.IsCode(err, core.CodeNotFound):
		s.dead(w, r, at)
		return
	case err == nil:
		dialect.CallOf(r.Context()).Principal = target.Principal
		if target.Sandbox.State != core.StateRunning {
			s.dead(w, r, at)
			return
		}
		err = s.Gate.Let(r.Context(), target.Principal)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.envd.ServeHTTP(w, r.WithContext(envd.WithTarget(r.Context(), target)))
}

// admit checks what the caller shows. Who fails too often is not looked at.
func (s *inside) admit(ctx context.Context, r *http.Request, at place) (t envd.Target, err error) {
	shown := r.Header.Get(headerToken)
	check := func(token string) error {
		if subtle.ConstantTimeCompare([]byte(shown), []byte(token)) != 1 {
			return core.Errorf(core.CodeUnauthenticated, "unauthorized access, please provide a valid access token or method signing if supported")
		}
		return nil
	}
	if signed, ok := envd.SignedOf(r.Method, r.URL.Query()); ok && shown == "" && r.URL.Path == filesPath {
		shown = signed.Signature
		check = func(token string) error { return envd.CheckSignature(signed, token, time.Now()) }
	}
	var refused error
	err = s.Gate.Guard(r.RemoteAddr, shown, func() error {
		var p control.Principal
		p, sb, err := s.Control.OpenSandbox(ctx, at.sandbox, func(token string) bool {
			refused = check(token)
			t.Token = token
			return refused == nil
		})
		t.Principal, t.Sandbox = p, sb
		if refused != nil {
			return refused
		}
		return err //nolint:wrapcheck // Control's errors are made for the edge.
	})
	return t, err
}
