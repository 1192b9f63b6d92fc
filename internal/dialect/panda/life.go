package panda

import (
	"errors"
	"net/http"

	"shoal/internal/core"
)

// setLife says when a sandbox ends that is created.
func (a *adapter) setLife(_ *core.SandboxSpec, body createBody) error {
	if body.TTLSeconds != nil {
		return &core.Error{Code: core.CodeUnsupported, Field: "ttl_seconds", Message: "ttl_seconds: idle sandboxes are not ended yet: leave it out"}
	}
	return nil
}

func (a *adapter) getLifecycle(http.ResponseWriter, *request) error {
	return core.Errorf(core.CodeUnsupported, "lifecycles are not in this server yet")
}

func (a *adapter) setLifecycle(http.ResponseWriter, *request) error {
	return core.Errorf(core.CodeUnsupported, "lifecycles are not in this server yet")
}

// renamed puts the vendor's name of a field into an error of control's.
func renamed(err error) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok {
		return err
	}
	vendors := map[string]string{"labels": "metadata", "shell": "cmd", "idle_seconds": "ttl_seconds"}
	name, ok := vendors[e.Field]
	if !ok {
		return err
	}
	out := *e
	out.Field = name
	return &out
}
