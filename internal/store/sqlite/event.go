package sqlite

import "shoal/internal/core"

func scanEvent(r row) (e core.Event, err error) {
	err = r.Scan(&e.Tenant, &e.Seq, &e.Sandbox, &e.Type, (*instant)(&e.At), &e.Actor.Kind, &e.Actor.ID, jsonOf(&e.Data))
	return e, err
}

func scanNumber(r row) (n int64, err error) {
	err = r.Scan(&n)
	return n, err
}

// AppendEvent gives the event the tenant's next number and drops what is older than the newest KeepEvents. The number comes
// from a counter that rolls back with the transaction, so there are no gaps, and trimming never sets it back.
func (w *writer) AppendEvent(e core.Event) (core.Event, error) {
	if e.Tenant == "" || e.Type == "" {
		return e, core.Errorf(core.CodeInvalid, "an event has a tenant and a type")
	}
	if err := checkText("data", e.Data); err != nil {
		return e, err
	}
	seq, err := one(&w.reader, "", scanNumber, `INSERT INTO event_head (tenant, seq) VALUES (?, 1)
		ON CONFLICT (tenant) DO UPDATE SET seq = seq + 1 RETURNING seq`, e.Tenant)
	if err != nil {
		return e, err
	}
	e.Seq = seq
	_, err = w.change("append event",
		"INSERT INTO event (tenant, seq, sandbox, type, at, actor_kind, actor_id, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		e.Tenant, e.Seq, e.Sandbox, e.Type, instant(e.At), e.Actor.Kind, e.Actor.ID, jsonOf(&e.Data))
	if err != nil || seq <= w.keep.events {
		return e, err
	}
	_, err = w.change("trim events", "DELETE FROM event WHERE tenant = ? AND seq <= ?", e.Tenant, seq-w.keep.events)
	return e, err
}
