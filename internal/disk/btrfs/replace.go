package btrfs

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// replacing ends the name of what is not a tree yet, or not any more: the clone that is to take a tree's place, and from the moment at
// which the two change names what it replaced. A dot is in no id.
const replacing = ".replacing"

// Replace puts a clone in the place of a tree.
func (d *Driver) Replace(ctx context.Context, from, to disk.Ref, opts disk.CloneOptions) (string, error) {
	end, err := d.begin(ctx, from, to)
	if err != nil {
		return "", err
	}
	defer end()
	if from == to {
		return "", core.Errorf(core.CodeInvalid, "a tree can't take its own place")
	}
	old, err := d.openTree(to)
	if err != nil {
		return "", disk.Failure(err, "open tree")
	}
	_ = old.Close()
	dir, beside := d.dirOf(to), to.ID+replacing
	if err := destroy(dir, beside); err != nil { // what an error has left
		return "", err
	}
	if err := d.clone(from, dir, beside, opts); err != nil {
		return "", err
	}
	err = unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, beside), unix.AT_FDCWD, d.treePath(to), unix.RENAME_EXCHANGE)
	if err != nil {
		return "", errors.Join(disk.Failure(err, "replace tree"), destroy(dir, beside))
	}
	if err := destroy(dir, beside); err != nil { // commits the exchange too
		return "", err
	}
	return d.treePath(to), nil
}

// dropReplaced removes what a crash in the midst of a Replace has left: whichever tree has the right name stands.
func (p *pool) dropReplaced(dir string) error {
	names, err := readNames(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, replacing) {
			continue
		}
		if err := destroy(dir, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
