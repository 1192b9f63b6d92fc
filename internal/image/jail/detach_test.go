package jail

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
