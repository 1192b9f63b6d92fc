package cli

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	shoal "shoal/sdk/go"
)

// downFor is a server's transport that nobody answers at.
type downFor struct{}

func (downFor) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

// TestAServerThatIsAwayIsSaid holds that a person who waits for a server learns so once, and at the end how to go on.
func TestAServerThatIsAwayIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &shoal.Client{BaseURL: "http://127.0.0.1:8700", HTTPClient: &http.Client{Transport: downFor{}}}
		for _, tty := range []bool{false, true} {
			var says strings.Builder
			f := &follower{execs: c.Execs("lab"), err: &says, id: "e1", tty: tty}
			begin := time.Now()
			err := f.reattach(t.Context(), errors.New("broken"))
			if took := time.Since(begin); took < patience || took > patience+5*time.Second {
				t.Errorf("it gave up after %s", took)
			}
			end := "\n"
			if tty {
				end = "\r\n"
			}
			if want := "shoal: the server can't be reached; the process goes on in its sandbox, and this tries again for 60 s" + end; says.String() != want {
				t.Errorf("says %q, want %q", says.String(), want)
			}
			text := explain(brokenOff(t.Context(), c, "lab", err))
			if !strings.HasPrefix(text, "can't reach the server at http://127.0.0.1:8700") || !strings.HasSuffix(text, ": shoal logs -f lab e1") {
				t.Errorf("ends with %q", text)
			}
		}
	})
}
