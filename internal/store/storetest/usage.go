package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func (s *suite) usage(q store.UsageQuery, limit int) (list []core.UsageRow) {
	s.Helper()
	page := store.Page{Limit: limit}
	for {
		var next string
		s.view(func(r store.Reader) error {
			part, n, err := r.Usage(q, page)
			if len(part) > limit {
				s.Fatalf("a page of %d has %d rows", limit, len(part))
			}
			list, next = append(list, part...), n
			return err
		})
		if next == "" {
			return list
		}
		page.Cursor = next
	}
}

func (s *suite) meter(m core.Meter) {
	s.Helper()
	s.update(func(tx store.Tx) error { return tx.PutMeter(m) })
}

func awake(id core.SandboxID, since time.Time) core.Meter {
	return core.Meter{
		Sandbox: id, Tenant: alice, Name: "lab", Template: "minimal", Labels: map[string]string{"app": "web"}, Since: since,
		Clocks:    core.Clocks{Awake: true, Memory: true, Kept: true},
		Resources: core.Resources{VCPUs: 0.25, MemoryBytes: 1<<30 + 1}, KeptBytes: 0,
	}
}

func testUsage(t *testing.T, open Open) {
	t.Helper()
	t.Run("split at midnight, live, ended", func(t *testing.T) { testUsageSplit(t, open) })
	t.Run("kept bytes are told or not", func(t *testing.T) { testUsageKept(t, open) })
	t.Run("of many that were deleted the newest are told apart", func(t *testing.T) { testUsageForget(t, open) })
	t.Run("refused", func(t *testing.T) { testUsageRefused(t, open) })
	t.Run("as a model", func(t *testing.T) {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) { testUsageModel(t, open, seed) })
		}
	})
}

func testUsageSplit(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	id := core.SandboxID(core.NewID())
	begin := time.Date(2026, 3, 1, 23, 59, 58, 500_999_999, time.UTC)
	m := awake(id, begin)
	s.meter(m)
	q := store.UsageQuery{Tenant: alice, From: core.DayOf(begin), To: core.DayOf(begin) + 2, Now: begin.Add(4 * time.Second), ByDay: true}
	day := func(d core.Day, ms int64) core.UsageRow {
		return core.UsageRow{Day: d, Usage: core.Usage{
			AwakeMillis: ms, KeptMillis: ms, VCPUMillis: 250 * ms, MeasuredMillis: ms,
			Memory: core.ByteTime{Large: ms << 14, Small: ms},
		}}
	}
	want := []core.UsageRow{day(q.From, 1500), day(q.From+1, 2500)}
	wantSame(t, s.usage(q, 10), want)
	m.Clocks, m.Ended, m.Since = core.Clocks{}, true, q.Now
	s.meter(m)
	s.update(func(tx store.Tx) error { return tx.CountExec(alice, id, begin, begin.Add(2*time.Second)) })
	want[0].ExecMillis, want[1].ExecMillis, want[1].Execs = 1500, 500, 1
	q.Now = q.Now.Add(48 * time.Hour)
	wantSame(t, s.usage(q, 1), want)
	m.Ended, m.Clocks.Awake, m.Since = false, true, begin
	s.meter(m) // it has ended: nothing more is counted
	wantSame(t, s.usage(q, 10), want)
	whole := core.UsageRow{Sandbox: id, Name: "lab", Template: "minimal", Labels: map[string]string{"app": "web"}, Label: "web"}
	whole.Add(want[0].Usage)
	whole.Add(want[1].Usage)
	q.ByDay, q.BySandbox, q.ByLabel = false, true, "app"
	wantSame(t, s.usage(q, 10), []core.UsageRow{whole})
	q.Tenant = bob
	wantSame(t, s.usage(q, 10), []core.UsageRow(nil))
	s.view(func(r store.Reader) error {
		got, err := r.Meter(id)
		if !got.Ended {
			t.Errorf("it ended, and its meter is %+v", got)
		}
		_, missing := r.Meter("nobody")
		wantCode(t, missing, core.CodeNotFound)
		return err
	})
	// One that never counted leaves nothing.
	never := awake(core.SandboxID(core.NewID()), begin)
	never.Ended = true
	s.meter(never)
	s.view(func(r store.Reader) error {
		_, err := r.Meter(never.Sandbox)
		wantCode(t, err, core.CodeNotFound)
		return nil
	})
}

func testUsageKept(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	id := core.SandboxID(core.NewID())
	m := awake(id, epoch())
	m.KeptBytes = -1
	s.meter(m)
	at := func(n int) time.Time { return epoch().Add(time.Duration(n) * time.Second) }
	s.update(func(tx store.Tx) error { return tx.PutKeptBytes(id, 70_000, at(10)) })
	m.Since, m.Clocks, m.KeptBytes = at(12), core.Clocks{Kept: true}, 5 // it failed: what it keeps is what was measured last
	s.meter(m)
	s.update(func(tx store.Tx) error { return tx.PutKeptBytes(id, -1, at(15)) })
	q := store.UsageQuery{Tenant: alice, From: core.DayOf(epoch()), To: core.DayOf(epoch()), Now: at(20)}
	wantSame(t, s.usage(q, 1), []core.UsageRow{{Usage: core.Usage{
		AwakeMillis: 12_000, KeptMillis: 20_000, VCPUMillis: 250 * 12_000, MeasuredMillis: 5000,
		Memory: core.ByteTime{Large: 12_000 << 14, Small: 12_000}, Disk: core.ByteTime{Large: 5000, Small: (70_000 - 65_536) * 5000},
	}}})
	s.view(func(r store.Reader) error {
		list, err := r.OpenMeters("", 10)
		if len(list) != 1 || list[0].Sandbox != id || list[0].KeptBytes != -1 {
			t.Errorf("open are %+v", list)
		}
		if rest, _ := r.OpenMeters(id, 10); len(rest) != 0 {
			t.Errorf("behind the last one are %+v", rest)
		}
		return err
	})
}

func testUsageForget(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	var ids []core.SandboxID
	for i := range 4 {
		m := awake(core.SandboxID(core.NewID()), epoch())
		ids = append(ids, m.Sandbox)
		s.meter(m)
		if i == 3 {
			break // the last lives on
		}
		m.Since, m.Ended = epoch().Add(time.Duration(i+1)*time.Second), true
		s.meter(m)
	}
	day := core.DayOf(epoch())
	forget := func(keep store.UsageKeep) (n int) {
		s.update(func(tx store.Tx) (err error) { n, err = tx.ForgetUsage(keep); return err })
		return n
	}
	q := store.UsageQuery{Tenant: alice, From: day, To: day, Now: epoch().Add(10 * time.Second), BySandbox: true}
	millis := func() map[core.SandboxID]int64 {
		got := map[core.SandboxID]int64{}
		for _, u := range s.usage(q, 2) {
			got[u.Sandbox] = u.AwakeMillis
		}
		return got
	}
	keep := store.UsageKeep{First: day - 10, Detail: day, Ended: 3}
	if n := forget(keep); n != 0 {
		t.Fatalf("%d were dropped that are to be kept", n)
	}
	wantSame(t, millis(), map[core.SandboxID]int64{ids[0]: 1000, ids[1]: 2000, ids[2]: 3000, ids[3]: 10_000})
	keep.Ended = 1
	if forget(keep) == 0 || forget(keep) != 0 {
		t.Fatal("what is to be dropped is dropped, and then there is nothing left to drop")
	}
	wantSame(t, millis(), map[core.SandboxID]int64{"": 3000, ids[2]: 3000, ids[3]: 10_000})
	keep.Detail = day + 1
	forget(keep)
	wantSame(t, millis(), map[core.SandboxID]int64{"": 6000, ids[3]: 10_000})
	keep.First = day + 1
	forget(keep)
	wantSame(t, millis(), map[core.SandboxID]int64{ids[3]: 10_000})
}

func testUsageRefused(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	wantCode(t, s.try(func(tx store.Tx) error { return tx.PutMeter(core.Meter{}) }), core.CodeInvalid)
	wantCode(t, s.try(func(tx store.Tx) error { return tx.CountExec("", "", epoch(), epoch()) }), core.CodeInvalid)
	wantCode(t, s.try(func(tx store.Tx) error { _, err := tx.ForgetUsage(store.UsageKeep{First: 2, Detail: 1}); return err }), core.CodeInvalid)
	s.view(func(r store.Reader) error {
		for _, q := range []store.UsageQuery{{From: 2, To: 1}, {From: 1, To: 1 + store.MaxUsageDays}, {BySandbox: true}} {
			_, _, err := r.Usage(q, store.Page{Limit: 1})
			wantCode(t, err, core.CodeInvalid)
		}
		_, _, err := r.Usage(store.UsageQuery{ByDay: true}, store.Page{Limit: 1, Cursor: "x"})
		wantField(t, err, "cursor")
		_, _, err = r.Usage(store.UsageQuery{}, store.Page{})
		wantField(t, err, "limit")
		_, err = r.OpenMeters("", 0)
		wantField(t, err, "limit")
		return nil
	})
}

// usageModel is what a store should say, kept in the plainest way.
type usageModel struct {
	meters map[core.SandboxID]core.Meter
	rows   map[usagePlace]*spent
	// templates are what tenants' templates keep, since when.
	templates map[core.TenantID]templateMeter
	// saved is what checkpoints keep.
	saved    map[core.TenantID]templateMeter
	versions map[core.TemplateID]core.Template
	now      time.Time
}

type templateMeter struct {
	since time.Time
	bytes int64
}

type usagePlace struct {
	tenant  core.TenantID
	sandbox core.SandboxID
	label   string
	day     core.Day
}

// spent is usage as numbers of any size.
type spent struct {
	awake, kept, vcpu, measured, execs, exec int64
	memory, disk, templates, checkpoints     *big.Int
}

func (x *spent) add(o spent) {
	if x.memory == nil {
		x.memory, x.disk, x.templates, x.checkpoints = new(big.Int), new(big.Int), new(big.Int), new(big.Int)
	}
	if o.templates != nil {
		x.templates = new(big.Int).Add(x.templates, o.templates)
	}
	if o.checkpoints != nil {
		x.checkpoints = new(big.Int).Add(x.checkpoints, o.checkpoints)
	}
	x.awake, x.kept, x.vcpu, x.measured, x.execs, x.exec = x.awake+o.awake, x.kept+o.kept, x.vcpu+o.vcpu, x.measured+o.measured, x.execs+o.execs, x.exec+o.exec
	x.memory, x.disk = new(big.Int).Add(x.memory, o.memory), new(big.Int).Add(x.disk, o.disk)
}

func (x *spent) String() string {
	return fmt.Sprint(x.awake, x.kept, x.vcpu, x.measured, x.execs, x.exec, x.memory, x.disk, x.templates, x.checkpoints)
}

func spentOf(u core.Usage) spent {
	return spent{u.AwakeMillis, u.KeptMillis, u.VCPUMillis, u.MeasuredMillis, u.Execs, u.ExecMillis, u.Memory.Big(), u.Disk.Big(), u.Templates.Big(), u.Checkpoints.Big()}
}

func count(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

// put adds what a meter counts until a moment, day by day.
func (u *usageModel) put(rows map[usagePlace]*spent, m core.Meter, until time.Time) {
	if m.Ended {
		return
	}
	for from := m.Since.Truncate(time.Millisecond); from.Before(until.Truncate(time.Millisecond)); {
		to := until.Truncate(time.Millisecond)
		if midnight := from.Truncate(24 * time.Hour).Add(24 * time.Hour); to.After(midnight) {
			to = midnight
		}
		ms := to.Sub(from).Milliseconds()
		mul := func(bytes int64, on bool) *big.Int {
			return new(big.Int).Mul(big.NewInt(bytes), big.NewInt(ms*count(on)))
		}
		measured := m.Clocks.Kept && m.KeptBytes >= 0
		place := usagePlace{m.Tenant, m.Sandbox, "", core.DayOf(from)}
		u.row(rows, place).add(spent{
			awake: ms * count(m.Clocks.Awake), kept: ms * count(m.Clocks.Kept), vcpu: m.MilliVCPUs() * ms * count(m.Clocks.Awake),
			measured: ms * count(measured), memory: mul(m.Resources.MemoryBytes, m.Clocks.Memory), disk: mul(m.KeptBytes, measured),
		})
		from = to
	}
}

func (u *usageModel) row(rows map[usagePlace]*spent, place usagePlace) *spent {
	if rows[place] == nil {
		rows[place] = &spent{}
	}
	return rows[place]
}

// want sums up as a query asks.
func (u *usageModel) want(q store.UsageQuery) map[usagePlace]*spent {
	all := map[usagePlace]*spent{}
	for p, x := range u.rows {
		u.row(all, p).add(*x)
	}
	for _, m := range u.meters {
		u.put(all, m, q.Now)
	}
	for t := range u.templates {
		u.putTemplates(all, t, q.Now)
	}
	for t := range u.saved {
		u.putSaved(all, t, q.Now)
	}
	sum := map[usagePlace]*spent{}
	for p, x := range all {
		if p.day < q.From || p.day > q.To || q.Tenant != "" && p.tenant != q.Tenant || q.Sandbox != "" && p.sandbox != q.Sandbox {
			continue
		}
		var to usagePlace
		if q.ByTenant {
			to.tenant = p.tenant
		}
		if q.BySandbox {
			to.sandbox = p.sandbox
		}
		if q.ByDay {
			to.day = p.day
		}
		if q.ByLabel != "" {
			to.label = u.meters[p.sandbox].Labels[q.ByLabel]
		}
		u.row(sum, to).add(*x)
	}
	return sum
}

// step does one random thing to store and model.
func (u *usageModel) step(s *suite, rng *rand.Rand, ids []core.SandboxID) {
	// Mostly a little later; sometimes days, and sometimes the clock is set back.
	u.now = u.now.Add([]time.Duration{
		time.Duration(rng.Int64N(int64(time.Hour))), time.Duration(rng.Int64N(int64(10 * time.Second))), time.Duration(rng.Int64N(int64(80 * time.Hour))),
		-time.Duration(rng.Int64N(int64(30 * time.Minute))), -time.Duration(rng.Int64N(int64(10 * time.Second))),
	}[rng.IntN(5)])
	id := ids[rng.IntN(len(ids))]
	m, known := u.meters[id]
	crash := rng.IntN(4) == 0
	write := func(fn func(store.Tx) error) bool {
		killed := errors.New("killed before the commit")
		err := s.try(func(tx store.Tx) error {
			if err := fn(tx); err != nil || !crash {
				return err
			}
			return killed
		})
		if err != nil && !errors.Is(err, killed) {
			s.Fatal(err)
		}
		return err == nil
	}
	switch rng.IntN(11) {
	case 0, 1, 2, 3:
		state := []core.State{core.StateRunning, core.StateRunning, core.StateFrozen, core.StateStandby, core.StateHibernated, core.StateFailed, core.StateDeleted}[rng.IntN(7)]
		next := core.Meter{
			Sandbox: id, Tenant: []core.TenantID{alice, bob}[int(id[1])%2], Labels: map[string]string{"app": []string{"", "ä", "b"}[rng.IntN(3)]},
			Since: u.now, Clocks: core.ClocksOf(state), Ended: state == core.StateDeleted, KeptBytes: rng.Int64N(1<<40) - 1,
			Resources: core.Resources{VCPUs: float64(rng.IntN(64000)) / 1000, MemoryBytes: rng.Int64N(1 << 41)},
		}
		if !write(func(tx store.Tx) error { return tx.PutMeter(next) }) || m.Ended || !known && next.Ended {
			return
		}
		if known {
			u.put(u.rows, m, u.now)
			next.Since, next.KeptBytes = goOn(m, u.now), m.KeptBytes
		}
		u.meters[id] = next
	case 4, 5:
		bytes := rng.Int64N(1<<40) - 1
		if write(func(tx store.Tx) error { return tx.PutKeptBytes(id, bytes, u.now) }) && known && !m.Ended {
			u.put(u.rows, m, u.now)
			m.Since, m.KeptBytes = goOn(m, u.now), bytes
			u.meters[id] = m
		}
	case 6:
		from := u.now.Add(-time.Duration(rng.Int64N(int64(30 * time.Hour))))
		if known && write(func(tx store.Tx) error { return tx.CountExec(m.Tenant, id, from, u.now) }) {
			rows := map[usagePlace]*spent{}
			u.put(rows, core.Meter{Tenant: m.Tenant, Sandbox: id, Since: from, Clocks: core.Clocks{Kept: true}}, u.now)
			for p, x := range rows {
				u.row(u.rows, p).add(spent{exec: x.kept, memory: new(big.Int), disk: new(big.Int)})
			}
			u.row(u.rows, usagePlace{m.Tenant, id, "", core.DayOf(u.now)}).add(spent{execs: 1, memory: new(big.Int), disk: new(big.Int)})
		}
	case 7:
		u.forget(write, rng)
	case 8:
		u.template(write, rng)
	case 10:
		u.save(write, rng)
	case 9:
		if write(func(tx store.Tx) error { return tx.RollTrees(u.now) }) {
			for t, m := range u.saved {
				if m.bytes > 0 && core.DayOf(m.since) < core.DayOf(u.now) {
					u.putSaved(u.rows, t, u.now)
					u.saved[t] = templateMeter{goOn(core.Meter{Since: m.since}, u.now), m.bytes}
				}
			}
			for t, m := range u.templates {
				if m.bytes > 0 && core.DayOf(m.since) < core.DayOf(u.now) {
					u.putTemplates(u.rows, t, u.now)
					u.templates[t] = templateMeter{goOn(core.Meter{Since: m.since}, u.now), m.bytes}
				}
			}
		}
	}
}

// save has a tenant's checkpoints keep something else.
func (u *usageModel) save(write func(func(store.Tx) error) bool, rng *rand.Rand) {
	tenant, bytes := []core.TenantID{alice, bob}[rng.IntN(2)], []int64{0, rng.Int64N(1 << 40)}[rng.IntN(2)]
	if !write(func(tx store.Tx) error { return tx.MeterCheckpoints(tenant, bytes, u.now) }) {
		return
	}
	u.putSaved(u.rows, tenant, u.now)
	m := templateMeter{since: u.now, bytes: bytes}
	if old, ok := u.saved[tenant]; ok {
		m.since = goOn(core.Meter{Since: old.since}, u.now)
	}
	u.saved[tenant] = m
}

// putSaved adds what a tenant's checkpoints keep until a moment.
func (u *usageModel) putSaved(rows map[usagePlace]*spent, tenant core.TenantID, until time.Time) {
	m := u.saved[tenant]
	if m.bytes == 0 {
		return
	}
	days := map[usagePlace]*spent{}
	u.put(days, core.Meter{Tenant: tenant, Since: m.since, Clocks: core.Clocks{Kept: true}, KeptBytes: m.bytes}, until)
	for p, x := range days {
		u.row(rows, p).add(spent{memory: new(big.Int), disk: new(big.Int), checkpoints: x.disk})
	}
}

// template makes a version of a tenant's or deletes one.
func (u *usageModel) template(write func(func(store.Tx) error) bool, rng *rand.Rand) {
	x := newTemplate([]core.TenantID{alice, bob}[rng.IntN(2)], "t")
	x.Digest, x.OwnBytes = []string{"sha256:1", "sha256:2", ""}[rng.IntN(3)], rng.Int64N(1<<40)
	if rng.IntN(2) == 0 {
		for _, id := range slices.Sorted(maps.Keys(u.versions)) {
			x = u.versions[id]
			x.State = core.TemplateDeleted
			break
		}
	}
	ok := write(func(tx store.Tx) (err error) {
		if x, err = tx.PutTemplate(x); err != nil {
			return err
		}
		return tx.MeterTemplates(x.Tenant, u.now)
	})
	if !ok {
		return
	}
	if u.versions[x.ID] = x; x.State == core.TemplateDeleted {
		delete(u.versions, x.ID)
	}
	u.putTemplates(u.rows, x.Tenant, u.now)
	most := map[string]int64{}
	for id, v := range u.versions {
		if v.Tenant == x.Tenant {
			key := cmp.Or(v.Digest, string(id))
			most[key] = max(most[key], v.OwnBytes)
		}
	}
	m := templateMeter{since: u.now}
	if old, ok := u.templates[x.Tenant]; ok {
		m.since = goOn(core.Meter{Since: old.since}, u.now)
	}
	for _, n := range most {
		m.bytes += n
	}
	u.templates[x.Tenant] = m
}

// putTemplates adds what a tenant's templates keep until a moment.
func (u *usageModel) putTemplates(rows map[usagePlace]*spent, tenant core.TenantID, until time.Time) {
	m := u.templates[tenant]
	if m.bytes == 0 {
		return
	}
	days := map[usagePlace]*spent{}
	u.put(days, core.Meter{Tenant: tenant, Since: m.since, Clocks: core.Clocks{Kept: true}, KeptBytes: m.bytes}, until)
	for p, x := range days {
		u.row(rows, p).add(spent{memory: new(big.Int), disk: new(big.Int), templates: x.disk})
	}
}

// goOn is from when on a changed meter counts.
func goOn(m core.Meter, now time.Time) time.Time {
	if back := m.Since.UnixMilli() - now.UnixMilli(); back > 0 && back <= 60_000 {
		return m.Since
	}
	return now
}

// forget drops some days and sums up others.
func (u *usageModel) forget(write func(func(store.Tx) error) bool, rng *rand.Rand) {
	keep := store.UsageKeep{First: core.DayOf(u.now) - core.Day(20+rng.IntN(20)), Detail: core.DayOf(u.now) - core.Day(5+rng.IntN(10)), Ended: 1000}
	done := write(func(tx store.Tx) error {
		for {
			if n, err := tx.ForgetUsage(keep); n == 0 || err != nil {
				return err
			}
		}
	})
	if !done {
		return
	}
	gone := map[core.SandboxID]bool{}
	for id, m := range u.meters {
		if m.Ended && core.DayOf(m.Since) < keep.Detail {
			gone[id] = true
			delete(u.meters, id)
		}
	}
	rows := map[usagePlace]*spent{}
	for p, x := range u.rows {
		if p.day < keep.First {
			continue
		}
		if p.day < keep.Detail || gone[p.sandbox] {
			p.sandbox = ""
		}
		u.row(rows, p).add(*x)
	}
	u.rows = rows
}

// testUsageModel does random things, some of them cut off, and asks in many ways.
func testUsageModel(t *testing.T, open Open, seed uint64) {
	t.Helper()
	dir := t.TempDir()
	s := &suite{T: t, Store: open(t, dir)}
	defer func() {
		if err := s.Store.Close(); err != nil {
			t.Error(err)
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 7)) // A test that can be repeated.
	u := &usageModel{
		meters: map[core.SandboxID]core.Meter{}, rows: map[usagePlace]*spent{},
		templates: map[core.TenantID]templateMeter{}, saved: map[core.TenantID]templateMeter{}, versions: map[core.TemplateID]core.Template{}, now: epoch(),
	}
	var ids []core.SandboxID
	for range 80 {
		if len(ids) < 5 || rng.IntN(4) == 0 {
			ids = append(ids, core.SandboxID(core.NewID()))
		}
		u.step(s, rng, ids)
		if rng.IntN(20) == 0 {
			if err := s.Store.Close(); err != nil {
				t.Fatal(err)
			}
			s.Store = open(t, dir)
		}
	}
	q := store.UsageQuery{From: core.DayOf(u.now) - 200, To: core.DayOf(u.now) + 1, Now: u.now.Add(time.Duration(rng.Int64N(int64(50 * time.Hour))))}
	whole := ""
	for ways := range 16 {
		q.ByTenant, q.BySandbox, q.ByDay, q.ByLabel = ways&1 != 0, ways&2 != 0, ways&4 != 0, ""
		if ways&8 != 0 {
			q.ByLabel = "app"
		}
		for _, q.Tenant = range []core.TenantID{"", alice} {
			if q.Tenant == "" && q.BySandbox && !q.ByTenant {
				continue
			}
			got := u.compare(s, q, 1+rng.IntN(30))
			if q.Tenant != "" {
				continue
			}
			if whole == "" {
				whole = got
			}
			if got != whole {
				t.Fatalf("%+v sums up to %s, and by nothing it is %s", q, got, whole)
			}
		}
	}
	q.Tenant, q.Sandbox, q.From = "", ids[0], core.DayOf(epoch())
	u.compare(s, q, 3)
}

// compare holds the answer to a query against the model's and returns its sum.
func (u *usageModel) compare(s *suite, q store.UsageQuery, limit int) string {
	s.Helper()
	want := u.want(q)
	var total spent
	total.add(spent{memory: new(big.Int), disk: new(big.Int)})
	var order []usagePlace
	for _, row := range s.usage(q, limit) {
		p := usagePlace{row.Tenant, row.Sandbox, row.Label, row.Day}
		got := spentOf(row.Usage)
		if want[p] == nil || want[p].String() != got.String() {
			s.Fatalf("%+v: %+v is %s, want %s", q, p, got.String(), want[p])
		}
		if slices.Contains(order, p) {
			s.Fatalf("%+v: %+v comes twice", q, p)
		}
		for _, n := range []int64{got.awake, got.kept, got.vcpu, got.measured, got.execs, got.exec, int64(got.memory.Sign()), int64(got.disk.Sign()), int64(got.templates.Sign())} {
			if n < 0 {
				s.Fatalf("%+v is negative: %s", p, got.String())
			}
		}
		order = append(order, p)
		total.add(got)
		delete(want, p)
	}
	for p, x := range want {
		s.Fatalf("%+v: %+v is missing: %s", q, p, x)
	}
	return total.String()
}
