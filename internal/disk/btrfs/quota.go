package btrfs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Simple quotas (Linux 6.7) count an extent for the subvolume that wrote it, for as long as anybody keeps it. So a clone
// starts at nothing, its limit bounds its own writes, and neither clones nor deletes cost more the more of them there are.
// Full qgroups count sharing, which makes every clone dearer than the one before: they are never switched on.

// openQuotas finds out whether limits can be enforced, and switches simple quotas on in a pool of ours. On a btrfs of the
// host's that is the operator's to decide.
func (p *pool) openQuotas() error {
	info, err := filesystemInfo(int(p.root.Fd()))
	if err != nil {
		return fmt.Errorf("look at pool: %w", err)
	}
	p.sysfs = filepath.Join("/sys/fs/btrfs", uuidString(info.fsid))
	if !isDir(p.sysfs) {
		p.caps.QuotaReason = "disk limits are not enforced: /sys/fs/btrfs is not visible here; mount sysfs"
		return nil
	}
	mode := p.quotaMode()
	if mode == "" && p.image != nil {
		err := enableSimpleQuotas(int(p.root.Fd()))
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
			p.caps.QuotaReason = "disk limits are not enforced: the kernel has no simple quotas of btrfs; Linux 6.7 or later has them"
			return nil
		}
		if err != nil {
			return fmt.Errorf("enable simple quotas: %w", err)
		}
		mode = p.quotaMode()
	}
	switch {
	case mode == "squota":
		p.caps.Quota = true
	case p.image == nil:
		p.caps.QuotaReason = "disk limits are not enforced: the data directory is on a btrfs of the host without simple quotas; " +
			"\"btrfs quota enable --simple\" on it switches them on"
	default:
		p.caps.QuotaReason = fmt.Sprintf("disk limits are not enforced: the pool's quotas are in mode %q", mode)
	}
	return nil
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// quotaMode returns "squota", "qgroup", or nothing while quotas are off.
func (p *pool) quotaMode() string {
	b, err := os.ReadFile(filepath.Join(p.sysfs, "qgroups", "mode"))
	if err != nil {
		return ""
	}
	mode := strings.TrimSpace(string(b))
	if mode == "disabled" {
		return ""
	}
	return mode
}

func uuidString(b [16]byte) string {
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// written returns what a subvolume keeps of its own writes: extents that have been written, and those that are reserved
// for data still in the page cache.
func (p *pool) written(subvolume uint64) (int64, error) {
	dir := filepath.Join(p.sysfs, "qgroups", "0_"+strconv.FormatUint(subvolume, 10))
	var sum int64
	for _, name := range []string{"referenced", "rsv_data"} {
		n, err := readNumber(filepath.Join(dir, name))
		if err != nil {
			return 0, fmt.Errorf("read usage: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// origin names a subvolume's writes. Its number is never used again in this file system.
func (p *pool) origin(subvolume uint64) string {
	return filepath.Base(p.sysfs) + "/" + strconv.FormatUint(subvolume, 10)
}

// originID returns the subvolume that an origin names; ok is false if it is none of this file system's.
func (p *pool) originID(origin string) (subvolume uint64, ok bool) {
	uuid, number, _ := strings.Cut(origin, "/")
	subvolume, err := strconv.ParseUint(number, 10, 64)
	return subvolume, err == nil && uuid == filepath.Base(p.sysfs)
}

func readNumber(path string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}
