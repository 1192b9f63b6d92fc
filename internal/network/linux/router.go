package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"shoal/internal/network"
)

// routerFile is the file in the state directory that the router's namespace is mounted on.
const routerFile = "router"

// router is the namespace in which all slots meet, and this process's ways into it.
type router struct {
	file string
	// ns is the namespace itself.
	ns int
	// thread lives in the router and makes sockets there; group is for calls that take long.
	thread, group *thread
	// links talks of interfaces, addresses, routes and neighbours; remover too, for calls that take long: a handle
	// serves one call at a time.
	links, remover *netlink.Handle
	table          *table
}

// openRouter finds the router of a state directory or makes one. A new one isn't kept before persist.
func openRouter(dir string) (r *router, found bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("make the state directory: %w", err)
	}
	r = &router{file: filepath.Join(dir, routerFile), ns: -1}
	ns, found, err := openRouterFile(r.file)
	if err == nil && !found {
		ns, err = inNewNetNS(func() error { return nil })
	}
	if err != nil {
		return nil, false, err
	}
	r.ns = ns
	if err := r.connect(); err != nil {
		return nil, false, errors.Join(err, r.close())
	}
	return r, found, nil
}

// openRouterFile opens the namespace that is mounted on file, if one is.
func openRouterFile(file string) (ns int, found bool, err error) {
	mounted, err := isNamespaceFile(file)
	if err != nil || !mounted {
		return -1, false, err
	}
	ns, err = unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false, fmt.Errorf("open the router: %w", err)
	}
	if err := checkRouterNS(ns); err != nil {
		_ = unix.Close(ns)
		return -1, false, err
	}
	return ns, true, nil
}

func isNamespaceFile(file string) (bool, error) {
	var st unix.Statfs_t
	err := unix.Statfs(file, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the router: %w", err)
	}
	return st.Type == unix.NSFS_MAGIC, nil
}

// checkRouterNS refuses what can't be a router: another kind of namespace, or the process's own, whose network must
// never be changed.
func checkRouterNS(ns int) error {
	kind, err := unix.IoctlRetInt(ns, unix.NS_GET_NSTYPE)
	if err != nil {
		return fmt.Errorf("ask for the kind of namespace: %w", err)
	}
	if kind != unix.CLONE_NEWNET {
		return errors.New("the router's file is a namespace, but not of a network")
	}
	var own, router unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &own); err != nil {
		return fmt.Errorf("look at the own namespace: %w", err)
	}
	if err := unix.Fstat(ns, &router); err != nil {
		return fmt.Errorf("look at the router: %w", err)
	}
	if own.Ino == router.Ino && own.Dev == router.Dev {
		return errors.New("the router's file is the host's own network namespace")
	}
	return nil
}

func (r *router) connect() (err error) {
	for _, t := range []**thread{&r.thread, &r.group} {
		if *t, err = startThread(r.ns); err != nil {
			return err
		}
	}
	for _, h := range []**netlink.Handle{&r.links, &r.remover} {
		if *h, err = netlink.NewHandleAt(netns.NsHandle(r.ns), unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink in the router: %w", err)
		}
	}
	r.table, err = openTable(r.ns)
	return err
}

// configure brings everything but the rules and slots into the state that it must have, whatever it was.
func (r *router) configure() error {
	if err := r.thread.do(func() error { return applySysctls(routerSysctls()) }); err != nil {
		return err
	}
	lo := linkAt(loIndex)
	if err := r.links.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring up the router's loopback: %w", err)
	}
	gateway := &net.IPNet{IP: network.GatewayAddr.AsSlice(), Mask: net.CIDRMask(32, 32)}
	if err := r.links.AddrReplace(lo, &netlink.Addr{IPNet: gateway}); err != nil {
		return fmt.Errorf("give the router its address: %w", err)
	}
	// Without it, what is sent to a slot that isn't there would have no route only as long as there is no default
	// route.
	err := r.links.RouteReplace(&netlink.Route{
		Dst:  &net.IPNet{IP: slotPrefix.Addr().AsSlice(), Mask: net.CIDRMask(slotPrefix.Bits(), 32)},
		Type: unix.RTN_UNREACHABLE,
	})
	if err != nil {
		return fmt.Errorf("make empty slots unreachable: %w", err)
	}
	return nil
}

// persist mounts the namespace on its file, so that it outlives the process.
func (r *router) persist() error {
	f, err := os.OpenFile(r.file, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the router's file: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("make the router's file: %w", err)
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", r.ns), r.file, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the router: %w", err)
	}
	return nil
}

// forget takes away what persist has made.
func (r *router) forget() error {
	mounted, err := isNamespaceFile(r.file)
	if err != nil {
		return err
	}
	if mounted {
		if err := unix.Unmount(r.file, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount the router: %w", err)
		}
	}
	if err := os.Remove(r.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the router's file: %w", err)
	}
	return nil
}

// close lets go of the process's own handles.
func (r *router) close() error {
	var err error
	if r.table != nil {
		err = r.table.close()
	}
	for _, h := range []*netlink.Handle{r.links, r.remover} {
		if h != nil {
			h.Close()
		}
	}
	for _, t := range []*thread{r.thread, r.group} {
		if t != nil {
			t.stop()
		}
	}
	if r.ns >= 0 {
		err = errors.Join(err, unix.Close(r.ns))
		r.ns = -1
	}
	return err
}

// linkAt names an interface by index, for calls that need no more. The index must not be 0: the library would then look
// for a name.
func linkAt(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}
