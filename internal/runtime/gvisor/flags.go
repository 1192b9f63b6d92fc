package gvisor

import (
	"fmt"

	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"
)

// newConfig returns gVisor's configuration, the same for every sandbox. What is not named here has gVisor's default, and a
// change here that a memory image depends on needs a new PatchLevel.
func newConfig(rootDir, debugLogDir string) (*config.Config, error) {
	flags := flag.NewFlagSet("gvisor", flag.ContinueOnError)
	config.RegisterFlags(flags)
	settings := [][2]string{
		{"root", rootDir},
		{"platform", "systrap"},
		// We boot ourselves. The library calls this the old way and offers no other to a program that embeds it: see
		// docs/adr/0001-gvisor-inside-the-binary.md.
		{"sidecar-usage-policy", "LEGACY_DEPRECATED_SLOW_EMBEDDED_FALLBACK"},
		{"network", "sandbox"},
		// Files live on the host's tree: durable, and not in the memory image.
		{"overlay2", "none"},
		{"directfs", "true"},
		{"file-access", "exclusive"},
		{"file-access-mounts", "exclusive"},
		// A unix socket on the host's tree could not be checkpointed.
		{"host-uds", "none"},
		{"host-fifo", "none"},
		{"net-raw", "false"},
		// Connections end at a restore: two copies must not both go on with one connection.
		{"allow-live-tcp-migration", "false"},
		// sudo.
		{"allow-suid", "true"},
		{"in-sandbox-cgroup", "v2"},
		// The groups are ours (cgroup.go); gVisor would move its caller around.
		{"ignore-cgroups", "true"},
		// Checked once by the doctor instead of at each start.
		{"host-settings", "ignore"},
		{"oci-seccomp", "false"},
		{"allow-flag-override", "false"},
		{"restore-spec-validation", "enforce"},
	}
	if debugLogDir != "" {
		settings = append(settings, [][2]string{{"debug", "true"}, {"strace", "true"}, {"debug-log", debugLogDir + "/"}}...)
	}
	for _, s := range settings {
		if err := flags.Set(s[0], s[1]); err != nil {
			return nil, fmt.Errorf("set gVisor flag %s: %w", s[0], err)
		}
	}
	conf, err := config.NewFromFlags(flags)
	if err != nil {
		return nil, fmt.Errorf("make gVisor configuration: %w", err)
	}
	return conf, nil
}
