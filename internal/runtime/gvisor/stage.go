package gvisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The stage is a small memory filesystem in the creator's private mount namespace, at a directory that every system has,
// with the sandbox's directories mounted below it at fixed names. It is there for three reasons: sentry and gofer are
// unprivileged users, who reach these directories without the data directory being open to others; the spec is the same for
// every sandbox; and paths are short however long the data directory's is (a socket's path is at most 108 bytes). The
// kernel takes it all down with the last process in that namespace.

// stageDirs are where the stage may be, in order of preference: directories that gVisor itself does not use.
func stageDirs() []string { return []string{"/mnt", "/srv", "/media", "/opt", "/home", "/var"} }

// newStage sets the stage for a job and returns its path.
func newStage(j job) (string, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return "", fmt.Errorf("separate mounts: %w", err)
	}
	stage, err := pickStage(stageDirs(), []string{j.StateDir, j.RootFS, j.RunDir, j.DebugLogDir})
	if err != nil {
		return "", err
	}
	if err := checkTree(j); err != nil {
		return "", err
	}
	if err := unix.Mount("shoal-stage", stage, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, "mode=0711,size=1m"); err != nil {
		return "", fmt.Errorf("mount stage: %w", err)
	}
	for _, m := range []struct{ name, source string }{
		{stageState, j.StateDir}, {stageRoot, j.RootFS}, {stageRun, j.RunDir},
	} {
		if err := bindDir(m.source, filepath.Join(stage, m.name)); err != nil {
			return "", fmt.Errorf("stage %s: %w", m.name, err)
		}
	}
	if err := stageTmpDir(filepath.Join(stage, stageRoot), filepath.Join(stage, stageTmp), j.OwnerUID); err != nil {
		return "", fmt.Errorf("stage tmp: %w", err)
	}
	return stage, nil
}

// pickStage returns the first candidate that is a plain directory and above none of the paths in use.
func pickStage(candidates, used []string) (string, error) {
	for _, dir := range candidates {
		st, err := os.Lstat(dir)
		if err != nil || !st.IsDir() {
			continue
		}
		if !holdsAny(dir, used) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("none of %s is a directory that the data directory is not in", strings.Join(candidates, ", "))
}

// holdsAny reports whether dir is, or is above, one of the paths, also when these lead through links.
func holdsAny(dir string, paths []string) bool {
	for _, p := range paths {
		if p == "" {
			continue
		}
		resolved, err := filepath.EvalSymlinks(p)
		if err != nil {
			resolved = p
		}
		for _, q := range []string{p, resolved} {
			if q == dir || strings.HasPrefix(q, dir+"/") {
				return true
			}
		}
	}
	return false
}

// checkTree refuses directories that the mapped users could not use, with words better than a failed exec inside.
func checkTree(j job) error {
	var st unix.Stat_t
	if err := unix.Lstat(j.RootFS, &st); err != nil {
		return fmt.Errorf("look at tree: %w", err)
	}
	owner := int(st.Uid)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || owner < j.OwnerUID || owner >= j.OwnerUID+j.OwnerIDs {
		return fmt.Errorf("tree %s is not a directory of the mapped owners: owner %d is not in [%d, %d)",
			j.RootFS, owner, j.OwnerUID, j.OwnerUID+j.OwnerIDs)
	}
	for path, want := range map[string]uint32{j.RunDir: 0o005, filepath.Join(j.RunDir, filepath.Base(agentPath)): 0o005} {
		if err := unix.Stat(path, &st); err != nil {
			return fmt.Errorf("look at run directory: %w", err)
		}
		if st.Mode&want != want {
			return fmt.Errorf("%s must be readable and executable by others: mode is %o", path, st.Mode&0o777)
		}
	}
	return nil
}

// bindDir mounts a directory at a new one.
func bindDir(source, target string) error {
	if err := os.Mkdir(target, 0o711); err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", source, err)
	}
	return nil
}

// stageTmpDir mounts the tree's own /tmp. The guest may have made anything of it: the path is resolved inside the tree and
// nowhere else, and a /tmp that is missing is made.
func stageTmpDir(root, target string, owner int) (err error) {
	rootFD, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open tree: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(rootFD)) }()
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(rootFD, "tmp", how)
	if errors.Is(err, unix.ENOENT) {
		if err := makeTmp(rootFD, owner); err != nil {
			return err
		}
		fd, err = unix.Openat2(rootFD, "tmp", how)
	}
	if err != nil {
		return fmt.Errorf("open /tmp of the tree: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	return bindDir(fmt.Sprintf("/proc/self/fd/%d", fd), target)
}

// makeTmp makes /tmp in a tree that has none. A link that leads nowhere is in the way and is taken away.
func makeTmp(rootFD, owner int) error {
	if err := unix.Unlinkat(rootFD, "tmp", 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove /tmp of the tree: %w", err)
	}
	if err := unix.Mkdirat(rootFD, "tmp", 0o700); err != nil {
		return fmt.Errorf("make /tmp of the tree: %w", err)
	}
	fd, err := unix.Openat(rootFD, "tmp", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open new /tmp: %w", err)
	}
	return errors.Join(unix.Fchown(fd, owner, owner), unix.Fchmod(fd, 0o1777), unix.Close(fd))
}
