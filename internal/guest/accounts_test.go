package guest

import (
	"os"
	"strconv"
	"testing"
)

// TestAccountsForget: an answer holds for the content of the files that it was read from, and only so many are kept.
func TestAccountsForget(t *testing.T) {
	var a accounts
	old, changed := [2]stamp{{ino: 1, size: 5}}, [2]stamp{{ino: 1, size: 6}}
	a.put(old, "zoe", account{uid: 7})
	if acc, ok := a.get(old, "zoe"); !ok || acc.uid != 7 {
		t.Errorf("kept: %+v, %v", acc, ok)
	}
	if _, ok := a.get(changed, "zoe"); ok {
		t.Error("the answer outlives a change")
	}
	a.put(changed, "zoe", account{uid: 8})
	if acc, ok := a.get(changed, "zoe"); !ok || acc.uid != 8 {
		t.Errorf("after the change: %+v, %v", acc, ok)
	}
	if _, ok := a.get(old, "zoe"); ok {
		t.Error("two contents at once")
	}
	for i := range 10 * maxAccounts {
		a.put(changed, strconv.Itoa(i), account{})
	}
	if n := len(a.known); n > maxAccounts {
		t.Errorf("%d answers are kept", n)
	}
	me := strconv.Itoa(os.Geteuid())
	for range 2 {
		if acc, err := a.lookup(me); err != nil || int(acc.uid) != os.Geteuid() {
			t.Errorf("myself: %+v, %v", acc, err)
		}
	}
	if _, err := a.lookup("no such user"); err == nil {
		t.Error("a user that is not there")
	}
}
