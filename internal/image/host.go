package image

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"shoal/internal/image/jail"
)

// host is what the host's apt knows that a bootstrap needs.
type host struct {
	arch         string
	distribution distribution
	// known is false if the host is neither Debian, Ubuntu nor one of their derivatives.
	known bool
	// sources are the distribution's own repositories as the host reaches them; may be empty.
	sources []source
	// options are apt settings for downloads, each as "Name "value"".
	options []string
	// auth is the content of apt's auth.conf files.
	auth []byte
}

// readHost asks the host's apt. root is "/" but in tests.
func readHost(ctx context.Context, root string) (host, error) {
	arch, err := exec.CommandContext(ctx, "dpkg", "--print-architecture").Output()
	if err != nil {
		return host{}, fmt.Errorf("ask dpkg for the architecture: %w", err)
	}
	dump, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return host{}, fmt.Errorf("read apt's configuration: %w", err)
	}
	h := host{arch: strings.TrimSpace(string(arch)), options: downloadOptions(string(dump))}
	release, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return host{}, fmt.Errorf("read os-release: %w", err)
	}
	h.distribution, h.known = hostDistribution(release)
	if h.known {
		h.sources = h.distribution.own(readSources(root, h.arch), func(s source) string { return originOf(root, s) })
	}
	h.auth = readAll(root, "etc/apt/auth.conf", "etc/apt/auth.conf.d/*.conf")
	return h, nil
}

// readSources reads every file that apt takes its repositories from.
func readSources(root, arch string) []source {
	var out []source
	for _, pattern := range []string{"etc/apt/sources.list", "etc/apt/sources.list.d/*.list", "etc/apt/sources.list.d/*.sources"} {
		names, _ := filepath.Glob(filepath.Join(root, pattern)) // The only error is a malformed pattern.
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil {
				out = append(out, parseSources(name, data, arch)...)
			}
		}
	}
	return out
}

// readAll joins the contents of files; those that can't be read are as good as absent.
func readAll(root string, patterns ...string) []byte {
	var out []byte
	for _, pattern := range patterns {
		names, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil {
				out = append(append(out, data...), '\n')
			}
		}
	}
	return out
}

// originOf reads who says to have made a repository from the host's last download of its release file.
func originOf(root string, s source) string {
	u, err := url.Parse(s.URI)
	if err != nil {
		return ""
	}
	path := strings.Trim(u.Host+u.Path, "/") + "/dists/" + strings.Trim(s.Suite, "/")
	base := strings.ReplaceAll(strings.ReplaceAll(path, "_", "%5f"), "/", "_")
	for _, suffix := range []string{"_InRelease", "_Release"} {
		data, err := os.ReadFile(filepath.Join(root, "var/lib/apt/lists", base+suffix))
		if err != nil {
			continue
		}
		for line := range strings.SplitSeq(string(data), "\n") {
			if origin, ok := strings.CutPrefix(line, "Origin:"); ok {
				return strings.TrimSpace(origin)
			}
		}
	}
	return ""
}

// downloadOptions picks from `apt-config dump` how the host reaches its mirrors: proxies, certificates, retries, and
// whether old release files are accepted. Nothing else of the host's apt concerns a tree.
func downloadOptions(dump string) []string {
	wanted := []string{
		"Acquire::http::", "Acquire::https::", "Acquire::socks::", "Acquire::ForceIPv4", "Acquire::ForceIPv6",
		"Acquire::Retries", "Acquire::Check-Valid-Until", "Acquire::Check-Date", "Acquire::Max-FutureTime",
		"Acquire::Queue-Mode",
	}
	var out []string
	for line := range strings.SplitSeq(dump, "\n") {
		line = strings.TrimSuffix(strings.TrimSpace(line), ";")
		name, value, ok := strings.Cut(line, " ")
		if !ok || value == `""` {
			continue
		}
		if slices.ContainsFunc(wanted, func(prefix string) bool {
			return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
		}) {
			out = append(out, name+" "+value)
		}
	}
	return out
}

// environmentFor is the environment of a jail's program: a fixed one, and the proxies that the server itself was given.
func environmentFor(getenv func(string) string) []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent", "TMPDIR=" + jail.Dir,
		"LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "container=lxc",
	}
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
		if value := getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}
