package image

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"shoal/internal/mountinfo"
)

func TestServerMounts(t *testing.T) {
	t.Parallel()
	const mounts = `27 1 254:0 / / rw,relatime shared:1 - btrfs /dev/loop0 rw
40 27 0:50 / /var/lib/shoal/pool/mnt rw,nosuid - btrfs /dev/loop3 rw,nodiscard
41 27 0:51 / /srv/a\040b/pool/mnt rw master:3 - btrfs /dev/loop12 rw
42 27 7:1 / /snap/core rw - squashfs /dev/loop1 ro
43 27 0:52 / /data rw - btrfs /dev/sda2 rw
44 27 0:53 / /tmp rw - tmpfs tmpfs rw
45 27 0:4 net:[4026532272] /var/lib/shoal/net/router rw - nsfs nsfs rw
not a line
`
	all, err := mountinfo.Parse(strings.NewReader(mounts))
	if err != nil {
		t.Fatal(err)
	}
	got := serverMounts(all)
	if d := cmp.Diff([]string{"/var/lib/shoal/pool/mnt", "/srv/a b/pool/mnt", "/var/lib/shoal/net/router"}, got); d != "" {
		t.Error(d)
	}
}

// TestJailHoldsNoPool shows that a jail has of a pool only the directory that is bound, so that the pool's owner may unmount
// it while a bootstrap of another server runs.
func TestJailHoldsNoPool(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	pool, mnt := filepath.Join(dir, "pool.img"), filepath.Join(dir, "mnt")
	tree := filepath.Join(mnt, "tree")
	script := `truncate -s 256M "$1"; mkfs.btrfs -q "$1"; mkdir "$2"; mount -o loop "$1" "$2"; mkdir "$2/tree"`
	argv := append(shell(script), "sh", pool, mnt)
	t.Cleanup(func() {
		if err := unix.Unmount(mnt, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Errorf("unmount: %v", err)
		}
	})
	if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("make a pool: %v: %s", err, out)
	}
	if err := os.Chown(tree, testOwner, testOwner); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	j := jail{ownerUID: testOwner, binds: map[string]string{"target": tree}}
	if err := j.run(t.Context(), shell("touch /tmp/target/file; cat /proc/self/mountinfo"), environmentFor(os.Getenv), &out); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if strings.Contains(out.String(), mnt) || !strings.Contains(out.String(), " /tree /tmp/target ") {
		t.Errorf("the jail's mounts are\n%s", out.String())
	}
	if _, err := os.Stat(filepath.Join(tree, "file")); err != nil {
		t.Error(err)
	}
}
