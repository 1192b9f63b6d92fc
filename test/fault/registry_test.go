package fault_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"shoal/internal/failpoint"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// TestReferenceFaults breaks the import of an image from a registry, after one of its layers is sent: killed, it is gone on with if its login is
// kept, and else fails; either way nothing of the first attempt is left, and the next import succeeds.
func TestReferenceFaults(t *testing.T) {
	r := harness.StartRegistry(t, true)
	opts := harness.Options{NoTemplates: true, Env: r.Environment()}
	ref := r.Push(t, "team/app:1", 4<<20, 4<<20)
	login := shoal.PutRegistryRequest{Username: harness.RegistryUser, Password: harness.RegistryPassword}
	e := env{harness.Start(t, opts)}
	for _, kept := range []bool{true, false} {
		for _, action := range []string{"kill", "error"} {
			t.Run(fmt.Sprintf("%s, kept login %t", action, kept), func(t *testing.T) {
				req := shoal.CreateTemplateRequest{Name: "victim", FromImage: ref}
				if kept {
					if _, err := e.Client.Registries().Put(ctx(t), r.Host, login); err != nil {
						t.Fatal(err)
					}
				} else {
					req.Username, req.Password = login.Username, login.Password
				}
				e.Stop()
				armed := opts
				armed.Failpoints = failpoint.ImageLayerSent + "=" + action
				e.Restart(armed)
				op, err := e.Client.Templates().Create(ctx(t), req)
				if err == nil && action == "error" {
					op, err = e.Client.Operations().Wait(ctx(t), op.ID)
				}
				if action == "kill" {
					e.WaitExit()
				} else if e.Stop(); err != nil || op.State != shoal.OperationFailed {
					t.Fatalf("%+v, %v", op, err)
				}
				e.Restart(opts)
				op = e.onlyOperation(t)
				e.asItEnded(t, op, action == "kill" && kept)
				if !kept && op.State != shoal.OperationFailed {
					t.Errorf("its login is kept nowhere: %+v", op)
				}
				e.onlyTrees(t)
				if op, err = e.Client.Templates().Create(ctx(t), req); err == nil {
					op, err = e.Client.Operations().Wait(ctx(t), op.ID)
				}
				if err != nil || op.State != shoal.OperationSucceeded {
					t.Errorf("a second import: %+v, %v", op, err)
				}
				e.cleared(t)
				if kept {
					if err := e.Client.Registries().Delete(ctx(t), r.Host); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// onlyTrees wants no tree but those of templates that are ready.
func (e env) onlyTrees(t *testing.T) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "only templates have trees", func() error {
		known := map[string]bool{}
		for tmpl, err := range e.Client.Templates().List(ctx(t)) {
			if err != nil {
				return err
			}
			known[tmpl.ID] = tmpl.State == shoal.TemplateReady
		}
		trees, err := filepath.Glob(filepath.Join(e.Dir, "pool/mnt/template/*/*"))
		for _, tree := range trees {
			if !known[filepath.Base(tree)] {
				err = fmt.Errorf("there is a tree %s", tree)
			}
		}
		return err
	})
}
