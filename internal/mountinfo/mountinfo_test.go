package mountinfo_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/mountinfo"
)

func TestParse(t *testing.T) {
	const text = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
31 23 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
40 22 7:0 /@ /mnt/a\040b\011c\012d\134e rw master:2 propagate_from:1 - btrfs /dev/loop\0400 rw,space_cache=v2
41 22 0:4 net:[4026531840] /run/netns/x rw shared:9 - nsfs nsfs rw

a line that is none
50 22 0:5 / /short rw - tmpfs
51 22 0:5 / /none rw - tmpfs none
`
	want := []mountinfo.Mount{
		{Number: "8:1", Point: "/", Type: "ext4", Source: "/dev/sda1", Options: []string{"rw", "errors=remount-ro"}},
		{Number: "0:26", Point: "/sys/fs/cgroup/cpu,cpuacct", Type: "cgroup", Source: "cgroup", Options: []string{"rw", "cpu", "cpuacct"}},
		{Number: "7:0", Point: "/mnt/a b\tc\nd\\e", Type: "btrfs", Source: "/dev/loop 0", Options: []string{"rw", "space_cache=v2"}},
		{Number: "0:4", Point: "/run/netns/x", Type: "nsfs", Source: "nsfs", Options: []string{"rw"}},
		{Number: "0:5", Point: "/none", Type: "tmpfs", Source: "none"},
	}
	got, err := mountinfo.Parse(strings.NewReader(text))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := mountinfo.Parse(strings.NewReader(strings.Repeat("x", 2<<20))); err == nil {
		t.Error("an endless line is taken")
	}
}

func TestRead(t *testing.T) {
	list, err := mountinfo.Read(mountinfo.Self)
	if err != nil || !slices.ContainsFunc(list, func(m mountinfo.Mount) bool { return m.Point == "/proc" && m.Type == "proc" }) {
		t.Errorf("%d mounts, none is /proc (%v)", len(list), err)
	}
	if _, err := mountinfo.Read(filepath.Join(t.TempDir(), "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
}
