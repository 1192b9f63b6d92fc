package shoal_test

import (
	"path"
	"slices"
	"strings"
)

// group is a ring of the architecture. Dependencies point inward.
type group string

// The groups.
const (
	groupCore     group = "core"
	groupLeaf     group = "leaf"
	groupContract group = "contract"
	groupDriver   group = "driver"
	groupPolicy   group = "policy"
	groupService  group = "service"
	groupEdge     group = "edge"
	groupGuest    group = "guest"
	groupCLI      group = "cli"
	groupAPI      group = "api"
	groupSDK      group = "sdk"
	groupJoin     group = "join" // cmd, test, tools and the root: they may import anything
)

// place says to which group a folder and everything below it belong. The longest match wins.
type place struct {
	dir   string
	group group
}

var places = []place{
	{"internal/core", groupCore},
	{"internal/config", groupLeaf},
	{"internal/obs", groupLeaf},
	{"internal/failpoint", groupLeaf},
	{"internal/durable", groupLeaf},
	{"internal/mountinfo", groupLeaf},
	{"internal/blockdev", groupLeaf},
	{"internal/osthread", groupLeaf},
	{"internal/pki", groupLeaf},
	{"internal/seal", groupLeaf},
	{"internal/outbound", groupLeaf},
	{"internal/httpserve", groupLeaf},
	{"internal/files", groupLeaf},
	{"internal/archive", groupLeaf},
	{"internal/diff", groupLeaf},
	{"internal/guest/wire", groupLeaf},
	{"internal/guest/client", groupLeaf},
	{"internal/runtime", groupContract},
	{"internal/disk", groupContract},
	{"internal/network", groupContract},
	{"internal/blob", groupContract},
	{"internal/store", groupContract},
	{"internal/schedule", groupPolicy},
	{"internal/image", groupPolicy},
	{"internal/control", groupService},
	{"internal/node", groupService},
	{"internal/build", groupService},
	{"internal/egress", groupService},
	{"internal/gateway", groupService},
	{"internal/httpapi", groupEdge},
	{"internal/dialect", groupEdge},
	{"internal/guest", groupGuest},
	{"internal/cli", groupCLI},
	{"api", groupAPI},
	{"sdk/go", groupSDK},
	{"cmd", groupJoin},
	{"test", groupJoin},
	{"tools", groupJoin},
}

// mayImport is the import rule. A group may always import itself where sameGroup below allows it.
var mayImport = map[group][]group{
	groupCore:     {},
	groupLeaf:     {groupCore, groupLeaf},
	groupContract: {groupCore, groupLeaf},
	groupDriver:   {groupCore, groupLeaf, groupContract},
	groupPolicy:   {groupCore, groupLeaf, groupContract},
	groupService:  {groupCore, groupLeaf, groupContract, groupPolicy},
	groupEdge:     {groupCore, groupLeaf, groupContract, groupService, groupAPI},
	groupGuest:    {groupCore, groupLeaf},
	groupCLI:      {groupSDK, groupAPI, groupLeaf},
	groupAPI:      {},
	groupSDK:      {groupAPI},
}

// instead says what to do about an import that the rule refuses.
var instead = map[group]string{
	groupCore:     "core holds nouns and rules: let the outer package depend on a port in core",
	groupLeaf:     "a leaf is used by everyone: hand the value in",
	groupContract: "a contract must not know who implements or uses it",
	groupDriver:   "a driver knows its contract only: join drivers in cmd/ or in a service, through contracts",
	groupPolicy:   "a policy is handed what it decides about",
	groupService:  "services meet at ports in core and never know a driver: cmd/ joins them",
	groupEdge:     "an edge translates: ask a service",
	groupGuest:    "the guest agent stays small: it shares guest/wire, archive and files with the host and nothing else",
	groupCLI:      "the CLI is a customer of the API: go through sdk/go",
	groupAPI:      "api is the source that others are made from",
	groupSDK:      "the SDK is what strangers import: it depends on nothing internal",
}

// placeOf returns the group of a package folder, and the root of the unit that may freely import inside itself: the driver,
// the service or the folder of the table.
func placeOf(dir string) (g group, unit string, ok bool) {
	if dir == "." {
		return groupJoin, ".", true
	}
	best := place{}
	for _, p := range places {
		if (dir == p.dir || strings.HasPrefix(dir, p.dir+"/")) && len(p.dir) > len(best.dir) {
			best = p
		}
	}
	if best.dir == "" {
		return "", "", false
	}
	if best.group == groupContract && dir != best.dir {
		name, _, _ := strings.Cut(strings.TrimPrefix(dir, best.dir+"/"), "/")
		return groupDriver, best.dir + "/" + name, true
	}
	return best.group, best.dir, true
}

// isSuite reports whether a driver folder is a contract suite or a fake, which any test may use.
func isSuite(unit string) bool {
	name := path.Base(unit)
	return name == "fake" || strings.HasSuffix(name, "test")
}

// needsNoRoot lists real drivers that tests of other packages may use, because they need neither root nor a kernel feature.
var needsNoRoot = []string{"internal/store/sqlite", "internal/blob/file"}

// allowedImport says whether a file in folder from may import the package in folder to.
func allowedImport(from, to string, test bool) bool {
	fg, fu, _ := placeOf(from)
	tg, tu, _ := placeOf(to)
	if fg == groupJoin || fu == tu {
		return true
	}
	if fg == groupService && fu == "internal/build" && tu == "internal/control" {
		return true // A build runs its steps in sandboxes, as any caller of control does.
	}
	if test {
		// Tests may join what they like, except that real drivers which need a machine stay under test/ and cmd/.
		return tg != groupDriver || isSuite(tu) || slices.Contains(needsNoRoot, tu)
	}
	if tg == groupLeaf && fg == groupCLI && strings.HasPrefix(to, "internal/guest/") {
		return false
	}
	return slices.Contains(mayImport[fg], tg)
}

// fence keeps a package of others in the folders that own it.
type fence struct {
	pkg    string
	owners []string
	why    string
}

// drivers stands for every driver folder in a fence.
const drivers = "<drivers>"

var fences = []fence{
	{"gvisor.dev/gvisor", []string{"internal/runtime/gvisor"}, "its next version may split: one folder must be able to follow"},
	{"database/sql", []string{"internal/store"}, "SQL is the store's business: add a method to the contract"},
	{"modernc.org/sqlite", []string{"internal/store/sqlite"}, "SQL is the store's business: add a method to the contract"},
	{"github.com/pressly/goose", []string{"internal/store/sqlite"}, "migrations are the store's business"},
	{"os/exec", []string{
		drivers, "internal/image", "internal/guest", "internal/cli", "internal/node/doctor", "cmd", "test", "tools", ".",
	}, "starting programs belongs to drivers, image, guest, cli and doctor"},
	{"github.com/google/nftables", []string{"internal/network/linux", "internal/node/doctor", "test"}, "packet rules are the network driver's business"},
	{"github.com/google/go-containerregistry", []string{"internal/image", "test"}, "whatever else speaks to registries would need the same guard"},
	{"github.com/spf13/cobra", []string{"internal/cli", "cmd", "tools"}, "flags are an edge's business"},
	{"testing", []string{"<tests>", drivers, "test"}, "a program must not carry the test framework"},
}

// coreMayNot are the standard library packages that core and the contracts leave to others.
var coreMayNot = []string{"net/http", "database/sql", "os/exec", "os", "log", "log/slog", "testing"}

// fenced says why a file must not import pkg, empty if it may.
func fenced(s source, pkg string) string {
	for _, f := range fences {
		if pkg != f.pkg && !strings.HasPrefix(pkg, f.pkg+"/") {
			continue
		}
		if s.test && (f.pkg == "testing" || f.pkg == "os/exec") {
			continue // Tests start programs, and know the library that they belong to.
		}
		g, _, _ := placeOf(s.dir)
		inside := slices.ContainsFunc(f.owners, func(o string) bool {
			return o == drivers && g == groupDriver || s.dir == o || strings.HasPrefix(s.dir, o+"/")
		})
		if !inside {
			return f.why
		}
	}
	if s.dir == "internal/core" && !s.test && slices.Contains(coreMayNot, pkg) {
		return "core does nothing itself: it has ports for that"
	}
	return ""
}
