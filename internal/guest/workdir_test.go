package guest

import (
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/core"
)

func TestWorkingDirectory(t *testing.T) {
	top := t.TempDir()
	for d := top; d != "/"; d = filepath.Dir(d) {
		if st, err := os.Stat(d); err != nil || st.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(d, st.Mode().Perm()|0o011); err != nil {
				t.Skipf("the temporary directory is closed: %v", err)
			}
		}
	}
	open, closed := filepath.Join(top, "open"), filepath.Join(top, "closed")
	link := filepath.Join(top, "link")
	for dir, mode := range map[string]os.FileMode{open: 0o755, closed: 0o700, closed + "/below": 0o755} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(closed, link); err != nil {
		t.Fatal(err)
	}
	root, other := account{uid: 0, home: "/root"}, account{uid: 54321, gid: 54321, home: open}
	for _, tc := range []struct {
		dir  string
		acc  account
		want core.Code
	}{
		{open, root, ""},
		{closed, root, ""},
		{open, other, ""},
		{closed, other, core.CodeDenied},
		{closed + "/below", other, core.CodeDenied},
		{link, other, core.CodeDenied},
		{top + "/none", other, core.CodeInvalid},
	} {
		if _, err := checkDir(tc.dir, "/", tc.acc); core.CodeOf(err) != tc.want {
			t.Errorf("uid %d in %s: %v, want %q", tc.acc.uid, tc.dir, err, tc.want)
		}
	}
	for _, tc := range []struct {
		workdir     string
		defaultUser bool
		acc         account
		want        string
	}{
		{closed, true, root, closed},
		{open, true, other, open},
		{closed, true, other, "/"},
		{closed, false, other, open},
		{closed, false, root, closed},
		{"", true, root, "/"},
	} {
		if got := defaultDir(tc.workdir, tc.defaultUser, tc.acc); got != tc.want {
			t.Errorf("workdir %s, default user %v, uid %d: %s, want %s", tc.workdir, tc.defaultUser, tc.acc.uid, got, tc.want)
		}
	}
}
