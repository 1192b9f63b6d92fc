package control

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	// auditEvery is how long an entry may be in memory alone, so that no call waits for the disk and many share one write.
	auditEvery = 250 * time.Millisecond
	// maxPending is how many entries may wait to be written; beyond that they are counted and said to be lost.
	maxPending = 20_000
	// auditBatch is how many are written in one transaction, which others wait for.
	auditBatch = 200
	// keepAudit is how long entries are kept.
	keepAudit = 90 * 24 * time.Hour
)

// audit writes down who did what. Durable: what was written; process-only: the entries of the last moments.
type audit struct {
	*deps
	mu      sync.Mutex
	pending []core.AuditEntry
	// lost counts, by tenant, what there was no room for.
	lost map[core.TenantID]int
	// news says that there is something to write.
	news chan struct{}
}

func newAudit(d *deps) *audit {
	return &audit{deps: d, lost: map[core.TenantID]int{}, news: make(chan struct{}, 1)}
}

// Note writes down, soon and without waiting for it, that a caller made a call. Tenant, actor and its name are the principal's.
func (a *audit) Note(p Principal, e core.AuditEntry) {
	e.Tenant, e.Actor, e.ActorName = p.Tenant, p.Actor, p.name
	a.mu.Lock()
	if len(a.pending) < maxPending {
		a.pending = append(a.pending, e)
	} else {
		a.lost[e.Tenant]++
	}
	a.mu.Unlock()
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// ListAudit returns a page of the tenant's entries, newest first.
func (a *audit) ListAudit(ctx context.Context, p Principal, f store.AuditFilter, page store.Page) (list []core.AuditEntry, next string, err error) {
	if err := p.may("ListAudit"); err != nil {
		return nil, "", err
	}
	if err := p.needAll(); err != nil {
		return nil, "", err
	}
	err = a.store.View(ctx, func(r store.Reader) error {
		list, next, err = r.Audit(p.Tenant, f, page)
		return err
	})
	return list, next, err
}

// loop writes what is new.
func (a *audit) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.news:
		}
		if !pause(ctx, a.clock, auditEvery) {
			return
		}
		if err := a.flush(ctx); err != nil && ctx.Err() == nil {
			a.log.ErrorContext(ctx, "write the audit: will be tried again", slog.Any("err", err))
			select {
			case a.news <- struct{}{}:
			default:
			}
			if !pause(ctx, a.clock, retryFirst) {
				return
			}
		}
	}
}

// close writes the rest.
func (a *audit) close(ctx context.Context) {
	if err := a.flush(ctx); err != nil {
		a.log.ErrorContext(ctx, "write the end of the audit", slog.Any("err", err))
	}
}

// flush writes all that waits. What could not be written waits on.
func (a *audit) flush(ctx context.Context) error {
	for {
		batch := a.take()
		if len(batch) == 0 {
			return nil
		}
		by := map[core.TenantID][]core.AuditEntry{}
		for _, e := range batch {
			by[e.Tenant] = append(by[e.Tenant], e)
		}
		err := a.store.UpdateRelaxed(ctx, func(tx store.Tx) error {
			for tenant, list := range by {
				if err := tx.AppendAudit(tenant, list); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			a.mu.Lock()
			a.pending = append(batch, a.pending...)
			a.mu.Unlock()
			return err
		}
	}
}

// take returns the next entries to write. What was lost becomes entries that say so.
func (a *audit) take() []core.AuditEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.pending), auditBatch)
	batch := append([]core.AuditEntry(nil), a.pending[:n]...)
	a.pending = append(a.pending[:0], a.pending[n:]...)
	for tenant, count := range a.lost {
		batch = append(batch, core.AuditEntry{
			Tenant: tenant, At: a.clock.Now(), Actor: system("audit"), Operation: "lost", Target: strconv.Itoa(count) + " calls", Code: core.CodeExhausted,
		})
	}
	clear(a.lost)
	return batch
}
