package btrfs

import (
	"testing"
	"unsafe"
)

// DisableQuotas switches quotas off in a driver's file system, as on a host whose operator never switched them on.
func DisableQuotas(t *testing.T, d *Driver) {
	t.Helper()
	args := quotaCtlArgs{cmd: 2}
	if err := ioctl(int(d.root.Fd()), ioctlQuotaCtl, unsafe.Pointer(&args)); err != nil {
		t.Fatal(err)
	}
}
