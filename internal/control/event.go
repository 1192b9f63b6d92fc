package control

import (
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// appendEvent adds an event about a sandbox to the transaction that makes it true. If it is one of the sandbox itself, and not of what is
// inside, what counts as its usage is from then on what the sandbox is now.
func appendEvent(tx store.Tx, sb core.Sandbox, t core.EventType, actor core.Actor, at time.Time, data map[string]string) error {
	if err := tellEvent(tx, sb, t, actor, at, data); err != nil || !t.OfSandbox() {
		return err
	}
	return tx.PutMeter(core.MeterOf(sb, at))
}

// tellEvent is appendEvent for who sees to the usage himself.
func tellEvent(tx store.Tx, sb core.Sandbox, t core.EventType, actor core.Actor, at time.Time, data map[string]string) error {
	_, err := tx.AppendEvent(core.Event{
		Tenant: sb.Tenant, Sandbox: sb.ID, Type: t, At: at, Actor: actor, Data: data,
	})
	return err
}

// system is the actor of what a rule or the server itself does.
func system(rule string) core.Actor { return core.Actor{Kind: "system", ID: rule} }

// waiters wakes those who wait for a tenant's next event.
type waiters struct {
	mu sync.Mutex
	by map[core.TenantID]chan struct{}
}

func newWaiters() *waiters { return &waiters{by: map[core.TenantID]chan struct{}{}} }

// wait returns a channel that is closed at the tenant's next change.
func (w *waiters) wait(t core.TenantID) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by[t] == nil {
		w.by[t] = make(chan struct{})
	}
	return w.by[t]
}

// wake tells those who wait that a tenant has new events.
func (w *waiters) wake(t core.TenantID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.by[t]; c != nil {
		close(c)
		delete(w.by, t)
	}
}
