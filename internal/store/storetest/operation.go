package storetest

import (
	"slices"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func newOperation(tenant core.TenantID) core.Operation {
	return core.Operation{
		ID: core.OperationID(core.NewID()), Tenant: tenant, Kind: core.WorkTemplateImport, State: core.OperationRunning, CreatedAt: epoch(),
	}
}

func (s *suite) putOperation(list ...core.Operation) {
	s.Helper()
	s.update(func(tx store.Tx) error {
		for _, o := range list {
			if err := tx.PutOperation(o); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *suite) operation(tenant core.TenantID, id core.OperationID) (o core.Operation, err error) {
	err = s.View(s.Context(), func(r store.Reader) (err error) {
		o, err = r.Operation(tenant, id)
		return err
	})
	return o, err
}

func testOperation(t *testing.T, open Open) {
	t.Helper()
	t.Run("every field comes back", func(t *testing.T) { testOperationFields(t, open) })
	t.Run("one that has ended stays as it is", func(t *testing.T) { testOperationEnd(t, open) })
	t.Run("pages and filters", func(t *testing.T) { testOperationList(t, open) })
	t.Run("settled or not", func(t *testing.T) { testSettleOperation(t, open) })
	t.Run("a bounded number is kept", func(t *testing.T) { testKeepOperations(t, open) })
}

func testOperationFields(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	want := newOperation(alice)
	want.Target, want.Intent = map[string]string{"template_id": "t1"}, `{"ref":"a/b"}`
	want.Actor = core.Actor{Kind: "key", ID: "k"}
	s.putOperation(want, newOperation(bob))
	got, err := s.operation(alice, want.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, got, want)
	_, foreign := s.operation(bob, want.ID)
	_, absent := s.operation(bob, core.OperationID(core.NewID()))
	sameNotFound(t, absent, foreign)

	want.Progress = core.OperationProgress{Step: "fetching", Percent: -1, BytesDone: 1 << 40, BytesTotal: 2 << 40}
	s.update(func(tx store.Tx) error { return tx.PutOperationProgress(want.ID, want.Progress) })
	if got, err = s.operation(alice, want.ID); err != nil {
		t.Fatal(err)
	}
	wantSame(t, got, want)

	end := want
	end.State, end.Code, end.Message, end.EndedAt = core.OperationFailed, core.CodeNotFound, "no such image", epoch().Add(1)
	end.Result = map[string]string{"a": "b"}
	// What was put first of these stays.
	end.Intent, end.Actor, end.CreatedAt = "", core.Actor{}, epoch().Add(1)
	s.putOperation(end)
	end.Intent, end.Actor, end.CreatedAt = want.Intent, want.Actor, want.CreatedAt
	if got, err = s.operation(alice, want.ID); err != nil {
		t.Fatal(err)
	}
	wantSame(t, got, end)
	for name, spoil := range map[string]func(*core.Operation){
		"no id": func(o *core.Operation) { o.ID = "" }, "no tenant": func(o *core.Operation) { o.Tenant = "" },
		"no kind": func(o *core.Operation) { o.Kind = "" }, "no time": func(o *core.Operation) { o.CreatedAt = time.Time{} },
		"no text": func(o *core.Operation) { o.Target = map[string]string{"a": "\xff"} },
	} {
		o := newOperation(alice)
		spoil(&o)
		if err := s.try(func(tx store.Tx) error { return tx.PutOperation(o) }); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%s: got %v, want invalid", name, err)
		}
	}
}

func testOperationEnd(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	o := newOperation(alice)
	s.putOperation(o)
	for name, spoil := range map[string]func(*core.Operation){
		"other tenant": func(o *core.Operation) { o.Tenant = bob },
		"other kind":   func(o *core.Operation) { o.Kind = core.WorkTemplateCreate },
	} {
		x := o
		spoil(&x)
		if err := s.try(func(tx store.Tx) error { return tx.PutOperation(x) }); !core.IsCode(err, core.CodeConflict) {
			t.Errorf("%s: got %v, want conflict", name, err)
		}
	}
	for _, state := range core.OperationStates() {
		if state == core.OperationRunning {
			continue
		}
		ended := newOperation(alice)
		s.putOperation(ended)
		ended.State, ended.EndedAt = state, epoch().Add(time.Second)
		s.putOperation(ended)
		for _, next := range core.OperationStates() {
			again := ended
			again.State = next
			wantCode(t, s.try(func(tx store.Tx) error { return tx.PutOperation(again) }), core.CodeConflict)
		}
		s.update(func(tx store.Tx) error {
			return tx.PutOperationProgress(ended.ID, core.OperationProgress{Step: "late"})
		})
		got, err := s.operation(alice, ended.ID)
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, got, ended)
	}
}

// testSettleOperation: what runs is unsettled, and what has ended until it is written down that it is settled.
func testSettleOperation(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	running, canceled, done := newOperation(alice), newOperation(bob), newOperation(alice)
	canceled.CreatedAt, done.CreatedAt = epoch().Add(time.Second), epoch().Add(2*time.Second)
	s.putOperation(done, running, canceled)
	settle := func(id core.OperationID) {
		s.update(func(tx store.Tx) error { return tx.SettleOperation(id) })
	}
	want := func(want ...core.Operation) {
		s.view(func(r store.Reader) error {
			got, err := r.UnsettledOperations()
			wantSame(t, got, want)
			return err
		})
	}
	settle(running.ID)
	settle(canceled.ID) // too early
	settle(core.OperationID(core.NewID()))
	want(running, canceled, done)
	canceled.State, canceled.EndedAt = core.OperationCanceled, epoch().Add(time.Minute)
	done.State, done.EndedAt = core.OperationSucceeded, epoch().Add(time.Minute)
	s.putOperation(canceled, done)
	want(running, canceled, done)
	settle(canceled.ID)
	want(running, done)
	settle(done.ID)
	want(running)
	running.State, running.EndedAt = core.OperationFailed, epoch().Add(time.Minute)
	s.putOperation(running)
	want(running)
	settle(running.ID)
	want()
}

func testOperationList(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	var all []core.Operation
	for i := range 11 {
		o := newOperation(alice)
		o.CreatedAt = epoch().Add(time.Duration(i/4) * time.Second)
		if i%2 == 0 {
			o.Kind = core.WorkTemplateCreate
		}
		if i%3 == 0 {
			o.State, o.EndedAt = core.OperationFailed, epoch().Add(time.Hour)
		}
		all = append(all, o)
		s.putOperation(o, newOperation(bob))
	}
	slices.SortFunc(all, func(a, b core.Operation) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 || a.ID == b.ID {
			return c
		} else if a.ID > b.ID {
			return -1
		}
		return 1
	})
	for name, f := range map[string]store.OperationFilter{
		"all": {}, "running": {States: []core.OperationState{core.OperationRunning}},
		"ended": {States: []core.OperationState{core.OperationFailed, core.OperationCanceled}},
		"kind":  {Kinds: []core.WorkKind{core.WorkTemplateCreate}},
		"both":  {States: []core.OperationState{core.OperationFailed}, Kinds: []core.WorkKind{core.WorkTemplateImport}},
		"none":  {Kinds: []core.WorkKind{"nothing.at-all"}},
	} {
		var want, got []core.Operation
		for _, o := range all {
			if (f.States == nil || slices.Contains(f.States, o.State)) && (f.Kinds == nil || slices.Contains(f.Kinds, o.Kind)) {
				want = append(want, o)
			}
		}
		page := store.Page{Limit: 3}
		for more := true; more; more = page.Cursor != "" {
			s.view(func(r store.Reader) (err error) {
				var list []core.Operation
				list, page.Cursor, err = r.ListOperations(alice, f, page)
				got = append(got, list...)
				return err
			})
		}
		t.Run(name, func(t *testing.T) { wantSame(t, got, want) })
	}
	s.view(func(r store.Reader) error {
		_, _, err := r.ListOperations(alice, store.OperationFilter{}, store.Page{Limit: 0})
		wantField(t, err, "limit")
		_, _, err = r.ListOperations(alice, store.OperationFilter{}, store.Page{Limit: 1, Cursor: "x"})
		wantField(t, err, "cursor")
		return nil
	})
}

// testKeepOperations ends more than store.KeepOperations, of which the very first never ends.
func testKeepOperations(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	first, foreign := newOperation(alice), newOperation(bob)
	foreign.State, foreign.EndedAt = core.OperationSucceeded, epoch()
	s.putOperation(first, foreign)
	const extra = 5
	var ids []core.OperationID
	s.update(func(tx store.Tx) error {
		ids = nil
		for i := range store.KeepOperations + extra {
			o := newOperation(alice)
			o.CreatedAt = epoch().Add(time.Duration(i) * time.Second)
			if err := tx.PutOperation(o); err != nil {
				return err
			}
			o.State, o.EndedAt = core.OperationSucceeded, o.CreatedAt
			if err := tx.PutOperation(o); err != nil {
				return err
			}
			if i != 1 { // of which not all is removed yet
				if err := tx.SettleOperation(o.ID); err != nil {
					return err
				}
			}
			ids = append(ids, o.ID)
		}
		return tx.PutOperation(newOperation(alice))
	})
	for i, id := range ids {
		_, err := s.operation(alice, id)
		if gone := core.IsCode(err, core.CodeNotFound); gone != (i < extra && i != 1) || (err != nil && !gone) {
			t.Fatalf("operation %d of %d: %v", i, len(ids), err)
		}
	}
	if _, err := s.operation(alice, first.ID); err != nil {
		t.Fatalf("one that runs was forgotten: %v", err)
	}
	if _, err := s.operation(bob, foreign.ID); err != nil {
		t.Fatalf("another tenant's was forgotten: %v", err)
	}
}
