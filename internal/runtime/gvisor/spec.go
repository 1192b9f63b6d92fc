package gvisor

import (
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// agentPort is where the guest agent listens on the sandbox's own address. It is a fact of the network contract, which a
// runtime driver may not import.
const agentPort = 7070

// agentPath is the guest agent, from the directory that the guest sees at runDir.
const (
	runDir    = "/run/shoal"
	agentPath = runDir + "/agent"
)

// Where the creator's private mount namespace has a sandbox's directories. They are the same for every sandbox, and so is
// the spec.
const (
	stageRoot  = "root"
	stageRun   = "run"
	stageTmp   = "tmp"
	stageState = "state"
)

// guestCapabilities are what root inside has. They are capabilities in gVisor's own kernel, over the sandbox's own
// resources: user code is confined by the sentry, whatever they are, and the sentry's own capabilities on the host don't
// depend on them. So root inside is nearly the root that people and package managers expect: beside a container's usual set
// it may mount, trace (gdb, strace), change limits and priorities, and set up namespaces and interfaces of its own. Left out
// is what means nothing in a sandbox (modules, raw I/O, reboot, clock, audit) and CAP_NET_RAW, for which gVisor's raw sockets
// would have to be on.
func guestCapabilities() []string {
	return []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID",
		"CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_KILL", "CAP_LEASE", "CAP_LINUX_IMMUTABLE", "CAP_MKNOD", "CAP_NET_ADMIN",
		"CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID",
		"CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_SYS_NICE", "CAP_SYS_PTRACE", "CAP_SYS_RESOURCE", "CAP_SYS_TTY_CONFIG",
	}
}

// specInput is all in which the specs of two sandboxes differ.
type specInput struct {
	// stage is the creator's private directory.
	stage    string
	netNS    string
	hostname string
	ownerUID int
	ownerIDs int
}

// newSpec returns the one spec. A restore compares it with the checkpoint's: only root path, mount sources, namespace paths
// and hostname may differ there. No environment, resource limit or user is in it: these come from outside or by the guest
// agent.
func newSpec(in specInput) *specs.Spec {
	caps := guestCapabilities()
	owners := []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(in.ownerUID), Size: uint32(in.ownerIDs)}}
	return &specs.Spec{
		Version: "1.2.0",
		Process: &specs.Process{
			Args: []string{agentPath},
			Cwd:  "/",
			Capabilities: &specs.LinuxCapabilities{
				Bounding: caps, Effective: caps, Inheritable: caps, Permitted: caps,
			},
		},
		Root:     &specs.Root{Path: in.stage + "/" + stageRoot},
		Hostname: in.hostname,
		Mounts:   newMounts(in.stage),
		Linux: &specs.Linux{
			UIDMappings: owners,
			GIDMappings: owners,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.CgroupNamespace},
				{Type: specs.UserNamespace},
				{Type: specs.NetworkNamespace, Path: in.netNS},
			},
		},
	}
}

// newMounts returns the fixed mounts. /tmp is the tree's own /tmp mounted over itself: gVisor would else put an empty /tmp
// into memory without a word, where it counts as memory and is lost at stop.
func newMounts(stage string) []specs.Mount {
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "nodev", "mode=1777"}},
		{Destination: "/tmp", Type: "bind", Source: stage + "/" + stageTmp, Options: []string{"bind", "rw"}},
		{Destination: runDir, Type: "bind", Source: stage + "/" + stageRun, Options: []string{"bind", "ro"}},
	}
}
