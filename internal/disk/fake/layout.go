package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/disk"
)

// A tree is the directory "files" in <dir>/<kind>/<id>, beside "state". What is being made or removed lies in <dir>/staging
// and gets its place, or leaves it, by one rename; a tree that is set aside is <id>.<unix nanoseconds>.

const (
	filesName   = "files"
	stateName   = "state"
	stagingName = "staging"
	writeBits   = 0o222
)

// state is what is known of a tree beside its files.
type state struct {
	Frozen   bool
	Complete bool
	// Modes are the files that Freeze took the write permission from, as they were.
	Modes []fileMode
}

type fileMode struct {
	Path []byte
	Mode uint32
}

func kinds() []disk.Kind {
	return []disk.Kind{disk.KindTemplate, disk.KindSandbox, disk.KindCheckpoint, disk.KindView}
}

func (d *Driver) home(ref disk.Ref) string { return filepath.Join(d.dir, string(ref.Kind), ref.ID) }

func files(home string) string { return filepath.Join(home, filesName) }

// outlivingTries is how often what a killed process was copying is removed anew: its cp may outlive it for a moment, and go on.
const outlivingTries = 1000

// settle makes the directories, guards frozen trees again and empties the staging directory.
func (d *Driver) settle() error {
	staging := filepath.Join(d.dir, stagingName)
	err := removeTree(staging)
	for range outlivingTries {
		if !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
		err = removeTree(staging)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(staging, 0o700); err != nil {
		return err
	}
	for _, kind := range kinds() {
		dir := filepath.Join(d.dir, string(kind))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			home := filepath.Join(dir, entry.Name())
			st, err := readState(home)
			if err != nil {
				return err
			}
			if st.Frozen {
				if err := takeWriteBits(files(home)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func readState(home string) (state, error) {
	var st state
	b, err := os.ReadFile(filepath.Join(home, stateName))
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(b, &st)
}

func writeState(home string, st state) error {
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	path := filepath.Join(home, stateName)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// place makes a tree in the staging directory and then puts it where it belongs, unless something is there. st is its state once it
// is filled.
func (d *Driver) place(ref disk.Ref, st *state, fill func(dir string) error) (string, error) {
	if _, err := os.Lstat(d.home(ref)); err == nil {
		return "", unix.EEXIST
	}
	staged, err := d.stage(st, fill)
	if err != nil {
		return "", err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, staged, unix.AT_FDCWD, d.home(ref), unix.RENAME_NOREPLACE); err != nil {
		return "", errors.Join(err, removeTree(staged))
	}
	return files(d.home(ref)), nil
}

// exchange makes a tree in the staging directory and then puts it in the place of another, which it removes.
func (d *Driver) exchange(ref disk.Ref, st *state, fill func(dir string) error) (string, error) {
	staged, err := d.stage(st, fill)
	if err != nil {
		return "", err
	}
	err = unix.Renameat2(unix.AT_FDCWD, staged, unix.AT_FDCWD, d.home(ref), unix.RENAME_EXCHANGE)
	if err := errors.Join(err, removeTree(staged)); err != nil {
		return "", err
	}
	return files(d.home(ref)), nil
}

// stage makes a tree in the staging directory.
func (d *Driver) stage(st *state, fill func(dir string) error) (string, error) {
	staged, err := os.MkdirTemp(filepath.Join(d.dir, stagingName), "new-")
	if err != nil {
		return "", err
	}
	if err = fill(files(staged)); err == nil {
		err = writeState(staged, *st)
	}
	if err != nil {
		return "", errors.Join(err, removeTree(staged))
	}
	return staged, nil
}

// discard takes a directory out of the way by one rename and then removes it.
func (d *Driver) discard(home string) error {
	staged, err := os.MkdirTemp(filepath.Join(d.dir, stagingName), "old-")
	if err != nil {
		return err
	}
	if err := os.Rename(home, filepath.Join(staged, "tree")); err != nil {
		_ = os.Remove(staged)
		return err
	}
	return removeTree(staged)
}

// copyTree copies a tree with all that cp keeps: owners, modes, times, links, holes, extended attributes.
func copyTree(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", "--sparse=auto", "--", from, to).CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("cp: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// liveTries is how often a tree that is written is copied anew, whose files come and go under the copy.
const liveTries = 5

// copyLive copies a tree that may be written.
func copyLive(ctx context.Context, from, to string) (err error) {
	for range liveTries {
		if err = copyTree(ctx, from, to); err == nil || ctx.Err() != nil {
			return err
		}
		if err := removeTree(to); err != nil {
			return err
		}
	}
	return err
}

// writableModes lists the files of a tree that somebody may write, with their modes.
func writableModes(dir string) ([]fileMode, error) {
	var modes []fileMode
	err := walk(dir, func(path string, mode uint32) error {
		if mode&writeBits != 0 {
			modes = append(modes, fileMode{Path: []byte(strings.TrimPrefix(path, dir)), Mode: mode & 0o7777})
		}
		return nil
	})
	return modes, err
}

func takeWriteBits(dir string) error {
	return walk(dir, func(path string, mode uint32) error {
		if mode&writeBits == 0 {
			return nil
		}
		return unix.Chmod(path, mode&0o7777&^writeBits)
	})
}

func giveModes(dir string, modes []fileMode) error {
	for _, m := range modes {
		if err := unix.Chmod(dir+string(m.Path), m.Mode); err != nil {
			return err
		}
	}
	return nil
}

// walk calls f with every file but symbolic links, and its mode.
func walk(dir string, f func(path string, mode uint32) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		return f(path, st.Mode)
	})
}

// removeTree removes a directory also where its own permissions stand against it.
func removeTree(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_ = unix.Chmod(path, 0o700)
		}
		return nil // RemoveAll tells what is really in the way
	})
	return os.RemoveAll(dir)
}

func asideSince(name string) (time.Time, bool) {
	_, text, ok := strings.Cut(name, ".")
	nanos, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(0, nanos), ok && err == nil
}

// failure turns an error of the operating system into one of the contract.
func failure(err error) error { return disk.Failure(err, "fake disk") }
