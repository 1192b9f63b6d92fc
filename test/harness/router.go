package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// RouterLinks returns the names of the interfaces in a server's router namespace; none if there is no router.
func RouterLinks(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "net", "*"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		found, err := linksIn(f)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	return names, nil
}

// RouterNamespace names a server's router namespace as /proc does.
func RouterNamespace(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "net", "*"))
	if err != nil {
		return "", err
	}
	for _, f := range files {
		var st unix.Stat_t
		var fs unix.Statfs_t
		if unix.Statfs(f, &fs) == nil && fs.Type == unix.NSFS_MAGIC && unix.Stat(f, &st) == nil {
			return fmt.Sprintf("net:[%d]", st.Ino), nil
		}
	}
	return "", fmt.Errorf("no router below %s", dir)
}

func linksIn(path string) (names []string, err error) {
	ns, err := netns.GetFromPath(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer ns.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, in whatever namespace it is
		h, herr := netlink.NewHandleAt(ns)
		if herr != nil {
			err = nil // a plain file beside the router's
			return
		}
		defer h.Close()
		var links []netlink.Link
		if links, err = h.LinkList(); err != nil {
			return
		}
		for _, l := range links {
			names = append(names, l.Attrs().Name)
		}
	}()
	<-done
	return names, err
}
