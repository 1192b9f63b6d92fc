package control

import (
	"context"

	"shoal/internal/core"
	"shoal/internal/store"
)

// UsageQuery asks what was used.
type UsageQuery struct {
	// From and To are the first and the last day. Without a last it is today, without a first it is 29 days earlier.
	From, To core.Day
	// Sandbox, if it is not empty, is the one sandbox that is asked for: by id or name, or by id one that is deleted.
	Sandbox string
	// ByTenant, BySandbox, ByDay and ByLabel, the key of a label, are what is told apart. By tenant, an operator who has named none is told of
	// all; everybody else of one.
	ByTenant, BySandbox, ByDay bool
	ByLabel                    string
}

// UsagePage is a page of what was used.
type UsagePage struct {
	// From and To are the days that were asked for.
	From, To core.Day
	Rows     []core.UsageRow
	Next     string
}

// defaultUsageDays is how many days are told of if nobody says how many.
const defaultUsageDays = 30

// Usage returns a page of what was used until now.
func (u *usage) Usage(ctx context.Context, p Principal, q UsageQuery, page store.Page) (out UsagePage, err error) {
	if err := p.may("Usage"); err != nil {
		return out, err
	}
	if q.Sandbox == "" {
		err = p.needAll()
	} else {
		err = p.needKey()
	}
	if err != nil {
		return out, err
	}
	now := u.clock.Now()
	ask := store.UsageQuery{
		Tenant: p.Tenant, From: q.From, To: q.To, Now: now,
		ByTenant: q.ByTenant, BySandbox: q.BySandbox, ByDay: q.ByDay, ByLabel: q.ByLabel,
	}
	if ask.To == 0 {
		ask.To = core.DayOf(now)
	}
	if ask.From == 0 {
		ask.From = ask.To - defaultUsageDays + 1
	}
	err = u.store.View(ctx, func(r store.Reader) error {
		switch {
		case q.Sandbox != "":
			if ask.Sandbox, err = usedSandbox(r, p, q.Sandbox); err != nil {
				return err
			}
		case q.ByTenant && p.Admin && !p.acting:
			ask.Tenant = ""
		}
		out.Rows, out.Next, err = r.Usage(ask, page)
		return err
	})
	out.From, out.To = ask.From, ask.To
	return out, err
}

// usedSandbox finds a sandbox of the caller's that there is usage of.
func usedSandbox(r store.Reader, p Principal, ref string) (core.SandboxID, error) {
	sb, err := p.find(r, ref)
	if !core.IsCode(err, core.CodeNotFound) {
		return sb.ID, err
	}
	m, gone := r.Meter(core.SandboxID(ref))
	if gone == nil && p.sees(core.Sandbox{ID: m.Sandbox, Tenant: m.Tenant, Labels: m.Labels}) {
		return m.Sandbox, nil
	}
	return "", err
}
