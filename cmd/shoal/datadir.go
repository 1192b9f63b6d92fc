package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/durable"
)

// storeFile is the store's name in a data directory.
const storeFile = "shoal.db"

// dataDir is the server's data directory, locked against a second server.
//
//	lock        held while the server runs
//	url         where it listens, for the CLI on the same machine
//	cgroups     the parent cgroups that servers have used, one a line
//	admin.key   the admin key, made at first start
//	shoal.db    the store
//	bin/        the server's own binary by digest, from which sentries run
//	pool/       copy-on-write trees
//	net/        the router's network namespace
//	runtime/    the runtime's state
//	node/       the journal and the run directories
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir makes the directory if need be and locks it. A second server on it is refused.
func openDataDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	// Others may pass, not list: the CLI of an ordinary user reads the file url. What is below guards itself.
	if err := os.MkdirAll(path, 0o711); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if err := checkOwner(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, core.Errorf(core.CodeConflict, "another server uses the data directory %s: stop that one first (systemctl stop shoal), or use another --data-dir", path)
		}
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	return &dataDir{path: path, lock: f}, nil
}

// checkOwner refuses a directory into which somebody else may put links where the server writes keys and records.
func checkOwner(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("look at data directory: %w", err)
	}
	if owner := int(st.Uid); owner != os.Geteuid() {
		return core.Errorf(core.CodeDenied, "the data directory %s belongs to user %d, who could take the server over: give it one of its own", path, owner)
	}
	if st.Mode&0o022 != 0 {
		return core.Errorf(core.CodeDenied, "others may write in the data directory %s, and so take the server over: chmod go-w it", path)
	}
	return nil
}

func (d *dataDir) join(name string) string { return filepath.Join(d.path, name) }

// close unlocks the directory.
func (d *dataDir) close() error { return d.lock.Close() }

// writeURL tells the CLI on this machine where the server listens.
func (d *dataDir) writeURL(url string) error {
	return durable.Replace(d.join("url"), []byte(url+"\n"), 0o644)
}

// noteCgroupParent remembers a parent cgroup before anything is made below it, so that whatever is set by the time that the
// server is taken off the machine, all of it is found.
func (d *dataDir) noteCgroupParent(parent string) error {
	parents, err := d.cgroupParents()
	if err != nil || slices.Contains(parents, parent) {
		return err
	}
	return durable.Replace(d.join("cgroups"), []byte(strings.Join(append(parents, parent), "\n")+"\n"), 0o600)
}

// cgroupParents are the parent cgroups that servers have used here, the first one first.
func (d *dataDir) cgroupParents() ([]string, error) {
	data, err := os.ReadFile(d.join("cgroups"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read cgroups in use: %w", err)
	}
	return strings.Fields(string(data)), nil // no name has a space in it
}

// forgetCgroupParents says that nothing is left below any of them.
func (d *dataDir) forgetCgroupParents() error {
	if err := os.Remove(d.join("cgroups")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget cgroups in use: %w", err)
	}
	return nil
}

// ensureAdminKey makes the admin key unless its file is there. It says whether it made one.
func (d *dataDir) ensureAdminKey(ctx context.Context, svc *control.Service) (made bool, err error) {
	data, err := os.ReadFile(d.join("admin.key"))
	if err == nil {
		_, err := svc.Authenticate(ctx, strings.TrimSpace(string(data)))
		if err == nil || !core.IsCode(err, core.CodeUnauthenticated) {
			return false, err
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("read admin key: %w", err)
	}
	secret, err := svc.NewAdminKey(ctx)
	if err != nil {
		return false, err
	}
	return true, durable.Replace(d.join("admin.key"), []byte(secret.Reveal()+"\n"), 0o600)
}
