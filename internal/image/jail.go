package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/osthread"
)

// idCount is how many guest ids a tree may use, from 0: the size of the range that sandboxes are mapped to.
const idCount = 65536

// inJail is where a jail's private tmpfs is mounted: its own /tmp, world-readable, with the binds and files below it.
const inJail = "/tmp"

// jail runs a program with the host's files at hand but as nobody in particular: as root of a user namespace whose ids
// are OwnerUID and up, in mount, pid, ipc and uts namespaces of its own. When the program ends, is killed, or this
// process dies, every process and mount of it is gone.
type jail struct {
	// ownerUID is the host uid and gid that the jail's ids start at.
	ownerUID int
	// binds are host directories by the name they have below inJail. The jail's root needn't be able to reach them otherwise.
	binds map[string]string
	// files are contents by the name they have below inJail. Nothing outside the jail ever sees them.
	files map[string][]byte
}

// run runs argv to its end. output receives what it writes to stdout and stderr. When ctx ends it is killed, and the
// error is ctx's.
func (j jail) run(ctx context.Context, argv, env []string, output io.Writer) error {
	err := osthread.Throwaway(func() error { return j.runOnThread(ctx, argv, env, output) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (j jail) runOnThread(ctx context.Context, argv, env []string, output io.Writer) error {
	before, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the mount namespace: %w", err)
	}
	// Leaving the jail's namespace ends its mounts here and now. The thread's own end would too, a moment after run has returned.
	defer func() {
		_ = unix.Setns(before, unix.CLONE_NEWNS)
		_ = unix.Close(before)
	}()
	if err := j.prepare(); err != nil {
		return fmt.Errorf("prepare the jail: %w", err)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) // argv is built here from a fixed recipe.
	cmd.Env = env
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = output, output
	// The pid namespace dies with the program, so its pipes close at once; this only bounds the unforeseen.
	cmd.WaitDelay = 5 * time.Second
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: j.ownerUID, Size: idCount}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		// Package tools change groups, which only a privileged parent may grant.
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{Uid: 0, Gid: 0},
		Pdeathsig:  syscall.SIGKILL,
		// Out of the caller's process group: a Ctrl-C at the server's terminal is the server's business.
		Setsid: true,
	}
	return cmd.Run()
}

// prepare gives the calling thread its own mount namespace with the jail's tmpfs, binds and files in it.
func (j jail) prepare() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	// Slave, not private: what the host unmounts meanwhile is not kept alive here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("detach mounts from the host's: %w", err)
	}
	// Cloned before the tmpfs hides what may lie below it, and before the pool that they lie in is detached.
	sources := make(map[string]int, len(j.binds))
	defer func() {
		for _, fd := range sources {
			_ = unix.Close(fd)
		}
	}()
	for name, dir := range j.binds {
		fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		sources[name] = fd
	}
	if err := detachServers(); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", inJail, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mount the private /tmp: %w", err)
	}
	for name, fd := range sources {
		at := filepath.Join(inJail, name)
		if err := os.Mkdir(at, 0o755); err != nil { // the jail's root is another user.
			return fmt.Errorf("make a mount point: %w", err)
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("bind %s: %w", name, err)
		}
	}
	for name, data := range j.files {
		at := filepath.Join(inJail, name)
		if err := os.WriteFile(at, data, 0o644); err != nil { // read by another user, seen by no other.
			return fmt.Errorf("write %s: %w", name, err)
		}
		// The umask of the server must not decide whether the jail can read it.
		if err := os.Chmod(at, 0o755); err != nil { // as above; some of them are programs.
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
