package httpapi

import (
	"container/list"
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"shoal/internal/core"
)

// strangers bounds what callers without a good key cost: each address may fail so often, then it is refused before the store
// is asked, and its failures are logged once a minute. Keys that were good lately pass from any address, for behind one address
// there may be many callers, and one with a wrong key must not lock the others out.
//
// Both tables have a fixed size, and forget who was not seen for the longest time.
type strangers struct {
	mu    sync.Mutex
	addrs *recent[netip.Prefix, stranger]
	good  *recent[[sha256.Size]byte, struct{}]
}

// stranger is an address from which failures came.
type stranger struct {
	// left is how many failures it has left at the time at. It may fall below zero, by calls that began before it did.
	left float64
	at   time.Time
	// logged is when a failure was logged last, unlogged how many were not since.
	logged   time.Time
	unlogged int
}

const (
	// failuresPerSecond and failureBurst bound the failures of an address, failureDebt how long it pays for too many at once.
	failuresPerSecond = 2.0
	failureBurst      = 100.0
	failureDebt       = 40.0
	// failureLogEvery is how often a failure of an address is logged.
	failureLogEvery = time.Minute

	maxStrangers = 4096
	maxGoodKeys  = 4096
)

func newStrangers() *strangers {
	return &strangers{
		addrs: newRecent[netip.Prefix, stranger](maxStrangers), good: newRecent[[sha256.Size]byte, struct{}](maxGoodKeys),
	}
}

// admit refuses an address that has failed too often, unless it comes with a key that was good lately. An empty secret is none.
func (s *strangers) admit(remote, secret string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if secret != "" && s.good.get(sha256.Sum256([]byte(secret))) != nil {
		return nil
	}
	a := s.addrs.get(addressOf(remote))
	if a == nil {
		return nil
	}
	a.refill(now)
	if a.left > 0 {
		return nil
	}
	wait := time.Duration((1 - a.left) / failuresPerSecond * float64(time.Second))
	return &core.Error{
		Code: core.CodeQuota, RetryAfter: wait,
		Message: "too many requests without a valid API key came from this address",
	}
}

// failed counts a request that had no good key.
func (s *strangers) failed(remote string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.addrs.put(addressOf(remote), stranger{left: failureBurst, at: now})
	a.refill(now)
	a.left = max(a.left-1, -failureDebt)
}

// welcome remembers a key that was good.
func (s *strangers) welcome(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good.put(sha256.Sum256([]byte(secret)), struct{}{})
}

// mayLog reports whether a failure from an address is to be logged, and how many before it were not.
func (s *strangers) mayLog(remote string, now time.Time) (unlogged int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.addrs.put(addressOf(remote), stranger{left: failureBurst, at: now})
	if !a.logged.IsZero() && now.Sub(a.logged) < failureLogEvery {
		a.unlogged++
		return 0, false
	}
	unlogged = a.unlogged
	a.logged, a.unlogged = now, 0
	return unlogged, true
}

func (a *stranger) refill(now time.Time) {
	if passed := now.Sub(a.at); passed > 0 {
		a.left = min(a.left+passed.Seconds()*failuresPerSecond, failureBurst)
		a.at = now
	}
}

// addressOf returns whose address it is: of IPv6 the network, since a host has all of it to itself. What is no address counts
// as one and the same.
func addressOf(remote string) netip.Prefix {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := ap.Addr().Unmap().WithZone(""), 64
	if addr.Is4() {
		bits = 32
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// recent is a table of the keys that were used last. It is guarded by its owner.
type recent[K comparable, V any] struct {
	most  int
	order *list.List // of *recentItem, the last used first
	items map[K]*list.Element
}

type recentItem[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	return &recent[K, V]{most: most, order: list.New(), items: map[K]*list.Element{}}
}

// get returns the value of a key, nil if it isn't there.
func (r *recent[K, V]) get(key K) *V {
	e := r.items[key]
	if e == nil {
		return nil
	}
	r.order.MoveToFront(e)
	item, _ := e.Value.(*recentItem[K, V])
	return &item.value
}

// put returns the value of a key, which begins as value if it isn't there. The least recently used one goes when the table is full.
func (r *recent[K, V]) put(key K, value V) *V {
	if v := r.get(key); v != nil {
		return v
	}
	if r.order.Len() >= r.most {
		last := r.order.Back()
		item, _ := last.Value.(*recentItem[K, V])
		delete(r.items, item.key)
		r.order.Remove(last)
	}
	item := &recentItem[K, V]{key, value}
	r.items[key] = r.order.PushFront(item)
	return &item.value
}
