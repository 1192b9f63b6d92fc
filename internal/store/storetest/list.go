package storetest

import (
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func testList(t *testing.T, open Open) {
	t.Helper()
	t.Run("filters", func(t *testing.T) { testFilters(t, open) })
	t.Run("pages", func(t *testing.T) { testPages(t, open) })
	t.Run("pages, oldest first", func(t *testing.T) { testPagesUp(t, open) })
	t.Run("pages of large records", func(t *testing.T) { testPageSize(t, open) })
	t.Run("bad pages are refused", func(t *testing.T) { testBadPages(t, open) })
}

func testFilters(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	a, b, c, dead := newSandbox(alice), newSandbox(alice), newSandbox(alice), newSandbox(alice)
	a.Labels = map[string]string{"app": "web", "tier": "1"}
	b.Labels, b.State = map[string]string{"app": "web", "tier": "2"}, core.StateFailed
	dead.State, dead.DeletedAt = core.StateDeleted, epoch()
	dead.Labels = a.Labels
	for i, p := range []*core.Sandbox{&a, &b, &c, &dead} {
		p.CreatedAt = epoch().Add(time.Duration(i))
		p.StartedAt = p.CreatedAt.Add(time.Second)
	}
	a.StartedAt = time.Time{} // It has never run.
	c.Template, c.TemplateName = "t2", "base"
	after := func(t time.Time) store.SandboxFilter { return store.SandboxFilter{StartedAfter: t} }
	s.put(a, b, c, dead)
	tests := map[string]struct {
		filter store.SandboxFilter
		want   []core.SandboxID
	}{
		"none":               {store.SandboxFilter{}, []core.SandboxID{c.ID, b.ID, a.ID}},
		"empty labels":       {store.SandboxFilter{Labels: map[string]string{}}, []core.SandboxID{c.ID, b.ID, a.ID}},
		"deleted too":        {store.SandboxFilter{IncludeDeleted: true}, []core.SandboxID{dead.ID, c.ID, b.ID, a.ID}},
		"a state":            {store.SandboxFilter{States: []core.State{core.StateFailed}}, []core.SandboxID{b.ID}},
		"two states":         {store.SandboxFilter{States: []core.State{core.StateFailed, core.StateRunning}}, []core.SandboxID{c.ID, b.ID, a.ID}},
		"a label":            {store.SandboxFilter{Labels: map[string]string{"app": "web"}}, []core.SandboxID{b.ID, a.ID}},
		"all labels":         {store.SandboxFilter{Labels: map[string]string{"app": "web", "tier": "1"}}, []core.SandboxID{a.ID}},
		"label and state":    {store.SandboxFilter{States: []core.State{core.StateFailed}, Labels: map[string]string{"tier": "1"}}, nil},
		"label of nobody":    {store.SandboxFilter{Labels: map[string]string{"app": "db"}}, nil},
		"key of nobody":      {store.SandboxFilter{Labels: map[string]string{"$.app": "web"}}, nil},
		"value by wildcard":  {store.SandboxFilter{Labels: map[string]string{"app": "%"}}, nil},
		"state of nobody":    {store.SandboxFilter{States: []core.State{core.StateFrozen}}, nil},
		"deleted, not asked": {store.SandboxFilter{States: []core.State{core.StateDeleted}}, nil},
		"oldest first":       {store.SandboxFilter{OldestFirst: true}, []core.SandboxID{a.ID, b.ID, c.ID}},
		"started after":      {after(b.StartedAt.Add(-1)), []core.SandboxID{c.ID, b.ID}},
		"started then":       {after(b.StartedAt), []core.SandboxID{c.ID}},
		"started last":       {after(dead.StartedAt), nil},
		"started in 1500":    {after(time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)), []core.SandboxID{c.ID, b.ID}},
		"started in 3000":    {after(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)), nil},
		"template by name":   {store.SandboxFilter{Template: "minimal"}, []core.SandboxID{b.ID, a.ID}},
		"template by id":     {store.SandboxFilter{Template: "t2"}, []core.SandboxID{c.ID}},
		"template of nobody": {store.SandboxFilter{Template: "%"}, nil},
		"all together":       {store.SandboxFilter{Template: "minimal", StartedAfter: b.StartedAt.Add(-1), OldestFirst: true, Labels: b.Labels}, []core.SandboxID{b.ID}},
		"deleted, asked":     {store.SandboxFilter{States: []core.State{core.StateDeleted}, IncludeDeleted: true}, []core.SandboxID{dead.ID}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			list, next, err := s.list(alice, tc.filter, store.Page{Limit: 1000})
			if err != nil || next != "" {
				t.Fatalf("next %q, error %v", next, err)
			}
			wantSame(t, ids(list), tc.want)
		})
	}
}

// testPages walks a list in pages while records come and go around it.
func testPages(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	const n = 25
	var want []core.SandboxID
	for i := range n {
		b := newSandbox(alice)
		b.CreatedAt = epoch().Add(time.Duration(i/5) * time.Second) // five of each age: the id must break the tie
		s.put(b)
		want = append(want, b.ID)
	}
	var got []core.SandboxID
	page := store.Page{Limit: 3}
	for pages := 0; ; pages++ {
		list, next, err := s.list(alice, store.SandboxFilter{}, page)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ids(list)...)
		if next == "" {
			break
		}
		if len(list) != page.Limit || pages > n {
			t.Fatalf("page %d has %d records and a next page", pages, len(list))
		}
		page.Cursor = next

		young := newSandbox(alice)
		young.CreatedAt = epoch().Add(time.Hour)
		s.put(young)
		// The record that the cursor stands on stays, and every other time goes away.
		if pages%2 == 1 {
			last := list[len(list)-1]
			last.State, last.DeletedAt = core.StateDeleted, epoch()
			s.put(last)
		}
	}
	sorted := slices.Clone(got)
	slices.Sort(sorted)
	slices.Sort(want)
	wantSame(t, sorted, want)

	// A last page that is exactly full has no next.
	list, next, err := s.list(bob, store.SandboxFilter{}, store.Page{Limit: 1})
	if err != nil || next != "" || len(list) != 0 {
		t.Fatalf("an empty list gave %v, %q, %v", list, next, err)
	}
	s.put(newSandbox(bob))
	list, next, err = s.list(bob, store.SandboxFilter{}, store.Page{Limit: 1})
	if err != nil || next != "" || len(list) != 1 {
		t.Fatalf("a full last page gave %v, %q, %v", list, next, err)
	}
}

// testPagesUp walks a list from its oldest record on, and shows that it is the other order turned around, and that one's cursors are
// not the other's.
func testPagesUp(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	for i := range 12 {
		b := newSandbox(alice)
		b.CreatedAt = epoch().Add(time.Duration(i/4) * time.Second) // four of each age: the id must break the tie
		s.put(b)
	}
	down, _, err := s.list(alice, store.SandboxFilter{}, store.Page{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(down)
	var up []core.SandboxID
	page := store.Page{Limit: 5}
	for {
		list, next, err := s.list(alice, store.SandboxFilter{OldestFirst: true}, page)
		if err != nil {
			t.Fatal(err)
		}
		up = append(up, ids(list)...)
		if page.Cursor = next; next == "" {
			break
		}
		_, _, err = s.list(alice, store.SandboxFilter{}, page)
		wantField(t, err, "cursor")
	}
	wantSame(t, up, ids(down))
}

func testBadPages(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	for range 3 {
		b := newSandbox(alice)
		s.put(b)
		s.update(func(tx store.Tx) error {
			if err := tx.PutExec(newExec(b.ID)); err != nil {
				return err
			}
			return tx.PutExec(newExec(b.ID))
		})
	}
	_, good, err := s.list(alice, store.SandboxFilter{}, store.Page{Limit: 1})
	if err != nil || good == "" {
		t.Fatalf("cursor %q, error %v", good, err)
	}
	garbage := []string{"x", "!", "bm90IGEgY3Vyc29y", good + "A", good[1:], base64.RawURLEncoding.EncodeToString([]byte(`{"k":"sandboxes"}`))}
	many := map[string]string{}
	for i := range 101 {
		many[numbered("k", i)] = "v"
	}
	_, _, err = s.list(alice, store.SandboxFilter{Labels: many}, store.Page{Limit: 1})
	wantField(t, err, "labels")
	delete(many, "k-0")
	if list, _, err := s.list(alice, store.SandboxFilter{Labels: many}, store.Page{Limit: 1}); err != nil || len(list) != 0 {
		t.Fatalf("a filter of 100 labels: %v, %v", list, err)
	}
	for _, c := range garbage {
		_, _, err := s.list(alice, store.SandboxFilter{}, store.Page{Limit: 1, Cursor: c})
		wantField(t, err, "cursor")
	}
	s.view(func(r store.Reader) error {
		_, _, err := r.ListExecs("x", store.ExecFilter{}, store.Page{Limit: 1, Cursor: good})
		wantField(t, err, "cursor")
		_, _, err = r.ListTemplates(alice, store.TemplateFilter{}, store.Page{Limit: 1, Cursor: good})
		wantField(t, err, "cursor")
		for _, limit := range []int{0, -1, 1001} {
			_, _, err = r.ListSandboxes(alice, store.SandboxFilter{}, store.Page{Limit: limit})
			wantField(t, err, "limit")
			_, _, err = r.ListExecs("x", store.ExecFilter{}, store.Page{Limit: limit})
			wantField(t, err, "limit")
			_, _, err = r.ListTemplates(alice, store.TemplateFilter{}, store.Page{Limit: limit})
			wantField(t, err, "limit")
			_, _, err = eventsAfter(r, alice, "", 0, limit)
			wantField(t, err, "limit")
		}
		_, _, err = eventsAfter(r, alice, "", -1, 1)
		wantField(t, err, "after")
		return nil
	})
}
