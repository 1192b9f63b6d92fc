package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	alice core.TenantID = "alice"
	bob   core.TenantID = "bob"
)

// epoch is when the suite's records were made, with nanoseconds that must not be lost.
func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC) }

func newSandbox(tenant core.TenantID) core.Sandbox {
	return core.Sandbox{
		ID: core.SandboxID(core.NewID()), Tenant: tenant, State: core.StateRunning,
		Template: "t", TemplateName: "minimal", CreatedAt: epoch(),
	}
}

func newExec(sandbox core.SandboxID) core.Exec {
	return core.Exec{ID: core.ExecID(core.NewID()), Sandbox: sandbox, StartedAt: epoch(), PID: 7}
}

// update runs fn and fails the test on an error.
func (s *suite) update(fn func(store.Tx) error) {
	s.Helper()
	if err := s.Update(s.Context(), fn); err != nil {
		s.Fatalf("update: %v", err)
	}
}

func (s *suite) view(fn func(store.Reader) error) {
	s.Helper()
	if err := s.View(s.Context(), fn); err != nil {
		s.Fatalf("view: %v", err)
	}
}

func (s *suite) put(list ...core.Sandbox) {
	s.Helper()
	s.update(func(tx store.Tx) error {
		for _, b := range list {
			if err := tx.PutSandbox(b); err != nil {
				return err
			}
		}
		return nil
	})
}

// try runs one write by itself and returns its error.
func (s *suite) try(fn func(store.Tx) error) error { return s.Update(s.Context(), fn) }

// sandbox looks one up as a caller does.
func (s *suite) sandbox(tenant core.TenantID, ref string) (b core.Sandbox, err error) {
	err = s.View(s.Context(), func(r store.Reader) (err error) {
		b, err = r.Sandbox(tenant, ref)
		return err
	})
	return b, err
}

func (s *suite) list(tenant core.TenantID, f store.SandboxFilter, p store.Page) (list []core.Sandbox, next string, err error) {
	err = s.View(s.Context(), func(r store.Reader) (err error) {
		list, next, err = r.ListSandboxes(tenant, f, p)
		return err
	})
	return list, next, err
}

// wantCode fails the test unless err is a core.Error with the code and a public message.
func wantCode(t *testing.T, err error, code core.Code) {
	t.Helper()
	if got := core.CodeOf(err); got != code {
		t.Fatalf("error %v: code %q, want %q", err, got, code)
	}
}

// wantField fails the test unless err is invalid and blames the field.
func wantField(t *testing.T, err error, field string) {
	t.Helper()
	wantCode(t, err, core.CodeInvalid)
	if e := asError(err); e == nil || e.Field != field {
		t.Fatalf("error %v blames %+v, want field %q", err, e, field)
	}
}

// wantSame fails the test unless two records are equal. A nil and an empty map are the same to the contract.
func wantSame(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("differs (-want +got):\n%s", d)
	}
}

func ids(list []core.Sandbox) []core.SandboxID {
	out := make([]core.SandboxID, len(list))
	for i, b := range list {
		out[i] = b.ID
	}
	return out
}

func numbered(prefix string, i int) string { return fmt.Sprintf("%s-%d", prefix, i) }
