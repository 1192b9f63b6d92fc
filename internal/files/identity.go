package files

// The files that the guest agent writes when it learns whose machine it is. Of HostsFile only the line that HostsMark ends is its own, or
// all of it, which is DefaultHosts then, where there was none.
const (
	HostnameFile  = "/etc/hostname"
	MachineIDFile = "/etc/machine-id"
	HostsFile     = "/etc/hosts"
	HostsMark     = "# this sandbox"
	DefaultHosts  = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
)
