package config

import "time"

// Config is the effective configuration, valid as a whole. Load makes it.
//
// To add a setting: add a field here and a row to settings.go with key, default, what is allowed and one sentence that says
// what it does; bounds that involve a second setting go to validate.go; run `go test ./internal/config -update` to renew
// docs/reference/config.md. File key, environment variable and flag follow from the row.
//
// To retire one: take its field and row away and add a row to retired() with what to use instead and the date after which
// that row may go, at least a year on. Until then whoever still sets it is told so; the server never starts with a
// setting that it ignores. A change of meaning is a new key, never a new sense of an old one.
type Config struct {
	// DataDir holds everything that the server keeps.
	DataDir string
	// Listen is the API's address; TLSCert and TLSKey are the files that it needs to be reached from elsewhere.
	Listen  string
	TLSCert string
	TLSKey  string
	// TLSListen is the address at which everything is served by host name, empty for none. Where it is set, TLS is there and nowhere else.
	TLSListen string
	// Domain is the DNS name below which everything has a name, with a port if clients need one that is not TLSListen's; or empty.
	Domain string
	// Hosts are names that a server on loopback is called by, beside localhost and loopback addresses.
	Hosts []string

	E2B   Dialect
	Panda Dialect

	Log       Log
	TTL       TTL
	Sandbox   Sandbox
	Quota     Quota
	Node      Node
	Pool      Pool
	Runtime   Runtime
	Templates Templates
	Outbound  Outbound

	// origin says for each key where its value came from.
	origin map[string]origin
}

// Log is how the server logs.
type Log struct {
	// Level is debug, info, warn or error; Format is text or json.
	Level  string
	Format string
}

// TTL bounds the age of ephemeral sandboxes.
type TTL struct {
	Default time.Duration
	Max     time.Duration
}

// Sandbox is what a sandbox gets and may ask for.
type Sandbox struct {
	VCPUs float64
	// VCPUsMax is zero where the host's number of processors is the limit.
	VCPUsMax  float64
	Memory    Size
	MemoryMax Size
	// Disk is zero for no limit.
	Disk Size
	// Pids is zero for as many as suit the sandbox's memory.
	Pids, PidsMax           int
	OpenFiles, OpenFilesMax int
	CPUWeight, CPUWeightMax int
	IOWeight, IOWeightMax   int
}

// Quota is what each tenant may have unless it has a quota of its own; zero is no limit.
type Quota struct {
	Sandboxes        int
	CreatesPerMinute int
	VCPUs            float64
	Memory           Size
	Disk             Size
	Templates        int
	TemplateSize     Size
	Checkpoints      int
	CheckpointSize   Size
	Keys             int
	Execs            int
	// RequestsPerSecond bounds calls, Calls those under way at once.
	RequestsPerSecond float64
	Calls             int
}

// Node is how much this machine takes on.
type Node struct {
	MaxSandboxes int
	// MemoryOvercommit is how many times the memory that is not reserved may be promised to sandboxes.
	MemoryOvercommit float64
	MemoryReserve    Size
}

// Pool is the image file that holds the trees where the data directory is not on btrfs itself.
type Pool struct {
	// MaxSize is zero for automatic.
	MaxSize     Size
	MinHostFree Size
}

// Runtime is how sandboxes run on the host.
type Runtime struct {
	CgroupParent string
	OwnerUID     int
}

// Templates is which templates the server makes by itself, and out of what.
type Templates struct {
	Bootstrap []string
	// Mirror and Suite are empty where the host's own apt configuration is used.
	Mirror string
	Suite  string
	// MaxImage bounds an image that is imported, unpacked as well as packed.
	MaxImage Size
	// HTTPRegistries are the registries that are spoken to without TLS, as HOST or HOST:PORT.
	HTTPRegistries []string
}

// Outbound is how the server reaches what tenants name.
type Outbound struct {
	// Allow are CIDRs that are not public and may be reached all the same.
	Allow []string
	// Proxy is empty for none.
	Proxy string
}

// DefaultFile is read if no other file is named and it exists.
const DefaultFile = "/etc/shoal/shoal.yaml"

// origin is one source of a value, from weakest to strongest.
type origin struct {
	// text is how it is told: "default", "shoal.yaml line 3", "SHOAL_LISTEN" or "--listen".
	text string
	set  bool
}

// Origin tells where the value of a key came from: "default", a file and line, a variable or a flag.
func (c *Config) Origin(key string) string { return c.origin[key].text }

// IsSet reports whether anyone set the key, as opposed to its default.
func (c *Config) IsSet(key string) bool { return c.origin[key].set }
