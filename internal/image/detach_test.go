package image

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/image/jail"
)

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
	j := jail.Jail{OwnerUID: testOwner, Binds: map[string]string{"target": tree}}
	if err := j.Run(t.Context(), shell("touch /tmp/target/file; cat /proc/self/mountinfo"), environmentFor(os.Getenv), &out); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if strings.Contains(out.String(), mnt) || !strings.Contains(out.String(), " /tree /tmp/target ") {
		t.Errorf("the jail's mounts are\n%s", out.String())
	}
	if _, err := os.Stat(filepath.Join(tree, "file")); err != nil {
		t.Error(err)
	}
}
