package httpserve

import (
	"container/list"
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"shoal/internal/core"
)

// Strangers bounds what callers without a good key cost: each address may fail so often, then it is refused before the store
// is asked, and its failures are logged once a minute.
//
// Behind one address there may be many callers, and one with a wrong key must not lock the others out. So keys that were good
// lately pass from any address, and a key that was not refused lately has a budget that wrong keys, however often they
// are sent, don't touch. Only who makes up new keys all the time uses that one up too, and can then delay keys that this server
// has not seen yet: as many times as it is faster than that budget.
//
// All tables have a fixed size, and forget who was not seen for the longest time.
type Strangers struct {
	mu    sync.Mutex
	addrs *recent[netip.Prefix, stranger]
	good  *recent[secretHash, struct{}]
	// bad has when a secret was refused last.
	bad *recent[secretHash, time.Time]
	// fresh is how many secrets that are in neither table may still be looked up for addresses that have nothing left.
	fresh bucket
}

type secretHash [sha256.Size]byte

// stranger is an address from which failures came.
type stranger struct {
	// failures is how many it has left. They may fall below zero, by calls that began before they did.
	failures bucket
	// logged is when a failure was logged last, unlogged how many were not since.
	logged   time.Time
	unlogged int
}

// bucket is a budget that fills up by itself.
type bucket struct {
	left float64
	at   time.Time
}

const (
	// failuresPerSecond and failureBurst bound the failures of an address, failureDebt how long it pays for too many at once.
	failuresPerSecond = 2.0
	failureBurst      = 100.0
	failureDebt       = 40.0
	// freshPerSecond and freshBurst bound the look-ups of secrets that are not known, beyond those of the addresses.
	freshPerSecond = 50.0
	freshBurst     = 100.0
	// badFor is how long a secret that was refused counts as wrong.
	badFor = time.Minute
	// failureLogEvery is how often a failure of an address is logged.
	failureLogEvery = time.Minute

	maxStrangers = 4096
	maxKeys      = 4096
)

// NewStrangers returns one that has seen nobody.
func NewStrangers() *Strangers {
	return &Strangers{
		addrs: newRecent[netip.Prefix, stranger](maxStrangers),
		good:  newRecent[secretHash, struct{}](maxKeys), bad: newRecent[secretHash, time.Time](maxKeys),
		fresh: bucket{left: freshBurst},
	}
}

// Admit refuses an address that has failed too often, unless it comes with a key that was good lately or is not known yet. An
// empty secret is none.
func (s *Strangers) Admit(remote, secret string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := secretHash(sha256.Sum256([]byte(secret)))
	if secret != "" && s.good.get(hash) != nil {
		return nil
	}
	a := s.addrs.get(addressOf(remote))
	if a == nil {
		return nil
	}
	wait := a.failures.wait(now, failuresPerSecond, failureBurst)
	if refused := s.bad.get(hash); wait > 0 && secret != "" && (refused == nil || now.Sub(*refused) >= badFor) {
		if wait = s.fresh.wait(now, freshPerSecond, freshBurst); wait == 0 {
			s.fresh.left--
		}
	}
	if wait == 0 {
		return nil
	}
	return &core.Error{
		Code: core.CodeQuota, RetryAfter: wait,
		Message: "too many requests without a valid API key came from this address",
	}
}

// Failed counts a request that had no good key. One that was good is no longer.
func (s *Strangers) Failed(remote, secret string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.addrs.put(addressOf(remote), newStranger(now))
	a.failures.refill(now, failuresPerSecond, failureBurst)
	a.failures.left = max(a.failures.left-1, -failureDebt)
	if secret != "" {
		hash := secretHash(sha256.Sum256([]byte(secret)))
		s.good.drop(hash)
		*s.bad.put(hash, now) = now
	}
}

// Welcome remembers a key that was good.
func (s *Strangers) Welcome(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good.put(sha256.Sum256([]byte(secret)), struct{}{})
}

func newStranger(now time.Time) stranger {
	return stranger{failures: bucket{left: failureBurst, at: now}}
}

// MayLog reports whether a failure from an address is to be logged, and how many before it were not.
func (s *Strangers) MayLog(remote string, now time.Time) (unlogged int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.addrs.put(addressOf(remote), newStranger(now))
	if !a.logged.IsZero() && now.Sub(a.logged) < failureLogEvery {
		a.unlogged++
		return 0, false
	}
	unlogged = a.unlogged
	a.logged, a.unlogged = now, 0
	return unlogged, true
}

func (b *bucket) refill(now time.Time, perSecond, burst float64) {
	if passed := now.Sub(b.at); passed > 0 {
		b.left = min(b.left+passed.Seconds()*perSecond, burst)
		b.at = now
	}
}

// wait is how long it takes until something is left; zero if something is.
func (b *bucket) wait(now time.Time, perSecond, burst float64) time.Duration {
	b.refill(now, perSecond, burst)
	if b.left > 0 {
		return 0
	}
	return time.Duration((1 - b.left) / perSecond * float64(time.Second))
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
		last, _ := r.order.Back().Value.(*recentItem[K, V])
		r.drop(last.key)
	}
	item := &recentItem[K, V]{key, value}
	r.items[key] = r.order.PushFront(item)
	return &item.value
}

// drop forgets a key.
func (r *recent[K, V]) drop(key K) {
	if e := r.items[key]; e != nil {
		delete(r.items, key)
		r.order.Remove(e)
	}
}
