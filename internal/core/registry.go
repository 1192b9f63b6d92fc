package core

import (
	"context"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// RegistryLogin is a login that a tenant keeps for one registry, for its own imports from there.
type RegistryLogin struct {
	Tenant TenantID
	// Host is the registry's as RegistryHost has it. A tenant keeps one login for each.
	Host string
	// Username is empty if the secret is a bearer token.
	Username string
	// Sealed is the password or token, encrypted: who has only the store can't read it.
	Sealed    []byte
	CreatedAt time.Time
	// UpdatedAt is when it was last replaced.
	UpdatedAt time.Time
}

// RegistryLoginSpec says what login to keep.
type RegistryLoginSpec struct {
	Host     string
	Username string
	Password Secret
}

// LoginFinder finds the login that is kept for a registry; both empty if there is none.
type LoginFinder func(ctx context.Context, host string) (username string, password Secret, err error)

// The events of kept logins. Their data name the registry.
const (
	EventLoginKept    EventType = "login.kept"
	EventLoginDeleted EventType = "login.deleted"
)

// DockerHub is the host of Docker Hub, which has several.
const DockerHub = "docker.io"

var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// RegistryHost is a registry's host as a kept login names it: HOST or HOST:PORT as it stands in the names of its images, in lower case,
// and docker.io for all names of Docker Hub.
func RegistryHost(text string) (string, error) {
	host := strings.ToLower(text)
	switch host {
	case DockerHub, "index.docker.io", "registry-1.docker.io":
		return DockerHub, nil
	}
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name, port = host[:i], host[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port != strconv.FormatUint(n, 10) {
			return "", notHost()
		}
	}
	literal := strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]")
	if literal {
		ip, err := netip.ParseAddr(name[1 : len(name)-1])
		if err != nil || !ip.Is6() || ip.Zone() != "" {
			return "", notHost()
		}
		return host, nil
	}
	// A word without dot and port is no host where an image is named: it is a part of Docker Hub.
	if len(name) > 253 || !hostName.MatchString(name) || port == "" && name != "localhost" && !strings.Contains(name, ".") {
		return "", notHost()
	}
	return host, nil
}

func notHost() error {
	return Invalid("host", "a registry is named as in the names of its images: ghcr.io, registry.example:5000, or docker.io for Docker Hub")
}
