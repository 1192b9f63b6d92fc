package control_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
)

// TestEventTypesAreAllOfThem compares the list, from which patterns are made out, with the constants.
func TestEventTypesAreAllOfThem(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../core/*.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(node ast.Node) bool {
			if v, ok := node.(*ast.ValueSpec); ok {
				if id, ok := v.Type.(*ast.Ident); ok && id.Name == "EventType" {
					n += len(v.Names)
				}
			}
			return true
		})
	}
	if list := core.EventTypes(); len(list) != n || n == 0 {
		t.Errorf("there are %d types, and the list has %d", n, len(list))
	}
}

func TestEventsAreFound(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		web, db := w.create(core.SandboxSpec{Name: "web", Labels: map[string]string{"app": "web"}}), w.create(core.SandboxSpec{Name: "db"})
		w.pass(50 * time.Minute)
		if err := w.svc.DeleteSandbox(t.Context(), alice, "web"); err != nil {
			t.Fatal(err)
		}
		find := func(q control.EventQuery) (types []core.EventType) {
			t.Helper()
			q.Limit = 100
			page, err := w.svc.FindEvents(t.Context(), alice, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Events {
				if e.Sandbox != "" {
					types = append(types, e.Type)
				}
			}
			return types
		}
		life := []core.EventType{core.EventSandboxCreating, core.EventSandboxRunning, core.EventSandboxDeleted}
		for what, q := range map[string]control.EventQuery{
			"id": {Sandbox: string(web.ID)}, "label": {Labels: map[string]string{"app": "web"}}, "pattern": {Sandbox: string(web.ID), Types: []string{"sandbox.*"}},
		} {
			if got := find(q); !slices.Equal(got, life) {
				t.Errorf("by %s: %v", what, got)
			}
		}
		if got := find(control.EventQuery{Types: []string{"sandbox.deleted"}}); !slices.Equal(got, life[2:]) {
			t.Errorf("by type: %v", got)
		}
		if got := find(control.EventQuery{Types: []string{"sandbox.*"}, Since: time.Now().Add(-time.Minute)}); !slices.Equal(got, life[2:]) {
			t.Errorf("since a minute ago: %v", got)
		}
		if got := find(control.EventQuery{Sandbox: string(db.ID), Until: time.Now().Add(-time.Minute)}); !slices.Equal(got, life[:2]) {
			t.Errorf("until a minute ago: %v", got)
		}
		_, err := w.svc.FindEvents(t.Context(), alice, control.EventQuery{Types: []string{"sandbox"}, Limit: 1})
		wantCode(t, err, core.CodeInvalid)
		// A wait is not ended by what isn't asked for, and goes on behind it.
		begun := time.Now()
		time.AfterFunc(time.Second, func() { w.create(core.SandboxSpec{Name: "other"}) })
		page, err := w.svc.FindEvents(t.Context(), alice, control.EventQuery{Sandbox: string(db.ID), After: 1 << 20, Limit: 1, Wait: time.Minute})
		if err != nil || len(page.Events) != 0 || time.Since(begun) < time.Minute {
			t.Errorf("after %s: %+v, %v", time.Since(begun), page, err)
		}
	})
}
