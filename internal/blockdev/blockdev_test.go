package blockdev_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/blockdev"
)

// host makes a directory that stands for "/", with files and, for contents that begin with "->", links.
func host(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if len(text) > 2 && text[:2] == "->" {
			err = os.Symlink(text[2:], full)
		} else {
			err = os.WriteFile(full, []byte(text+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestUnder(t *testing.T) {
	root := host(t, map[string]string{
		"proc/self/mountinfo": "1 0 8:2 / / rw - ext4 /dev/root rw\n" +
			"2 1 0:30 / /data/pool/mnt rw - btrfs /dev/loop3 rw\n" +
			"3 1 0:31 / /tmp rw - tmpfs tmpfs rw\n" +
			"4 1 0:32 / /srv rw - btrfs /dev/mapper/vg-x rw\n" +
			"5 1 7:9 / /odd rw - ext4 /dev/loop9 rw",
		"sys/dev/block/8:2":                     "->../../devices/sda/sda2",
		"sys/devices/sda/dev":                   "8:0",
		"sys/devices/sda/queue/scheduler":       "none mq-deadline [bfq]",
		"sys/devices/sda/sda2/partition":        "2",
		"sys/class/block/loop3":                 "->../../devices/loop3",
		"sys/devices/loop3/dev":                 "7:3",
		"sys/devices/loop3/queue/scheduler":     "[none] mq-deadline bfq",
		"sys/devices/loop3/loop/backing_file":   "/data/pool/pool.img",
		"dev/mapper/vg-x":                       "->../dm-0",
		"dev/dm-0":                              "",
		"sys/class/block/dm-0":                  "->../../devices/dm-0",
		"sys/devices/dm-0/dev":                  "252:0",
		"sys/devices/dm-0/slaves/sda2":          "->../../sda/sda2",
		"sys/devices/loop9/dev":                 "7:9",
		"sys/dev/block/7:9":                     "->../../devices/loop9",
		"sys/devices/loop9/loop/backing_file":   "/odd/itself.img",
		"sys/devices/loop9/queue/no_scheduler_": "",
	})
	sda := blockdev.Device{Name: "sda", Number: "8:0", Scheduler: "bfq"}
	for dir, want := range map[string][]blockdev.Device{
		"/":                     {sda},
		"/data/pool":            {sda},
		"/data/pool/mnt":        {{Name: "loop3", Number: "7:3", Scheduler: "none"}, sda},
		"/data/pool/mnt/a/tree": {{Name: "loop3", Number: "7:3", Scheduler: "none"}, sda},
		"/data/pool/mntx":       {sda},
		"/tmp/x":                nil,
		"/srv":                  {{Name: "dm-0", Number: "252:0"}, sda},
		"/odd":                  {{Name: "loop9", Number: "7:9"}},
	} {
		got, err := blockdev.Under(root, dir)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", dir, err, diff)
		}
	}
	if _, err := blockdev.Under(t.TempDir(), "/"); err == nil {
		t.Error("a machine without a list of mounts has devices")
	}
	if got := blockdev.Names([]blockdev.Device{sda, {Name: "dm-0"}}); got != "sda (bfq), dm-0" {
		t.Errorf("Names: %q", got)
	}
}

func TestCostModel(t *testing.T) {
	d := blockdev.Device{Name: "sda", Number: "8:0"}
	for qos, want := range map[string]bool{
		"": false, "8:0 enable=1 ctrl=auto": true, "8:16 enable=1\n8:0 enable=0 ctrl=user": false, "8:16 enable=0\n8:0 enable=1\n": true, "8:01 enable=1": false,
	} {
		if got := d.CostModel(qos); got != want {
			t.Errorf("%q: %v", qos, got)
		}
	}
}
