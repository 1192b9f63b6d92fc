package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// sysctl is one setting of a network namespace.
type sysctl struct {
	path, value string
	// optional says that the kernel may be built without it.
	optional bool
}

// routerSysctls is everything the router relies on. A new namespace starts with the host's values, so each is set, also
// where the kernel's default would do.
func routerSysctls() []sysctl {
	list := []sysctl{
		{path: "ipv4/ip_forward", value: "0"},
		// Each refusal of UDP is an answer that the guest waits for: none may fall to a limit, neither to that of a
		// peer nor to the one that all namespaces share.
		{path: "ipv4/icmp_ratelimit", value: "0"},
		{path: "ipv4/icmp_ratemask", value: "0"},
	}
	for _, where := range []string{"all", "default", "lo"} {
		conf := "ipv4/conf/" + where + "/"
		list = append(list,
			sysctl{path: conf + "rp_filter", value: "1"},
			sysctl{path: conf + "arp_ignore", value: "1"},
			sysctl{path: conf + "accept_redirects", value: "0"},
			sysctl{path: conf + "send_redirects", value: "0"},
			sysctl{path: conf + "accept_source_route", value: "0"},
			sysctl{path: conf + "accept_local", value: "0"},
			sysctl{path: conf + "route_localnet", value: "0"},
			sysctl{path: conf + "proxy_arp", value: "0"},
			sysctl{path: conf + "arp_accept", value: "0"},
			sysctl{path: "ipv6/conf/" + where + "/disable_ipv6", value: "1", optional: true},
		)
	}
	return list
}

// slotSysctls keeps IPv6 off the interface that is about to come. Loopback keeps ::1, so all.disable_ipv6 stays as it
// is.
func slotSysctls() []sysctl {
	return []sysctl{{path: "ipv6/conf/default/disable_ipv6", value: "1", optional: true}}
}

// applySysctls sets them in the calling thread's namespace.
func applySysctls(list []sysctl) error {
	for _, s := range list {
		err := os.WriteFile("/proc/sys/net/"+s.path, []byte(s.value), 0)
		if err != nil && (!s.optional || !errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("set sysctl net/%s: %w", s.path, err)
		}
	}
	return nil
}
