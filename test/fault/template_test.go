package fault_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/failpoint"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// testTemplate breaks the making of a template, of an uploaded image or of a sandbox's files, or its delete. Afterwards the operation has
// ended one way or the other, the template is there exactly if it succeeded, and nothing else is left. An upload's import is gone on with.
func testTemplate(t *testing.T, e env, point, action string) {
	e.arm(point, action)
	req := shoal.CreateTemplateRequest{Name: "victim"}
	capture := strings.Contains(point, ".capture.")
	if capture {
		sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "source"})
		if err != nil {
			t.Fatal(err)
		}
		req.FromSandbox = sb.ID
	} else {
		up, err := e.Client.Templates().Upload(ctx(t), bytes.NewReader(harness.TinyImage(t)))
		if err != nil {
			t.Fatal(err)
		}
		req.FromUpload = up.ID
	}
	op, err := e.Client.Templates().Create(ctx(t), req)
	if err != nil && action == "error" {
		t.Fatal(err)
	}
	onDelete := point == failpoint.ControlTemplateDeleted || point == failpoint.ControlTemplateTreeGone
	if onDelete {
		if op, err = e.Client.Operations().Wait(ctx(t), op.ID); err == nil {
			err = shoal.OperationFailure(op)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Client.Templates().Delete(ctx(t), "victim"); err != nil && action == "error" && point != failpoint.ControlTemplateDeleted {
			t.Errorf("delete: %v", err)
		}
	} else if action == "error" {
		if _, err := e.Client.Operations().Wait(ctx(t), op.ID); err != nil {
			t.Fatal(err)
		}
	}
	e.settle(action)
	if op = e.onlyOperation(t); onDelete {
		if _, err := e.Client.Templates().Get(ctx(t), "victim"); shoal.ErrorCode(err) != shoal.CodeNotFound {
			t.Errorf("the deleted template: %v", err)
		}
	} else {
		e.asItEnded(t, op, action == "kill" && !capture)
	}
	e.cleared(t)
}

// onlyOperation waits for the newest operation to have ended.
func (e env) onlyOperation(t *testing.T) shoal.Operation {
	t.Helper()
	for op, err := range e.Client.Operations().List(ctx(t), shoal.OperationsOptions{}) {
		if err == nil {
			op, err = e.Client.Operations().Wait(ctx(t), op.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		return op
	}
	t.Fatal("no operation is known")
	return shoal.Operation{}
}

// asItEnded wants a template exactly if its operation succeeded, which it must have if again says that it could be done again.
func (e env) asItEnded(t *testing.T, op shoal.Operation, again bool) {
	t.Helper()
	if again && op.State != shoal.OperationSucceeded {
		t.Errorf("the import was not gone on with: %+v", op)
	}
	tmpl, err := e.Client.Templates().Get(ctx(t), op.Target["template"])
	if op.State != shoal.OperationSucceeded {
		if shoal.ErrorCode(err) != shoal.CodeNotFound {
			t.Errorf("a template that came to nothing is there: %+v, %v", tmpl, err)
		}
		return
	}
	if err != nil || tmpl.State != shoal.TemplateReady {
		t.Fatalf("a template that was made: %+v, %v", tmpl, err)
	}
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Template: tmpl.ID})
	if err != nil {
		t.Fatal(err)
	}
	if len(tmpl.Entrypoint) > 0 {
		if r := e.Run(t, sb.ID, shoal.ExecRequest{Entrypoint: true}); *r.Stdout != "hello from nothing\n" {
			t.Errorf("a sandbox of it: %s", harness.Describe(r))
		}
	} else {
		e.answers(t, sb)
	}
}

// cleared deletes what a test has made, and wants nothing to be left of it: no tree but those of the server's own templates, no upload.
func (e env) cleared(t *testing.T) {
	t.Helper()
	for _, sb := range e.Sandboxes(t) {
		if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
			t.Error(err)
		}
	}
	if err := e.Client.Templates().Delete(ctx(t), "victim"); err != nil && shoal.ErrorCode(err) != shoal.CodeNotFound {
		t.Error(err)
	}
	e.empty(t)
	harness.Eventually(t, 30*time.Second, "no template is left", func() error {
		known := map[string]bool{}
		for tmpl, err := range e.Client.Templates().List(ctx(t)) {
			if err != nil {
				return err
			}
			if tmpl.Owner != "system" {
				return fmt.Errorf("%s@%d is listed", tmpl.Name, tmpl.Version)
			}
			known[tmpl.ID] = true
		}
		trees, err := filepath.Glob(filepath.Join(e.Dir, "pool/mnt/template/*/*"))
		for _, tree := range trees {
			if !known[filepath.Base(tree)] {
				err = errors.Join(err, fmt.Errorf("there is a tree %s", tree))
			}
		}
		uploads, uerr := filepath.Glob(filepath.Join(e.Dir, "uploads/*/*"))
		if len(uploads) > 0 {
			uerr = errors.Join(uerr, fmt.Errorf("uploads: %v", uploads))
		}
		return errors.Join(err, uerr)
	})
}
