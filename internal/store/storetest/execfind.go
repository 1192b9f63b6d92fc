package storetest

import (
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// tagged puts an exec that was started so many nanoseconds after the suite's epoch.
func (s *suite) tagged(sandbox core.SandboxID, after int, tag string, pid int, outcome core.Outcome) core.ExecID {
	s.Helper()
	e := newExec(sandbox)
	e.StartedAt = epoch().Add(time.Duration(after))
	e.Spec.Tag, e.PID, e.Outcome = tag, pid, outcome
	s.update(func(tx store.Tx) error { return tx.PutExec(e) })
	return e.ID
}

func testFindExec(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	b, other := newSandbox(alice), newSandbox(alice)
	s.put(b, other)
	find := func(by store.ExecKey) (id core.ExecID, err error) {
		err = s.View(t.Context(), func(r store.Reader) error {
			e, err := r.FindExec(b.ID, by)
			id = e.ID
			return err
		})
		return id, err
	}
	want := func(by store.ExecKey, want core.ExecID) {
		t.Helper()
		if got, err := find(by); err != nil || got != want {
			t.Fatalf("%+v finds %q, %v, want %q", by, got, err, want)
		}
	}
	s.tagged(other.ID, 9, "web", 100, "")
	s.tagged(b.ID, 1, "web", 100, core.OutcomeExited)
	ended := s.tagged(b.ID, 2, "web", 100, core.OutcomeLost)
	want(store.ExecKey{Tag: "web"}, ended)
	want(store.ExecKey{PID: 100}, ended)
	old := s.tagged(b.ID, 3, "web", 200, "")
	young := s.tagged(b.ID, 4, "web", 100, "")
	s.tagged(b.ID, 5, "web", 100, core.OutcomeExited)
	s.tagged(b.ID, 6, "", 0, "")
	want(store.ExecKey{Tag: "web"}, young)
	want(store.ExecKey{PID: 100}, young)
	want(store.ExecKey{PID: 200}, old)
	want(store.ExecKey{PID: 200, Tag: "web"}, old)
	// Started in the same moment: always the same one.
	twins := []core.ExecID{s.tagged(b.ID, 7, "twin", 300, ""), s.tagged(b.ID, 7, "twin", 300, "")}
	want(store.ExecKey{Tag: "twin"}, max(twins[0], twins[1]))
	want(store.ExecKey{PID: 300}, max(twins[0], twins[1]))

	for _, by := range []store.ExecKey{
		{PID: 101},
		{Tag: "we"},
		{Tag: "%"},
		{PID: 200, Tag: "twin"},
		{PID: -1},
	} {
		_, err := find(by)
		wantCode(t, err, core.CodeNotFound)
	}
	// Without a process id there is none to be found by.
	_, err := find(store.ExecKey{})
	wantCode(t, err, core.CodeInvalid)
}

func testExecFilters(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	b := newSandbox(alice)
	s.put(b)
	plain := s.tagged(b.ID, 1, "", 1, "")
	web1 := s.tagged(b.ID, 2, "web", 2, "")
	web2 := s.tagged(b.ID, 3, "web", 3, core.OutcomeExited)
	done := s.tagged(b.ID, 4, "", 4, core.OutcomeExited)
	web3 := s.tagged(b.ID, 5, "web", 5, core.OutcomeCanceled)
	tests := map[string]struct {
		filter store.ExecFilter
		want   []core.ExecID
	}{
		"none":            {store.ExecFilter{}, []core.ExecID{web3, done, web2, web1, plain}},
		"tag":             {store.ExecFilter{Tag: "web"}, []core.ExecID{web3, web2, web1}},
		"tag of nobody":   {store.ExecFilter{Tag: "db"}, nil},
		"running":         {store.ExecFilter{Running: true}, []core.ExecID{web1, plain}},
		"tag and running": {store.ExecFilter{Tag: "web", Running: true}, []core.ExecID{web1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []core.ExecID
			page := store.Page{Limit: 1}
			for more := true; more; more = page.Cursor != "" {
				s.view(func(r store.Reader) (err error) {
					var list []core.Exec
					list, page.Cursor, err = r.ListExecs(b.ID, tc.filter, page)
					for _, e := range list {
						got = append(got, e.ID)
					}
					return err
				})
			}
			wantSame(t, got, tc.want)
		})
	}
}
