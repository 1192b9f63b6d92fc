package oci

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusedCalls are what an unpacker never needs: another program, another namespace, another process's memory, the network, and the parts
// of the kernel in which its mistakes have mostly been. They answer EPERM.
func refusedCalls() []uint32 {
	return []uint32{
		unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT,
		unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
		unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_IO_URING_SETUP, unix.SYS_USERFAULTFD,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_MEMFD_CREATE, unix.SYS_PERSONALITY,
		unix.SYS_SWAPON, unix.SYS_QUOTACTL, unix.SYS_FANOTIFY_INIT,
	}
}

// Where struct seccomp_data has what is looked at.
const (
	atCall = 0
	atArch = 4
	atArg0 = 16
)

// x32 marks calls of the x32 interface, which are other numbers for the same.
const x32 = 0x40000000

// filterCalls asks the kernel to refuse calls, on every thread and for good.
func filterCalls() error {
	arch, err := auditArch()
	if err != nil {
		return err
	}
	program := newFilter(arch)
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// The other threads are synchronised by the kernel: it is one call, and all or nothing.
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog))) //nolint:gosec // The kernel copies it during the call.
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("set the filter of system calls: %w", errno)
	}
	return nil
}

func auditArch() (uint32, error) {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64, nil
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64, nil
	}
	return 0, fmt.Errorf("the system calls of %s are not known", runtime.GOARCH)
}

// newFilter returns the program. Each line is an instruction; a jump counts the lines to leave out.
func newFilter(arch uint32) []unix.SockFilter {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		bits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	refuse := func(errno uint32) unix.SockFilter {
		return unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | errno}
	}
	program := []unix.SockFilter{
		{Code: load, K: atArch},
		{Code: equal, Jt: 1, K: arch},
		{Code: ret, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: load, K: atCall},
		{Code: least, Jf: 1, K: x32},
		refuse(uint32(unix.EPERM)),
		// A new process may only be a thread of this one. clone3 has its flags where a filter can't look: Go and C libraries then use clone.
		{Code: equal, Jf: 1, K: unix.SYS_CLONE3},
		refuse(uint32(unix.ENOSYS)),
		{Code: equal, Jf: 4, K: unix.SYS_CLONE},
		{Code: load, K: atArg0},
		{Code: bits, Jt: 1, K: unix.CLONE_THREAD},
		refuse(uint32(unix.EPERM)),
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	for _, call := range refusedCalls() {
		program = append(program, unix.SockFilter{Code: equal, Jf: 1, K: call}, refuse(uint32(unix.EPERM)))
	}
	return append(program, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
}
