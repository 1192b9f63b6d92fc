package linux

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	mdlnetlink "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Bounds of the talk with nftables.
const (
	// flushTimeout ends a wait for an answer that the kernel owes us, should one ever be lost.
	flushTimeout = 10 * time.Second
	// elementsPerMessage keeps a message under netlink's 64 KiB for one attribute.
	elementsPerMessage = 500
)

// table is the router's nftables table. A batch is a transaction: packets see all of it or nothing.
type table struct {
	// mu is held from the first command of a batch to its answer: the connection gathers commands of all callers.
	mu     sync.Mutex
	conn   *nftables.Conn
	socket *mdlnetlink.Conn
}

// openTable connects to nftables in the namespace that the descriptor names.
func openTable(ns int) (*table, error) {
	t := &table{}
	conn, err := nftables.New(nftables.WithNetNSFd(ns), nftables.AsLasting(),
		nftables.WithSockOptions(func(c *mdlnetlink.Conn) error {
			t.socket = c
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	t.conn = conn
	return t, nil
}

func (t *table) close() error { return t.conn.CloseLasting() }

// flush sends the batch. mu is held.
func (t *table) flush() error {
	if err := t.socket.SetDeadline(time.Now().Add(flushTimeout)); err != nil {
		return fmt.Errorf("bound the talk with nftables: %w", err)
	}
	return t.conn.Flush()
}

// rebuild replaces the whole table by a fresh one with these slots, in one transaction.
func (t *table) rebuild(slots map[int]netip.Addr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	table, set := slotTable()
	// A table can only be deleted if it is there, so it is made first; making one that is there changes nothing.
	t.conn.AddTable(table)
	t.conn.DelTable(table)
	t.conn.AddTable(table)
	if err := t.conn.AddSet(set, nil); err != nil {
		return fmt.Errorf("make the map of slots: %w", err)
	}
	batch := make([]nftables.SetElement, 0, elementsPerMessage)
	add := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := t.conn.SetAddElements(set, batch)
		batch = batch[:0]
		return err
	}
	for index, addr := range slots {
		batch = append(batch, element(index, addr))
		if len(batch) == elementsPerMessage {
			if err := add(); err != nil {
				return fmt.Errorf("fill the map of slots: %w", err)
			}
		}
	}
	if err := add(); err != nil {
		return fmt.Errorf("fill the map of slots: %w", err)
	}
	addRules(t.conn, table, set)
	if err := t.flush(); err != nil {
		return fmt.Errorf("build the router's table: %w", err)
	}
	return nil
}

// add lets the interface's packets in under its slot's address.
func (t *table) add(index int, addr netip.Addr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, set := slotTable()
	if err := t.conn.SetAddElements(set, []nftables.SetElement{element(index, addr)}); err != nil {
		return fmt.Errorf("add a slot to the map: %w", err)
	}
	if err := t.flush(); err != nil {
		return fmt.Errorf("add a slot to the map: %w", err)
	}
	return nil
}

// remove drops the interface's packets from now on. An interface that is not in the map is fine.
func (t *table) remove(index int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, set := slotTable()
	if err := t.conn.SetDeleteElements(set, []nftables.SetElement{{Key: native(uint32(index))}}); err != nil {
		return fmt.Errorf("remove a slot from the map: %w", err)
	}
	if err := t.flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove a slot from the map: %w", err)
	}
	return nil
}

// read returns the map's content by interface index. ok is false if there is no such map.
func (t *table) read() (slots map[int]netip.Addr, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.socket.SetDeadline(time.Now().Add(flushTimeout)); err != nil {
		return nil, false, fmt.Errorf("bound the talk with nftables: %w", err)
	}
	table, set := slotTable()
	// Looked for in lists: the library hides the error number that would tell "not there" from other trouble.
	tables, err := t.conn.ListTablesOfFamily(table.Family)
	if err != nil {
		return nil, false, fmt.Errorf("list tables: %w", err)
	}
	there := false
	for _, have := range tables {
		there = there || have.Name == table.Name
	}
	if !there {
		return nil, false, nil
	}
	sets, err := t.conn.GetSets(table)
	if err != nil {
		return nil, false, fmt.Errorf("list maps: %w", err)
	}
	there = false
	for _, have := range sets {
		there = there || have.Name == set.Name
	}
	if !there {
		return nil, false, nil
	}
	elements, err := t.conn.GetSetElements(set)
	if err != nil {
		return nil, false, fmt.Errorf("read the map of slots: %w", err)
	}
	slots = make(map[int]netip.Addr, len(elements))
	for _, e := range elements {
		addr, valid := netip.AddrFromSlice(e.Val)
		if len(e.Key) == 4 && valid {
			slots[int(binaryutil.NativeEndian.Uint32(e.Key))] = addr
		}
	}
	return slots, true, nil
}

func element(index int, addr netip.Addr) nftables.SetElement {
	return nftables.SetElement{Key: native(uint32(index)), Val: addr.AsSlice()}
}
