package linux

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// removedGroup is the group that interfaces are put into to be removed together. All others are in group 0.
const removedGroup = 7

// removeLinks removes interfaces and their peers. The kernel waits once for a whole group, not once for each. An
// interface that isn't there any more is fine.
func (r *router) removeLinks(indexes []int) error {
	if len(indexes) == 0 {
		return nil
	}
	if len(indexes) == 1 {
		return r.removeLink(indexes[0])
	}
	for _, index := range indexes {
		if err := r.remover.LinkSetGroup(linkAt(index), removedGroup); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("gather interfaces to remove: %w", err)
		}
	}
	// The library has no call for it. A request without a socket opens one in the namespace of the thread that it is
	// made on.
	err := r.group.do(func() error {
		req := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(removedGroup)))
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove interfaces: %w", err)
	}
	return nil
}
