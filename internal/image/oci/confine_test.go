package oci

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/image/jail"
)

// faceProbe is a face that tries what an unpacker that was taken over would try. It is only in this test's program.
const faceProbe = "probe"

// runProbe becomes the probe if it was started as that.
func runProbe() {
	if len(os.Args) != 2 || os.Args[0] != faceName || os.Args[1] != faceProbe {
		return
	}
	var out answer
	if c, err := readCommand(bufio.NewReader(os.Stdin)); err != nil || c.Limits == nil {
		out.Failure = failureOf(fmt.Errorf("no limits: %w", err))
	} else if err := confine(jail.Dir+"/"+treeName, c.Limits.Bytes); err != nil {
		out.Failure = failureOf(err)
	} else if got := attempts(); len(got) > 0 {
		out.Failure = &jailFail{Code: core.CodeInvalid, Message: strings.Join(got, "; ")}
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
	os.Exit(0)
}

// attempts returns what could be done that must not be.
func attempts() (got []string) {
	try := func(what string, err error, want ...error) {
		for _, w := range want {
			if errors.Is(err, w) {
				return
			}
		}
		got = append(got, fmt.Sprintf("%s: %v", what, err))
	}
	open := func(path string) error {
		fd, err := unix.Open(path, unix.O_RDONLY, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	for _, path := range []string{"/etc/passwd", "/proc/self/status", "/sys", "/dev/null", "/tmp", "/../../etc/passwd", "/usr/bin/env"} {
		try("open "+path, open(path), unix.ENOENT)
	}
	if list, err := os.ReadDir("/"); err != nil || len(list) != 1 || list[0].Name() != "mine" {
		got = append(got, fmt.Sprintf("the root has %v, %v", list, err))
	}
	_, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	try("socket", err, unix.EPERM)
	try("unshare", unix.Unshare(unix.CLONE_NEWUSER), unix.EPERM)
	try("mount", unix.Mount("none", "/mine", "tmpfs", 0, ""), unix.EPERM)
	try("chroot", unix.Chroot("/mine"), unix.EPERM)
	try("exec", unix.Exec("/mine", []string{"x"}, nil), unix.EPERM)
	try("ptrace", unix.PtraceAttach(1), unix.EPERM)
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
	if errno == 0 {
		got = append(got, "a process was made")
	}
	_, _, errno = unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	try("clone3", errno, unix.ENOSYS)
	try("device", unix.Mknod("/device", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), unix.EPERM)
	try("foreign owner", unix.Chown("/mine", 70000, 0), unix.EINVAL)
	try("trusted xattr", unix.Setxattr("/mine", "trusted.x", []byte("x"), 0), unix.EPERM)
	try("host name", unix.Sethostname([]byte("x")), unix.EPERM)
	try("another user", unix.Setuid(5), unix.EPERM)
	got = append(got, capabilities()...)
	if no, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || no != 1 {
		got = append(got, "no_new_privs is not set")
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &l); err != nil || l.Max != maxData {
		got = append(got, fmt.Sprintf("memory: %+v, %v", l, err))
	}
	for fd := 3; fd < 200; fd++ {
		var st unix.Stat_t
		// What the runtime has opened for itself is no file.
		if unix.Fstat(fd, &st) == nil && (st.Mode&unix.S_IFMT == unix.S_IFREG || st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Mode&unix.S_IFMT == unix.S_IFSOCK) {
			got = append(got, fmt.Sprintf("descriptor %d is open: %o", fd, st.Mode))
		}
	}
	return got
}

func capabilities() []string {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPGET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data)), 0); errno != 0 {
		return []string{"capget: " + errno.Error()}
	}
	want := uint32(1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID)
	want2 := uint32(1 << unix.CAP_SETFCAP)
	if data[0].Permitted != want|want2 || data[0].Inheritable != 0 || data[1].Permitted != 0 {
		return []string{fmt.Sprintf("capabilities %+v", data)}
	}
	return nil
}

// TestConfinement: a program that was taken over in the jail can do nothing but write the tree.
func TestConfinement(t *testing.T) {
	cfg := newConfig(t)
	if err := errors.Join(prepareDir(cfg), os.Mkdir(cfg.Dir+"/mine", 0o755), os.Chown(cfg.Dir+"/mine", testOwner, testOwner)); err != nil {
		t.Fatal(err)
	}
	j, err := startJail(t.Context(), cfg, faceProbe, map[string]string{treeName: cfg.Dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.command(command{Limits: &cfg.Limits}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.end(); err != nil {
		t.Error(err)
	}
	noTraces(t, cfg)
}

// TestFilterCoversItself: each refused call is in the program once, and what unpacking makes is not among them.
func TestFilterCoversItself(t *testing.T) {
	seen := map[uint32]bool{}
	for _, call := range refusedCalls() {
		if seen[call] {
			t.Errorf("call %d is there twice", call)
		}
		seen[call] = true
	}
	for _, call := range []uint32{unix.SYS_OPENAT2, unix.SYS_MKDIRAT, unix.SYS_LINKAT, unix.SYS_FCHOWN, unix.SYS_UTIMENSAT, unix.SYS_FUTEX, unix.SYS_MMAP} {
		if seen[call] {
			t.Errorf("call %d is needed", call)
		}
	}
}
