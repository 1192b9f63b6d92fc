package cli

import (
	"strings"

	shoal "shoal/sdk/go"
)

// vendor is what the clients of another vendor read from their environment.
type vendor struct {
	// dialect is our name for its protocol, title its own, key the variable of the key.
	dialect, title, key string
	// variables say where the server is, trust says whom to trust there, and keys which key to use, if one is given.
	variables func(d shoal.Dialect, tls bool) []variable
	trust     func(f trustFiles) []variable
	keys      func(key string) []variable
}

func vendors() []vendor {
	return []vendor{
		{dialect: "e2b", title: "E2B", key: "E2B_API_KEY", variables: e2bVariables, trust: e2bTrust, keys: e2bKeys},
		{dialect: "panda", title: "PandaStack", key: "PANDASTACK_API_KEY", variables: pandaVariables, trust: pandaTrust, keys: pandaKeys},
	}
}

func e2bVariables(d shoal.Dialect, tls bool) []variable {
	const not = "these would win over what is above"
	if tls {
		return []variable{
			{"E2B_DOMAIN", d.Domain, "the domain below which the clients find API and sandboxes"},
			{"E2B_API_URL", "", not},
			{"E2B_SANDBOX_URL", "", not},
			{"E2B_DEBUG", "", not},
		}
	}
	return []variable{
		{"E2B_API_URL", d.URL, "where the API is"},
		{"E2B_SANDBOX_URL", d.URL, "where the sandboxes are: at the same address, told apart by a header"},
		{"E2B_DOMAIN", "", not},
		{"E2B_DEBUG", "", not},
	}
}

func e2bTrust(f trustFiles) []variable {
	return []variable{
		{"NODE_EXTRA_CA_CERTS", f.own, "the server's authority, for Node: read when it starts"},
		{"SSL_CERT_FILE", f.bundle, "the same for Python, with all that this system trusts"},
	}
}

func e2bKeys(key string) []variable {
	if key == "" {
		return nil
	}
	list := []variable{{"E2B_API_KEY", key, "the key"}}
	if rest, ok := strings.CutPrefix(key, "e2b_"); !ok || rest == "" || strings.Trim(rest, "0123456789abcdef") != "" {
		list = append(list, variable{"E2B_VALIDATE_API_KEY", "false", "Python refuses keys that don't look like E2B's"})
	}
	return list
}

func pandaVariables(d shoal.Dialect, tls bool) []variable {
	where := d.URL
	if tls {
		where = d.DomainURL
	}
	return []variable{
		{"PANDASTACK_API", where, "where the API is"},
		{"PANDASTACK_API_URL", "", "this would win over what is above"},
	}
}

func pandaTrust(f trustFiles) []variable {
	return []variable{
		{"NODE_EXTRA_CA_CERTS", f.own, "the server's authority, for Node: read when it starts"},
		{"REQUESTS_CA_BUNDLE", f.bundle, "the same for Python, with all that this system trusts"},
	}
}

func pandaKeys(key string) []variable {
	if key == "" {
		return nil
	}
	return []variable{{"PANDASTACK_API_KEY", key, "the key"}}
}
