package httpapi_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	shoal "shoal/sdk/go"
)

func TestClientTemplates(t *testing.T) {
	c, _ := newClient(t, nil)
	ctx := t.Context()
	for name, o := range map[string]shoal.TemplatesOptions{"own": {Own: true}, "name": {Name: "app"}} {
		n := 0
		for tpl, err := range c.Templates().Find(ctx, o) {
			if n++; err != nil || tpl.Name != "app" {
				t.Errorf("%s: %+v, %v", name, tpl, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d", name, n)
		}
	}
	for _, ref := range []string{"app", "app@3", "app:stable", "sha256:" + strings.Repeat("0a", 32)} {
		if tpl, err := c.Templates().Get(ctx, ref); err != nil || tpl.Version != 3 {
			t.Errorf("%s: %+v, %v", ref, tpl, err)
		}
	}
	if tpl, err := c.Templates().Tag(ctx, "app@3", "1.0"); err != nil || len(tpl.Tags) != 2 {
		t.Errorf("%+v, %v", tpl, err)
	}
	if err := errors.Join(c.Templates().Untag(ctx, "app", "stable"), c.Templates().Delete(ctx, "app@3")); err != nil {
		t.Error(err)
	}
	wantCode(t, c.Templates().Delete(ctx, "base"), shoal.CodeDenied)
	up, err := c.Templates().Upload(ctx, strings.NewReader("archive"))
	if err != nil || up.SizeBytes != 7 {
		t.Fatalf("%+v, %v", up, err)
	}
	wantCode(t, c.Templates().DeleteUpload(ctx, "u000000000000000000009"), shoal.CodeNotFound)
	if err := c.Templates().DeleteUpload(ctx, up.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.Templates().Upload(ctx, iotest.ErrReader(errors.New("the file is gone"))); err == nil {
		t.Error("an upload whose file can't be read succeeded")
	}
	op, err := c.Templates().Create(ctx, shoal.CreateTemplateRequest{Name: "x", FromUpload: up.ID})
	if err != nil || op.State != shoal.OperationRunning {
		t.Fatalf("%+v, %v", op, err)
	}
}

func TestClientOperations(t *testing.T) {
	c, _ := newClient(t, nil)
	ctx := t.Context()
	const running, failed, unknown = "o000000000000000000001", "o000000000000000000002", "o000000000000000000003"
	n := 0
	for op, err := range c.Operations().List(ctx, shoal.OperationsOptions{States: []shoal.OperationState{shoal.OperationFailed}}) {
		if n++; err != nil || op.ID != failed {
			t.Errorf("%+v, %v", op, err)
		}
	}
	if n != 1 {
		t.Errorf("%d have failed", n)
	}
	var steps []int
	var last shoal.Operation
	for op, err := range c.Operations().Follow(ctx, running) {
		if err != nil {
			t.Fatal(err)
		}
		last = op
		steps = append(steps, *op.Percent)
	}
	if len(steps) != 4 || steps[3] != 100 || shoal.OperationFailure(last) != nil {
		t.Errorf("followed: %v, %+v", steps, last)
	}
	op, err := c.Operations().Wait(ctx, failed)
	if err != nil {
		t.Fatal(err)
	}
	if e := wantCode(t, shoal.OperationFailure(op), shoal.CodeInvalid); e.Message != "the image is broken" {
		t.Errorf("%+v", e)
	}
	if op, err = c.Operations().Get(ctx, unknown); err != nil || op.Percent != nil {
		t.Errorf("%+v, %v", op, err)
	}
	wantCode(t, shoal.OperationFailure(op), shoal.CodeConflict)
	if err := c.Operations().Cancel(ctx, unknown); err != nil {
		t.Fatal(err)
	}
	op, err = c.Operations().Wait(ctx, unknown)
	if err != nil || op.State != shoal.OperationCanceled {
		t.Errorf("%+v, %v", op, err)
	}
	_, err = c.Operations().Wait(ctx, "o000000000000000000009")
	wantCode(t, err, shoal.CodeNotFound)
}
