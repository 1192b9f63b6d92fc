package control_test

import (
	"reflect"
	"strings"
	"testing"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// TestEveryUseCaseTakesAScope calls every use case without scopes, and with all of them: each must be denied the first time, by the
// name of a scope, unless the table says that any key may, and no use case may be missing in the table.
func TestEveryUseCaseTakesAScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	none, all := alice, alice
	none.Scopes, all.Scopes = 0, core.AllScopes()
	table := control.ScopeNeeded()
	svc := reflect.ValueOf(w.svc)
	for i := range svc.NumMethod() {
		name, method := svc.Type().Method(i).Name, svc.Method(i)
		if !takesPrincipal(method.Type()) {
			continue
		}
		need, ok := table[name]
		if !ok {
			t.Errorf("%s is not in the table of scopes", name)
			continue
		}
		delete(table, name)
		const lacks = "the key lacks the scope "
		err := callWith(t, method, none, string(sb.ID), "e1")
		said := err != nil && core.IsCode(err, core.CodeDenied) && strings.Contains(err.Error(), lacks+string(need)+",")
		if said == (need == "") {
			t.Errorf("%s without a scope: %v", name, err)
		}
		one := alice
		one.Scopes = core.ScopesOf(need)
		for _, p := range []control.Principal{one, all} {
			if err := callWith(t, method, p, string(sb.ID), "e1"); err != nil && strings.Contains(err.Error(), lacks) {
				t.Errorf("%s with the scope %q: %v", name, need, err)
			}
		}
	}
	for name := range table {
		t.Errorf("%s has a scope and is no use case", name)
	}
}

// keyOf makes a key and returns who holds it.
func (w *world) keyOf(maker control.Principal, spec core.KeySpec) (core.Key, control.Principal) {
	w.t.Helper()
	key, secret, err := w.svc.NewKey(w.t.Context(), maker, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := w.svc.Authenticate(w.t.Context(), secret.Reveal())
	if err != nil {
		w.t.Fatal(err)
	}
	return key, p
}

// TestLabeledKey: a key for some sandboxes makes, sees and changes those, and others are as if they weren't there.
func TestLabeledKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	admin, _ := adminOf(w)
	_, whole := w.keyOf(admin, core.KeySpec{})
	_, some := w.keyOf(admin, core.KeySpec{Labels: map[string]string{"team": "a"}})
	theirs, err := w.svc.CreateSandbox(t.Context(), whole, core.SandboxSpec{Name: "theirs", Labels: map[string]string{"team": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := w.svc.CreateSandbox(t.Context(), some, core.SandboxSpec{Labels: map[string]string{"x": "y"}})
	if err != nil || mine.Labels["team"] != "a" || mine.Labels["x"] != "y" {
		t.Fatalf("made %v, %v", mine.Labels, err)
	}
	_, err = w.svc.CreateSandbox(t.Context(), some, core.SandboxSpec{Labels: map[string]string{"team": "b"}})
	wantCode(t, err, core.CodeInvalid)
	for _, ref := range []string{string(theirs.ID), "theirs", core.NewID()} {
		if _, err := w.svc.GetSandbox(t.Context(), some, ref); err == nil || err.Error() != "not_found: no such sandbox" {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for labels, want := range map[string]int{"": 1, "team=a": 1, "team=b": 0, "x=y": 1, "x=z": 0} {
		var f store.SandboxFilter
		if k, v, ok := strings.Cut(labels, "="); ok {
			f.Labels = map[string]string{k: v}
		}
		list, _, err := w.svc.ListSandboxes(t.Context(), some, f, store.Page{Limit: 10})
		if err != nil || len(list) != want {
			t.Errorf("with the filter %q: %d, %v", labels, len(list), err)
		}
	}
	changed, err := w.svc.UpdateSandbox(t.Context(), some, string(mine.ID), control.SandboxPatch{Labels: &map[string]string{"z": "1"}})
	if err != nil || changed.Labels["team"] != "a" || changed.Labels["z"] != "1" || len(changed.Labels) != 2 {
		t.Errorf("changed to %v, %v", changed.Labels, err)
	}
	_, err = w.svc.UpdateSandbox(t.Context(), some, string(mine.ID), control.SandboxPatch{Labels: &map[string]string{"team": "b"}})
	wantCode(t, err, core.CodeInvalid)
	_, _, err = w.svc.Events(t.Context(), some, "", 0, 10, 0)
	wantCode(t, err, core.CodeDenied)
	if _, _, err = w.svc.Events(t.Context(), some, string(mine.ID), 0, 10, 0); err != nil {
		t.Error(err)
	}
}
