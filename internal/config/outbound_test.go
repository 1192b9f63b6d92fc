package config

import (
	"strings"
	"testing"
)

func TestOutboundSettings(t *testing.T) {
	for _, tc := range []struct{ name, want, args string }{
		{"nothing set", "", ""},
		{"all set", "", "--outbound-allow=10.1.0.0/16,fd00::/8 --outbound-proxy=http://user:pw@proxy.test:3128 --templates-http-registries=10.1.2.3:5000,registry.test,[::1]:5000 --templates-max-image=1G"},
		{"socks", "", "--outbound-proxy=socks5://127.0.0.1:1080"},
		{"no CIDR", "outbound.allow is \"10.1.2.3\": allowed is a list of CIDRs", "--outbound-allow=10.1.2.3"},
		{"host bits", "outbound.allow is \"10.1.2.3/16\"", "--outbound-allow=10.1.2.3/16"},
		{"proxy without scheme", "outbound.proxy is", "--outbound-proxy=proxy.test:3128"},
		{"proxy with a path", "outbound.proxy is", "--outbound-proxy=http://proxy.test/x"},
		{"registry as URL", "templates.http_registries is", "--templates-http-registries=http://registry.test"},
		{"registry with port 0", "templates.http_registries is", "--templates-http-registries=registry.test:0"},
		{"small image", "templates.max_image is", "--templates-max-image=1M"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := Load(Sources{DefaultFile: nowhere(t), Flags: flags(t, strings.Fields(tc.args)...)})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got  %v\nwant %s", err, tc.want)
			}
			if err != nil {
				return
			}
			list, errList := c.Outbound.Prefixes()
			proxy, errProxy := c.Outbound.ProxyURL()
			if errList != nil || errProxy != nil || len(list) != len(c.Outbound.Allow) || (proxy == nil) != (c.Outbound.Proxy == "") {
				t.Errorf("%v, %v, %v, %v", list, errList, proxy, errProxy)
			}
		})
	}
}
