package control_test

import (
	"context"
	"crypto/subtle"
	"reflect"
	"regexp"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// shows is a caller who shows a token.
func shows(token string) func(string) bool {
	return func(want string) bool { return subtle.ConstantTimeCompare([]byte(token), []byte(want)) == 1 }
}

// open opens a sandbox with its access token.
func (w *world) open(sb core.Sandbox) control.Principal {
	w.t.Helper()
	p, got, err := w.svc.OpenSandbox(w.t.Context(), sb.ID, shows(w.svc.AccessToken(sb)))
	if err != nil {
		w.t.Fatal(err)
	}
	if got.ID != sb.ID || p.Sandbox != sb.ID || p.Tenant != sb.Tenant || p.Admin {
		w.t.Fatalf("opened %v as %+v", got.ID, p)
	}
	return p
}

func TestAccessToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	a, b := w.create(core.SandboxSpec{}), w.create(core.SandboxSpec{})
	token := w.svc.AccessToken(a)
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(token) {
		t.Fatalf("the token is %q", token)
	}
	if token == w.svc.AccessToken(b) {
		t.Fatal("two sandboxes have the same token")
	}
	_, _, err := w.svc.OpenSandbox(t.Context(), b.ID, shows(token))
	wantCode(t, err, core.CodeUnauthenticated)
	_, _, err = w.svc.OpenSandbox(t.Context(), a.ID, shows(""))
	wantCode(t, err, core.CodeUnauthenticated)
	_, _, err = w.svc.OpenSandbox(t.Context(), core.SandboxID(core.NewID()), func(string) bool { return true })
	wantCode(t, err, core.CodeNotFound)
	w.open(a)

	// It lives through a restart of the server, and belongs to the installation.
	if err := w.svc.Close(); err != nil {
		t.Fatal(err)
	}
	w.start()
	if again := w.svc.AccessToken(a); again != token {
		t.Fatal("the token is another one after a restart")
	}
	if other := newWorld(t).start().svc.AccessToken(a); other == token {
		t.Fatal("two installations make the same token")
	}

	if err := w.svc.DeleteSandbox(t.Context(), alice, string(a.ID)); err != nil {
		t.Fatal(err)
	}
	_, _, err = w.svc.OpenSandbox(t.Context(), a.ID, shows(token))
	wantCode(t, err, core.CodeNotFound)
}

func TestDamagedAccessKeyIsNotReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.store.Update(t.Context(), func(tx store.Tx) error { return tx.PutSetting("access_token_key", "00ff") })
	if err != nil {
		t.Fatal(err)
	}
	svc := control.New(control.Config{Store: w.store, Node: w.node, Clock: w.clock})
	wantCode(t, svc.Start(t.Context()), core.CodeDataLoss)
}

func TestAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	if !w.svc.Alive(t.Context(), sb.ID) {
		t.Fatal("a running sandbox is not alive")
	}
	if w.svc.Alive(t.Context(), core.SandboxID(core.NewID())) {
		t.Fatal("an id that nobody has is alive")
	}
	w.node.crash(sb.ID)
	eventually(t, "it is dead", func() bool { return !w.svc.Alive(t.Context(), sb.ID) })
	sb = w.create(core.SandboxSpec{})
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	if w.svc.Alive(t.Context(), sb.ID) {
		t.Fatal("a deleted sandbox is alive")
	}
}

// TestTokenOpensTheInside shows that what TestTokenOpensNothingElse finds refused is not refused to everybody.
func TestTokenOpensTheInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Name: "mine"})
	p := w.open(sb)
	for _, ref := range []string{string(sb.ID), "mine"} {
		if got, err := w.svc.GetSandbox(t.Context(), p, ref); err != nil || got.ID != sb.ID {
			t.Fatalf("get gave %v, %v", got.ID, err)
		}
		if _, err := w.svc.Files(t.Context(), p, ref); err != nil {
			t.Fatal(err)
		}
		if _, err := w.svc.Metrics(t.Context(), p, ref); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.svc.Exec(t.Context(), p, ref, core.ExecSpec{Shell: "true", Detach: true}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.svc.Events(t.Context(), p, ref, 0, 10, 0); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the execs' events name the token", func() bool {
		list, _, err := w.svc.Events(t.Context(), p, "mine", 0, 100, 0)
		n := 0
		for _, e := range list {
			if e.Type == core.EventExecStarted && e.Actor == (core.Actor{Kind: "token", ID: string(sb.ID)}) {
				n++
			}
		}
		return err == nil && n == 2
	})
	// What becomes of the sandbox is for keys.
	_, err := w.svc.UpdateSandbox(t.Context(), p, "mine", control.SandboxPatch{})
	wantCode(t, err, core.CodeDenied)
	wantCode(t, w.svc.DeleteSandbox(t.Context(), p, "mine"), core.CodeDenied)
}

// TestTokenOpensNothingElse calls every use case that takes a principal, those that will be written too, with the token of one
// sandbox and the id of another of the same tenant: it must be denied, or answered as an id that does not exist is.
func TestTokenOpensNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	mine, other := w.create(core.SandboxSpec{}), w.create(core.SandboxSpec{})
	e, _, err := w.svc.Exec(t.Context(), alice, string(other.ID), core.ExecSpec{Shell: "sleep", Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	p := w.open(mine)
	admin := alice
	admin.Admin, admin.Scopes = true, core.AllScopes()
	walked := 0
	svc := reflect.ValueOf(w.svc)
	for i := range svc.NumMethod() {
		name, method := svc.Type().Method(i).Name, svc.Method(i)
		if !takesPrincipal(method.Type()) {
			continue
		}
		walked++
		t.Run(name, func(t *testing.T) {
			theirs, nobodys := callWith(t, method, p, string(other.ID), e.ID), callWith(t, method, p, core.NewID(), e.ID)
			if theirs == nil || nobodys == nil {
				t.Fatalf("it is open to a token of another sandbox: %v, %v", theirs, nobodys)
			}
			if code := core.CodeOf(theirs); code != core.CodeDenied && code != core.CodeNotFound {
				t.Fatalf("another sandbox gave %v", theirs)
			}
			if theirs.Error() != nobodys.Error() {
				t.Fatalf("another sandbox is told from one that does not exist: %v, %v", theirs, nobodys)
			}
			if core.IsCode(callWith(t, method, admin, string(mine.ID), e.ID), core.CodeDenied) {
				t.Fatal("it is denied to a key as well: the test shows nothing")
			}
		})
	}
	if walked < 18 {
		t.Fatalf("only %d use cases were found", walked)
	}
	if got, err := w.svc.GetSandbox(t.Context(), alice, string(other.ID)); err != nil || got.State != core.StateRunning {
		t.Fatalf("the other sandbox is %v, %v", got.State, err)
	}
}

func takesPrincipal(f reflect.Type) bool {
	return f.NumIn() > 1 && f.In(1) == reflect.TypeFor[control.Principal]()
}

// callWith calls a use case with arguments that are good, so that it goes as far as to look for the sandbox.
func callWith(t *testing.T, method reflect.Value, p control.Principal, ref string, exec core.ExecID) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	good := map[reflect.Type]any{
		reflect.TypeFor[context.Context]():      ctx,
		reflect.TypeFor[control.Principal]():    p,
		reflect.TypeFor[string]():               ref,
		reflect.TypeFor[core.ExecID]():          exec,
		reflect.TypeFor[core.OperationID]():     core.OperationID(ref),
		reflect.TypeFor[core.ExecSpec]():        core.ExecSpec{Shell: "true", Detach: true},
		reflect.TypeFor[store.Page]():           store.Page{Limit: 10},
		reflect.TypeFor[control.ExecSelector](): control.ExecSelector{PID: 7},
		reflect.TypeFor[int]():                  10,
		reflect.TypeFor[uint16]():               uint16(10),
	}
	var in []reflect.Value
	for i := range method.Type().NumIn() {
		want := method.Type().In(i)
		if v, ok := good[want]; ok && (want.Kind() != reflect.String || i != 4) { // the fourth is a signal's name
			in = append(in, reflect.ValueOf(v))
		} else {
			in = append(in, reflect.Zero(want))
		}
	}
	out := method.Call(in)
	err, _ := out[len(out)-1].Interface().(error)
	return err
}
