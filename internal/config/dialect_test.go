package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDialectAddress(t *testing.T) {
	for _, tc := range []struct{ listen, dialect, want string }{
		{"127.0.0.1:8700", "+1", "127.0.0.1:8701"},
		{"127.0.0.1:0", "+5", "127.0.0.1:0"},
		{"[::1]:8700", "+5", "[::1]:8705"},
		{":8700", "+1", ":8701"},
		{"localhost:65534", "+1", "localhost:65535"},
		{"127.0.0.1:8700", "127.0.0.2:9", "127.0.0.2:9"},
		{"127.0.0.1:8700", "off", ""},
	} {
		got, ok, err := Dialect{Listen: tc.dialect}.Address(tc.listen)
		if got != tc.want || ok != (tc.want != "") || err != nil {
			t.Errorf("%s of %s: %q, %v, %v", tc.dialect, tc.listen, got, ok, err)
		}
	}
	if _, _, err := (Dialect{Listen: "+5"}).Address("127.0.0.1:65531"); err == nil {
		t.Error("there is no port 65536")
	}
}

func TestDialectSettings(t *testing.T) {
	for _, tc := range []struct{ name, want, args string }{
		{"nothing set", "", ""},
		{"free ports", "", "--listen=127.0.0.1:0 --tls-listen=127.0.0.1:0"},
		{"off", "", "--e2b-listen=off --panda-listen=off"},
		{"everything by TLS", "", "--tls-listen=:443 --domain=shoal.example.com"},
		{"own certificate everywhere", "", "--listen=:8700 --tls-cert=/c --tls-key=/k --e2b-listen=0.0.0.0:1"},
		{"domain with port", "", "--tls-listen=:443 --domain=localhost:8443"},
		{"beside TLS", "listen is \":8700\", which other machines can reach: with tls_listen", "--tls-listen=:443 --listen=:8700 --tls-cert=/c --tls-key=/k"},
		{"open dialect", "--e2b-listen: e2b.listen is \"0.0.0.0:1\", which other machines can reach: allowed without TLS", "--e2b-listen=0.0.0.0:1"},
		{"same port", "--panda-listen: panda.listen is \"127.0.0.1:8701\", and so is e2b.listen", "--panda-listen=+1"},
		{"same as listen", "e2b.listen is \"127.0.0.1:8700\", and so is listen", "--e2b-listen=127.0.0.1:8700"},
		{"same as TLS", "tls_listen is \"127.0.0.1:8705\", and so is panda.listen", "--tls-listen=127.0.0.1:8705"},
		{"no such port", "default: panda.listen is \"+5\": there is no port 65538", "--listen=127.0.0.1:65533"},
		{"no number", "e2b.listen is \"+x\": allowed is HOST:PORT", "--e2b-listen=+x"},
		{"nothing above", "e2b.listen is \"+0\"", "--e2b-listen=+0"},
		{"no alias", "panda.templates is \"base\": allowed is a list of VENDORNAME=TEMPLATE", "--panda-templates=base"},
		{"twice", "--e2b-templates: e2b.templates names one template twice", "--e2b-templates=a=base,a=minimal"},
		{"address as domain", "domain is \"10.0.0.1\"", "--domain=10.0.0.1"},
		{"URL as domain", "domain is \"https://x.test\"", "--domain=https://x.test"},
		{"capitals", "domain is \"Shoal.test\"", "--domain=Shoal.test"},
		{"port 0", "domain is \"shoal.test:0\"", "--domain=shoal.test:0"},
		{"long", "domain is \"" + strings.Repeat("a.", 101), "--domain=" + strings.Repeat("a.", 101) + "b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load(Sources{DefaultFile: nowhere(t), Flags: flags(t, strings.Fields(tc.args)...)})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

// TestOpenListenIsSaidOnce: the dialects' addresses follow that of listen, so one mistake is one line.
func TestOpenListenIsSaidOnce(t *testing.T) {
	_, err := Load(Sources{DefaultFile: nowhere(t), Flags: flags(t, "--listen=0.0.0.0:8700")})
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestDialectFile(t *testing.T) {
	c, err := Load(Sources{DefaultFile: write(t, `version: 1
domain: shoal.test:8443
tls_listen: "127.0.0.1:443"
e2b:
  listen: +2
  templates: [team/x:v1=base]
panda:
  listen: off
`)})
	if err != nil {
		t.Fatal(err)
	}
	if c.E2B.Listen != "+2" || c.Panda.Listen != "off" {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff(map[string]string{"team/x:v1": "base"}, c.E2B.Names()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"code-interpreter": "base", "ubuntu-24.04": "base"}, c.Panda.Names()); diff != "" {
		t.Error(diff)
	}
	if name, port := c.DomainName(); name != "shoal.test" || port != "8443" {
		t.Errorf("%s, %s", name, port)
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	again, err := Load(Sources{DefaultFile: write(t, b.String())})
	if err != nil || again.E2B.Listen != "+2" || again.Panda.Listen != "off" || again.Domain != c.Domain || len(again.E2B.Templates) != 1 {
		t.Errorf("%v, %+v from\n%s", err, again, b.String())
	}
}
