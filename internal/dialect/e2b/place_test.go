package e2b

import (
	"net/http"
	"strings"
	"testing"

	"shoal/internal/core"
)

const someID = "abcdefghijklmnopqrstuv"

func TestLocate(t *testing.T) {
	type want struct {
		id   core.SandboxID
		port uint16
		bad  bool
	}
	outside := want{}
	for _, tc := range []struct {
		host, id, port string
		want           want
	}{
		{"api.e2b.test:8443", "", "", outside},
		{"api.e2b.test", someID, "49983", outside}, // a host of one side is not talked out of it
		{"API.E2B.Test.", "", "", outside},
		{"e2b.test", "", "", outside},
		{"localhost:8701", "", "", outside},
		{"api.localhost:8701", "", "", outside},
		{"127.0.0.1:8701", "", "", outside},
		{"[::1]:8701", "", "", outside},
		{"api.elsewhere.org", "", "", outside},
		{"elsewhere.org", "", "", outside},
		{"", "", "", outside},
		{"localhost:8701", someID, "49983", want{id: someID, port: 49983}},
		{"127.0.0.1:8701", someID + "-node", "3000", want{id: someID, port: 3000}},
		{"[::1]", someID, "49983", want{id: someID, port: 49983}},
		{"sandbox.e2b.test:8443", someID, "49983", want{id: someID, port: 49983}},
		{"sandbox.e2b.test", "", "", want{bad: true}},
		{"localhost", someID, "", want{bad: true}},
		{"localhost", someID, "0", want{bad: true}},
		{"localhost", someID, "+1", want{bad: true}},
		{"localhost", someID, "65536", want{bad: true}},
		{"49983-" + someID + ".e2b.test:8443", "", "", want{id: someID, port: 49983}},
		{"49983-" + someID + ".e2b.test", "zzzzzzzzzzzzzzzzzzzzzz", "1", want{id: someID, port: 49983}},
		{"3000-" + someID + "-node.e2b.test", "", "", want{id: someID, port: 3000}},
		{"3000-" + someID + ".localhost:8701", "", "", want{id: someID, port: 3000}},
		{"x." + "3000-" + someID + ".e2b.test", "", "", want{bad: true}},
		{"3000-" + someID + ".x.e2b.test", "", "", want{bad: true}},
		{"www.e2b.test", "", "", want{bad: true}},
		{"3000-.e2b.test", "", "", want{bad: true}},
		{"-" + someID + ".e2b.test", "", "", want{bad: true}},
		{"3000-" + someID + ".evil-e2b.test", "", "", outside},
		{"evile2b.test", "", "", outside},
	} {
		h := http.Header{}
		if tc.id != "" {
			h.Set(headerSandbox, tc.id)
			h.Set(headerPort, tc.port)
		}
		got, err := newPlaces("e2b.test:8443").locate(tc.host, h)
		if (err != nil) != tc.want.bad {
			t.Errorf("%s: %v", tc.host, err)
		}
		if err == nil && (got.sandbox != tc.want.id || got.port != tc.want.port) {
			t.Errorf("%s: %+v, want %+v", tc.host, got, tc.want)
		}
	}
	if at, err := newPlaces("").locate("3000-"+someID+".", http.Header{}); err != nil || at.sandbox != "" {
		t.Errorf("without a domain every host would be below it: %+v %v", at, err)
	}
}

// FuzzLocate shows that a sandbox is only found where something names it, and that a name of the control plane never leads into one.
func FuzzLocate(f *testing.F) {
	f.Add("49983-"+someID+".e2b.test:8443", "", "")
	f.Add("localhost", someID+"-x", "49983")
	f.Add("api.e2b.test", someID, "1")
	f.Fuzz(func(t *testing.T, host, id, port string) {
		h := http.Header{}
		if id != "" {
			h[headerSandbox], h[headerPort] = []string{id}, []string{port}
		}
		at, err := newPlaces("e2b.test:8443").locate(host, h)
		if err != nil {
			if !core.IsCode(err, core.CodeInvalid) {
				t.Error(err)
			}
			return
		}
		named := strings.Contains(strings.ToLower(host), string(at.sandbox)) || id != "" && strings.HasPrefix(id, string(at.sandbox))
		if at.sandbox != "" && (!named || at.port == 0 || strings.Contains(string(at.sandbox), "-")) {
			t.Errorf("%q, %q, %q: %+v", host, id, port, at)
		}
		if strings.HasPrefix(strings.ToLower(host), "api.") && at.sandbox != "" {
			t.Errorf("%q leads into a sandbox", host)
		}
	})
}
