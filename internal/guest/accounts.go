package guest

import (
	"sync"
	"syscall"
)

// maxAccounts bounds how many answers are kept.
const maxAccounts = 64

// accounts keeps the answers of lookupAccount while the files that they come from are what they were: they are asked for with
// each exec.
type accounts struct {
	mu     sync.Mutex
	stamps [2]stamp
	known  map[string]account
}

// stamp tells one content of a file from another: whatever changes a file changes its ctime, which nobody can set.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// stampOf returns a file's stamp, the zero one if there is no such file.
func stampOf(name string) stamp {
	var st syscall.Stat_t
	if err := syscall.Stat(name, &st); err != nil {
		return stamp{}
	}
	return stamp{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
}

// lookup is lookupAccount with a memory. The files are read without the lock: the guest may have made anything of them.
func (a *accounts) lookup(text string) (account, error) {
	now := [2]stamp{stampOf(passwdFile), stampOf(groupFile)}
	if acc, ok := a.get(now, text); ok {
		return acc, nil
	}
	acc, err := lookupAccount(text)
	if err == nil {
		a.put(now, text, acc)
	}
	return acc, err
}

func (a *accounts) get(now [2]stamp, text string) (account, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	acc, ok := a.known[text]
	return acc, ok && a.stamps == now
}

func (a *accounts) put(now [2]stamp, text string, acc account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || a.stamps != now || len(a.known) >= maxAccounts {
		a.known, a.stamps = map[string]account{}, now
	}
	a.known[text] = acc
}
