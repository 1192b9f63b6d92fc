package fault_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"shoal/internal/failpoint"
	"shoal/internal/store"
	"shoal/internal/store/sqlite"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// testTenant breaks the delete of a tenant that has a sandbox: whatever becomes of the server, the tenant is gone, its key opens nothing, and
// nothing of it is left in the end.
func testTenant(t *testing.T, e env, point, action string) {
	e.purged(t)
	e.arm(point, action)
	if _, err := e.Client.Tenants().Create(ctx(t), shoal.CreateTenantRequest{Name: "victim"}); err != nil {
		t.Fatal(err)
	}
	as := &shoal.Client{BaseURL: e.URL, APIKey: e.Key, Tenant: "victim"}
	key, err := as.Keys().Create(ctx(t), shoal.CreateKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := as.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "theirs"}); err != nil {
		t.Fatal(err)
	}
	deleted := e.Client.Tenants().Delete(ctx(t), "victim", true)
	if deleted != nil && action == "error" && point != failpoint.ControlTenantDeleted {
		t.Errorf("delete: %v", deleted)
	}
	e.settle(action)
	if _, err := e.Client.Tenants().Get(ctx(t), "victim"); shoal.ErrorCode(err) != shoal.CodeNotFound {
		t.Errorf("the tenant: %v", err)
	}
	theirs := &shoal.Client{BaseURL: e.URL, APIKey: key.Secret, MaxRetries: -1}
	if _, err := theirs.Sandboxes().Get(ctx(t), "theirs"); shoal.ErrorCode(err) != shoal.CodeUnauthenticated {
		t.Errorf("its key: %v", err)
	}
	e.empty(t)
	// The name is free, and the new tenant has nothing of the old one.
	harness.Eventually(t, 10*time.Second, "another may have the name", func() error {
		again, err := e.Client.Tenants().Create(ctx(t), shoal.CreateTenantRequest{Name: "victim"})
		if err != nil {
			return err
		}
		if again.Use != (shoal.Tenant{}).Use {
			return fmt.Errorf("it has %+v", again.Use)
		}
		events, err := (&shoal.Client{BaseURL: e.URL, APIKey: e.Key, Tenant: "victim"}).Events().List(ctx(t), shoal.EventsOptions{})
		return errors.Join(err, e.Client.Tenants().Delete(ctx(t), again.ID, false), func() error {
			if len(events.Events) > 0 {
				return errors.New("it has events")
			}
			return nil
		}())
	})
}

// purged waits until nothing is left of tenants that were deleted: a server that goes on with that at its start meets its failpoint then.
func (e env) purged(t *testing.T) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "deleted tenants are purged", func() error {
		e.Stop()
		defer e.Restart(harness.Options{})
		db, err := sqlite.Open(ctx(t), sqlite.Config{Path: filepath.Join(e.Dir, "shoal.db"), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		return errors.Join(db.View(ctx(t), func(r store.Reader) error {
			list, err := r.TenantsToPurge()
			if len(list) > 0 {
				err = fmt.Errorf("%d are not", len(list))
			}
			return err
		}), db.Close())
	})
}
