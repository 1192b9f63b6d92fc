package config

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// setting is one row of the table that file keys, variables, flags and the reference are made from.
type setting struct {
	// key is its name in the file, sections joined by dots.
	key string
	// def is the default, as text.
	def string
	// allowed completes "allowed is …"; doc is a sentence or two on what it does.
	allowed string
	doc     string
	binding
	// path says that it is a path on this machine.
	path bool
	// show, if not nil, hides what may not be printed of a value.
	show func(string) string
}

// variable is the setting's name in the environment, flag its name on the command line.
func (s setting) variable() string {
	return "SHOAL_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

func (s setting) flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.key) }

// visible is a value as it may be shown.
func (s setting) visible(value string) string {
	if s.show != nil {
		return s.show(value)
	}
	return value
}

// retiredSetting is a key that was a setting until some release.
type retiredSetting struct {
	key string
	// instead says what to use now; forgetAfter is the date after which the row may be removed and the key is merely unknown.
	instead     string
	forgetAfter string
}

// schema is everything that may be set.
type schema struct {
	settings []setting
	retired  []retiredSetting
}

func currentSchema() schema {
	return schema{
		settings: slices.Concat(serverSettings(), dialectSettings(), sandboxSettings(), quotaSettings(), hostSettings(), outboundSettings()),
		retired:  nil,
	}
}

func (s schema) find(key string) (setting, bool) {
	i := slices.IndexFunc(s.settings, func(x setting) bool { return x.key == key })
	if i < 0 {
		return setting{}, false
	}
	return s.settings[i], true
}

func serverSettings() []setting {
	return []setting{
		{
			key: "data_dir", path: true, def: "/var/lib/shoal", allowed: "an absolute path",
			doc:     "Directory that holds everything the server keeps: database, trees, keys. One server at a time uses it.",
			binding: text(func(c *Config) *string { return &c.DataDir }, filepath.IsAbs),
		}, {
			key: "listen", def: "127.0.0.1:8700", allowed: "HOST:PORT, beyond loopback only with tls_cert and tls_key, and without tls_listen",
			doc:     "Address of the API. Port 0 takes a free one.",
			binding: text(func(c *Config) *string { return &c.Listen }, isAddress),
		}, {
			key: "hosts", def: "", allowed: "a list of host names without port, or empty",
			doc: "Names by which a server on loopback is called beside localhost, such as that of a proxy before it. A request that names " +
				"another host is refused, so that no web page reaches the server by a name of its own.",
			binding: list(func(c *Config) *[]string { return &c.Hosts }, isHostName),
		}, {
			key: "tls_cert", path: true, def: "", allowed: "an absolute path to a PEM file, together with tls_key",
			doc: "Certificate chain of the server. With tls_listen it is used there, else at all other addresses. Empty means plain HTTP, on " +
				"loopback only, and at tls_listen a certificate of the installation's own authority (`shoal ca`).",
			binding: text(func(c *Config) *string { return &c.TLSCert }, emptyOr(filepath.IsAbs)),
		}, {
			key: "tls_key", path: true, def: "", allowed: "an absolute path to a PEM file, together with tls_cert",
			doc:     "Private key of tls_cert.",
			binding: text(func(c *Config) *string { return &c.TLSKey }, emptyOr(filepath.IsAbs)),
		}, {
			key: "tls_listen", def: "", allowed: "HOST:PORT, or empty for none",
			doc: "Address at which everything is served over TLS, by host name: the API at domain, E2B's protocol below e2b.domain and " +
				"PandaStack's below panda.domain. All other addresses are then plain HTTP and on loopback only.",
			binding: text(func(c *Config) *string { return &c.TLSListen }, emptyOr(isAddress)),
		}, {
			key: "domain", def: "", allowed: "a DNS name in lower case, with a port if clients need one, such as shoal.example.com or shoal.test:8443; or empty",
			doc: "DNS name by which clients know this server. It and *.domain, *.e2b.domain and *.panda.domain must lead to tls_listen, or to a proxy that " +
				"passes the Host header on. Without a port here clients are told that of tls_listen.",
			binding: text(func(c *Config) *string { return &c.Domain }, emptyOr(isDomain)),
		}, {
			key: "log.level", def: "info", allowed: "debug, info, warn or error",
			doc:     "The least severe messages that are logged. At info a request that creates, changes or ends a sandbox or an exec is a line, and so is every one that fails; one that only looks, moves a file or carries input is logged at debug.",
			binding: text(func(c *Config) *string { return &c.Log.Level }, oneOf("debug", "info", "warn", "error")),
		}, {
			key: "log.format", def: "text", allowed: "text or json",
			doc:     "How a log line is written.",
			binding: text(func(c *Config) *string { return &c.Log.Format }, oneOf("text", "json")),
		},
	}
}

func sandboxSettings() []setting {
	return []setting{
		{
			key: "ttl.default", def: "1h", allowed: "a duration such as 90s, 1h30m or 7d, at least 1s and at most ttl.max",
			doc:     "Age at which an ephemeral sandbox is deleted whose creator named neither a ttl nor another rule that deletes it. For clients of PandaStack it is the idle rule of one without a ttl.",
			binding: duration(func(c *Config) *time.Duration { return &c.TTL.Default }, time.Second),
		}, {
			key: "ttl.max", def: "24h", allowed: "a duration such as 90s, 1h30m or 7d, at least 1s",
			doc:     "Greatest ttl that an ephemeral sandbox may be given. Persistent sandboxes and those that another rule deletes may be without one.",
			binding: duration(func(c *Config) *time.Duration { return &c.TTL.Max }, time.Second),
		}, {
			key: "sandbox.vcpus", def: "1", allowed: "a number from 0.1 to sandbox.vcpus_max",
			doc:     "Processors of a sandbox whose creator named none; a fraction is a share of one.",
			binding: fraction(func(c *Config) *float64 { return &c.Sandbox.VCPUs }, func(v float64) bool { return v >= 0.1 && v <= 4096 }),
		}, {
			key: "sandbox.vcpus_max", def: "0", allowed: "a number from 0.1 to 4096, or 0 for as many as the host has",
			doc:     "Most processors that a sandbox may have.",
			binding: fraction(func(c *Config) *float64 { return &c.Sandbox.VCPUsMax }, func(v float64) bool { return v == 0 || v >= 0.1 && v <= 4096 }),
		}, {
			key: "sandbox.memory", def: "512M", allowed: "a size such as 512M or 4G, from 64M to sandbox.memory_max",
			doc:     "Memory of a sandbox whose creator named none.",
			binding: size(func(c *Config) *Size { return &c.Sandbox.Memory }, atLeast(64*MiB)),
		}, {
			key: "sandbox.memory_max", def: "8G", allowed: "a size such as 512M or 4G, at least 64M",
			doc:     "Most memory that a sandbox may have.",
			binding: size(func(c *Config) *Size { return &c.Sandbox.MemoryMax }, atLeast(64*MiB)),
		}, {
			key: "sandbox.disk", def: "4G", allowed: "a size such as 512M or 4G, at least 16M, or 0 for no limit",
			doc: "What a sandbox whose creator named no limit may write beyond its template. On a host whose disk can't enforce limits " +
				"the default is 0.",
			binding: size(func(c *Config) *Size { return &c.Sandbox.Disk }, zeroOr(atLeast(16*MiB))),
		}, {
			key: "sandbox.pids", def: "0", allowed: "a whole number from 16 to sandbox.pids_max, or 0 for as many as suit its memory",
			doc: "Processes and threads of a sandbox whose creator named no number. At 0 it is one for each 1.5 MiB of its memory, at least 64 " +
				"and at most 1024.",
			binding: whole(func(c *Config) *int { return &c.Sandbox.Pids }, 0, 32768),
		}, {
			key: "sandbox.pids_max", def: "4096", allowed: "a whole number from 16 to 32768",
			doc:     "Most processes and threads that a sandbox may have. Each process is some two threads of the host.",
			binding: whole(func(c *Config) *int { return &c.Sandbox.PidsMax }, 16, 32768),
		}, {
			key: "sandbox.open_files", def: "32768", allowed: "a whole number from 1024 to sandbox.open_files_max",
			doc:     "Open files that each process of a sandbox may have whose creator named no number. Root inside can raise it. Of files on its disk all processes of a sandbox together can have 65536 open, or as many as the server itself where it may not raise that: half of it is the default if that is less.",
			binding: whole(func(c *Config) *int { return &c.Sandbox.OpenFiles }, 1024, 1<<20),
		}, {
			key: "sandbox.open_files_max", def: "1048576", allowed: "a whole number from 1024 to 1048576",
			doc:     "Most open files that a creator may name.",
			binding: whole(func(c *Config) *int { return &c.Sandbox.OpenFilesMax }, 1024, 1<<20),
		}, {
			key: "sandbox.cpu_weight", def: "100", allowed: "a whole number from 1 to sandbox.cpu_weight_max",
			doc: "Weight of a sandbox whose creator named none: where sandboxes together want more processor time than there is, each gets " +
				"a share by its weight.",
			binding: whole(func(c *Config) *int { return &c.Sandbox.CPUWeight }, 1, 10_000),
		}, {
			key: "sandbox.cpu_weight_max", def: "100", allowed: "a whole number from 1 to 10000",
			doc:     "Greatest weight that a creator may name. At the default they may ask for less than others have, never for more.",
			binding: whole(func(c *Config) *int { return &c.Sandbox.CPUWeightMax }, 1, 10_000),
		}, {
			key: "sandbox.io_weight", def: "100", allowed: "a whole number from 1 to sandbox.io_weight_max",
			doc: "Weight of a sandbox whose creator named none: where sandboxes together want more of the disk's bandwidth than there is, " +
				"each gets a share by its weight. It has no effect where the host can't weigh: see `shoal doctor`.",
			binding: whole(func(c *Config) *int { return &c.Sandbox.IOWeight }, 1, 10_000),
		}, {
			key: "sandbox.io_weight_max", def: "100", allowed: "a whole number from 1 to 10000",
			doc: "Greatest weight of that kind that a creator may name. Where the disk's scheduler is BFQ the greatest is 1000, whatever is " +
				"set here.",
			binding: whole(func(c *Config) *int { return &c.Sandbox.IOWeightMax }, 1, 10_000),
		},
	}
}

func hostSettings() []setting {
	return []setting{
		{
			key: "node.max_sandboxes", def: "1000", allowed: "a whole number from 1 to 100000",
			doc:     "Most sandboxes on this machine at once.",
			binding: whole(func(c *Config) *int { return &c.Node.MaxSandboxes }, 1, 100_000),
		}, {
			key: "node.memory_overcommit", def: "3", allowed: "a number from 0.1 to 100",
			doc: "How many times the host's memory less node.memory_reserve may be promised to sandboxes, as the sum of their memory " +
				"limits. Idle sandboxes use a small part of their limit. What each takes beside its limit is not counted: about 25 MiB " +
				"for its own kernel when idle, and with it up to 10 % of the limit, or 128 MiB if that is more, for the moment until " +
				"the process that takes too much is killed. At 1 all of them can use all of their limit at once only if " +
				"node.memory_reserve is larger by that much for each.",
			binding: fraction(func(c *Config) *float64 { return &c.Node.MemoryOvercommit }, func(v float64) bool { return v >= 0.1 && v <= 100 }),
		}, {
			key: "node.memory_reserve", def: "512M", allowed: "a size such as 512M or 4G, or 0",
			doc:     "Memory of the host that is never promised: it is for the system and the server.",
			binding: size(func(c *Config) *Size { return &c.Node.MemoryReserve }, atLeast(0)),
		}, {
			key: "pool.max_size", def: "0", allowed: "a size such as 512M or 4G, at least 1G, or 0 for automatic",
			doc: "Greatest size of the image file that holds all trees where data_dir is not on btrfs. Automatic is 80 % of the space " +
				"that is free when the file is first made. It grows as needed; raising this later makes room at once.",
			binding: size(func(c *Config) *Size { return &c.Pool.MaxSize }, zeroOr(atLeast(GiB))),
		}, {
			key: "pool.min_host_free", def: "1G", allowed: "a size such as 512M or 4G, or 0",
			doc:     "Space on the host's disk that the growing image file leaves free.",
			binding: size(func(c *Config) *Size { return &c.Pool.MinHostFree }, atLeast(0)),
		}, {
			key: "runtime.cgroup_parent", def: "shoal", allowed: "a relative path of letters, digits, '.', '_' and '-'",
			doc:     "Control group under which every sandbox has its own.",
			binding: text(func(c *Config) *string { return &c.Runtime.CgroupParent }, isCgroup),
		}, {
			key: "runtime.owner_uid", def: "1000000", allowed: "a whole number from 65536 to 4294836224",
			doc: "First of the 65536 user ids of the host that sandboxes' users are mapped to. The same ids as groups. No account of " +
				"the host may lie among them.",
			binding: whole(func(c *Config) *int { return &c.Runtime.OwnerUID }, 65536, 4294836224),
		}, {
			key: "templates.bootstrap", def: "minimal,base", allowed: "a list of minimal and base, or empty",
			doc:     "Templates that the server makes at its first start, in this order.",
			binding: list(func(c *Config) *[]string { return &c.Templates.Bootstrap }, oneOf("minimal", "base")),
		}, {
			key: "templates.mirror", def: "", allowed: "an http, https or file URL",
			doc:     "Package mirror for these templates. Empty means the host's own apt configuration. A password in it is not printed.",
			binding: text(func(c *Config) *string { return &c.Templates.Mirror }, emptyOr(isMirror)),
			show:    hidePassword,
		}, {
			key: "templates.suite", def: "", allowed: "the name of a release, such as bookworm",
			doc:     "Release of the distribution for these templates. Empty means the host's own.",
			binding: text(func(c *Config) *string { return &c.Templates.Suite }, emptyOr(regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`).MatchString)),
		},
	}
}

func atLeast(least Size) func(Size) bool { return func(v Size) bool { return v >= least } }

func zeroOr(ok func(Size) bool) func(Size) bool { return func(v Size) bool { return v == 0 || ok(v) } }

func emptyOr(ok func(string) bool) func(string) bool {
	return func(v string) bool { return v == "" || ok(v) }
}

func oneOf(words ...string) func(string) bool {
	return func(v string) bool { return slices.Contains(words, v) }
}

func isAddress(v string) bool {
	_, port, err := net.SplitHostPort(v)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

var hostName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`) })

func isHostName(v string) bool { return hostName().MatchString(v) }

// isLoopback reports whether only this machine can reach an address. A name other than localhost might be anything.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func isCgroup(v string) bool {
	for part := range strings.SplitSeq(v, "/") {
		if !regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`).MatchString(part) {
			return false
		}
	}
	return true
}

func isMirror(v string) bool {
	u, err := url.Parse(v)
	if err != nil || strings.ContainsAny(v, " \t\n") {
		return false
	}
	switch u.Scheme {
	case "http", "https":
		return u.Host != ""
	case "file":
		return strings.HasPrefix(u.Path, "/")
	}
	return false
}

// hidePassword hides what may be a password, also in a value that is no proper URL.
func hidePassword(v string) string {
	if u, err := url.Parse(v); err == nil {
		return u.Redacted()
	}
	return "(hidden: not a URL)"
}
