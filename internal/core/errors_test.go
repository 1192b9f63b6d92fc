package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestCodeOf(t *testing.T) {
	cause := errors.New("disk on fire")
	for name, tc := range map[string]struct {
		err  error
		want Code
	}{
		"nil":                 {nil, ""},
		"foreign":             {cause, CodeInternal},
		"ours":                {Errorf(CodeConflict, "x"), CodeConflict},
		"ours wrapped":        {fmt.Errorf("attach network: %w", Invalid("f", "x")), CodeInvalid},
		"ours joined":         {errors.Join(cause, Errorf(CodeQuota, "x")), CodeQuota},
		"ours around ours":    {Wrap(CodeUnavailable, Errorf(CodeTimeout, "inner"), "outer"), CodeUnavailable},
		"ours around foreign": {Wrap(CodeDataLoss, cause, "x"), CodeDataLoss},
	} {
		if got := CodeOf(tc.err); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
		if IsCode(tc.err, tc.want) != (tc.err != nil) || IsCode(tc.err, "another") {
			t.Errorf("%s: IsCode is wrong", name)
		}
	}
	if IsCode(nil, "") {
		t.Error("nil has a code")
	}
}

// TestCauseStaysInside holds that the cause is told to the operator and to errors.Is, and is no part of the public message.
func TestCauseStaysInside(t *testing.T) {
	cause := errors.New("password of root@10.0.0.1")
	err := Wrap(CodeInternal, cause, "the sandbox %s could not be started", "web")
	if err.Message != "the sandbox web could not be started" || strings.Contains(err.Message, "root") {
		t.Errorf("public message %q", err.Message)
	}
	if want := "internal: the sandbox web could not be started: password of root@10.0.0.1"; err.Error() != want {
		t.Errorf("for the operator: %q, want %q", err.Error(), want)
	}
	if !errors.Is(fmt.Errorf("create: %w", err), cause) {
		t.Error("the cause is lost")
	}
	if got := Invalid("ttl", "at most %d", 5); got.Error() != "invalid: at most 5" || got.Field != "ttl" || got.Unwrap() != nil {
		t.Errorf("got %+v", got)
	}
}
