// Package jail runs a program as nobody in particular: as root of a user namespace whose ids are the range that sandboxes are mapped
// to, in namespaces of its own. Package tools and what unpacks images run in one, so that neither a maintainer script nor a mistake in
// a parser is the host's root.
//
// It must not know what is run. Start reading at jail.go.
package jail

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

// IDs is how many guest ids a tree may use, from 0: the size of the range that sandboxes are mapped to.
const IDs = 65536

// Dir is where a jail's private tmpfs is mounted: its own /tmp, world-readable, with the binds and files below it.
const Dir = "/tmp"

// Jail runs a program with the host's files at hand but as nobody in particular: as root of a user namespace whose ids
// are OwnerUID and up, in mount, pid, ipc and uts namespaces of its own. When the program ends, is killed, or this
// process dies, every process and mount of it is gone.
type Jail struct {
	// OwnerUID is the host uid and gid that the jail's ids start at.
	OwnerUID int
	// Binds are host directories by the name they have below Dir. The jail's root needn't be able to reach them otherwise.
	Binds map[string]string
	// Files are contents by the name they have below Dir. Nothing outside the jail ever sees them.
	Files map[string][]byte
	// NoNetwork gives it a network namespace with nothing in it.
	NoNetwork bool
}

// Command is a program to run in a jail.
type Command struct {
	// Path is the file to run, Argv what it is told, its own name first.
	Path string
	Argv []string
	Env  []string
	// Stdin is nil for no input. Of an *os.File the program has the file itself.
	Stdin io.Reader
	// Stdout and Stderr receive what it writes; the same writer is written to by one goroutine at a time.
	Stdout, Stderr io.Writer
	// Extra are open files that it has from descriptor 3 on.
	Extra []*os.File
}

// Run runs argv to its end. output receives what it writes to stdout and stderr. When ctx ends it is killed, and the
// error is ctx's.
func (j Jail) Run(ctx context.Context, argv, env []string, output io.Writer) error {
	return j.RunCommand(ctx, Command{Path: argv[0], Argv: argv, Env: env, Stdout: output, Stderr: output})
}

// RunCommand runs a command to its end. When ctx ends it is killed, and the error is ctx's.
func (j Jail) RunCommand(ctx context.Context, c Command) error {
	err := osthread.Throwaway(func() error { return j.runOnThread(ctx, c) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (j Jail) runOnThread(ctx context.Context, c Command) error {
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
	cmd := exec.CommandContext(ctx, c.Path)
	cmd.Args, cmd.Env, cmd.Dir = c.Argv, c.Env, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = c.Stdin, c.Stdout, c.Stderr, c.Extra
	// The pid namespace dies with the program, so its pipes close at once; this only bounds the unforeseen.
	cmd.WaitDelay = 5 * time.Second
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: j.OwnerUID, Size: IDs}}
	flags := uintptr(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS)
	if j.NoNetwork {
		flags |= unix.CLONE_NEWNET
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: flags,
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
func (j Jail) prepare() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	// Slave, not private: what the host unmounts meanwhile is not kept alive here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("detach mounts from the host's: %w", err)
	}
	// Cloned before the tmpfs hides what may lie below it, and before the pool that they lie in is detached.
	sources := make(map[string]int, len(j.Binds))
	defer func() {
		for _, fd := range sources {
			_ = unix.Close(fd)
		}
	}()
	for name, dir := range j.Binds {
		fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		sources[name] = fd
	}
	if err := detachServers(); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", Dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mount the private /tmp: %w", err)
	}
	for name, fd := range sources {
		at := filepath.Join(Dir, name)
		if err := os.Mkdir(at, 0o755); err != nil { // the jail's root is another user.
			return fmt.Errorf("make a mount point: %w", err)
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("bind %s: %w", name, err)
		}
	}
	for name, data := range j.Files {
		at := filepath.Join(Dir, name)
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
