package panda

import (
	"errors"
	"net/http"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
)

// The vendor's ttl is an idle rule: it counts from the last call on the sandbox, and what comes of it depends. A sandbox that isn't
// persistent is deleted. One that is would be put to sleep, which we can't do, so a ttl for it is refused.

// maxSeconds bounds a ttl that is looked at, far above what control takes.
const maxSeconds = 1 << 31

// idleAfter reads a ttl. Zero is none.
func idleAfter(seconds float64) (time.Duration, error) {
	if seconds < 0 || seconds > maxSeconds {
		return 0, core.Invalid("ttl_seconds", "ttl_seconds is the number of seconds without a call after which the sandbox is deleted")
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// noSleep refuses a ttl for a persistent sandbox.
func noSleep() error {
	return &core.Error{
		Code: core.CodeUnsupported, Field: "ttl_seconds",
		Message: "ttl_seconds: a persistent sandbox can't be hibernated by this server yet: leave ttl_seconds out, and it runs until it is deleted",
	}
}

// setLife says when a sandbox ends that is created.
func (a *adapter) setLife(p control.Principal, spec *core.SandboxSpec, body createBody) (err error) {
	if body.TTLSeconds != nil {
		if spec.Idle, err = idleAfter(*body.TTLSeconds); err != nil {
			return err
		}
	}
	switch {
	case spec.Persistent && spec.Idle > 0:
		return noSleep()
	case !spec.Persistent && spec.Idle == 0:
		spec.Idle = a.cfg.Control.Limits(p).DefaultTTL
	}
	return nil
}

// lifecycle is the vendor's form of when a sandbox ends.
type lifecycle struct {
	// TTLSeconds is for how long it may be idle; zero if for ever.
	TTLSeconds float64 `json:"ttl_seconds"`
	Persistent bool    `json:"persistent"`
	// IdleSeconds is for how long it has been idle; zero if nobody counts.
	IdleSeconds float64 `json:"idle_seconds"`
	// ExpiresAt is when it is deleted whether it is used or not, as only the native API can say; it is ours.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func encodeLifecycle(sb core.Sandbox, now time.Time) lifecycle {
	out := lifecycle{TTLSeconds: sb.Idle.Seconds(), Persistent: sb.Persistent, ExpiresAt: sb.ExpiresAt}
	if sb.Idle > 0 && now.After(sb.ActiveAt) {
		out.IdleSeconds = now.Sub(sb.ActiveAt).Truncate(time.Second).Seconds()
	}
	return out
}

// look finds a sandbox as it is before this call, which then counts as use of it.
func (a *adapter) look(r *request) (core.Sandbox, error) {
	sb, err := a.cfg.Control.GetSandbox(r.Context(), r.Principal, r.sandbox())
	if err != nil {
		return sb, err
	}
	return sb, a.cfg.Control.Touch(r.Context(), r.Principal, string(sb.ID))
}

func (a *adapter) getLifecycle(w http.ResponseWriter, r *request) error {
	sb, err := a.look(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeLifecycle(sb, time.Now()))
}

// lifecycleBody is what a change of the lifecycle may say.
type lifecycleBody struct {
	TTLSeconds *float64 `json:"ttl_seconds"`
	Persistent *bool    `json:"persistent"`
}

func (a *adapter) setLifecycle(w http.ResponseWriter, r *request) error {
	var body lifecycleBody
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	sb, err := a.look(r)
	if err != nil {
		return err
	}
	patch, err := a.lifePatch(r.Principal, sb, body)
	if err != nil {
		return err
	}
	if sb, err = a.cfg.Control.UpdateSandbox(r.Context(), r.Principal, string(sb.ID), patch); err != nil {
		return renamed(err)
	}
	return writeJSON(w, http.StatusOK, encodeLifecycle(sb, time.Now()))
}

// lifePatch says what a change of the lifecycle means for a sandbox.
func (a *adapter) lifePatch(p control.Principal, sb core.Sandbox, body lifecycleBody) (patch control.SandboxPatch, err error) {
	var idle time.Duration
	if body.TTLSeconds != nil {
		if idle, err = idleAfter(*body.TTLSeconds); err != nil {
			return patch, err
		}
	}
	persistent := sb.Persistent
	if body.Persistent != nil {
		persistent, patch.Persistent = *body.Persistent, body.Persistent
	}
	never := time.Duration(0)
	switch {
	case persistent && idle > 0:
		return patch, noSleep()
	case persistent && body.Persistent != nil:
		patch.Idle, patch.TTL = &never, &never
	case persistent:
	case idle > 0:
		patch.Idle, patch.OnIdle = &idle, core.ActionDelete
	case body.TTLSeconds != nil:
		return patch, core.Invalid("ttl_seconds", "ttl_seconds is above 0 for a sandbox that is not persistent: make it persistent to keep it")
	case sb.Persistent:
		idle = a.cfg.Control.Limits(p).DefaultTTL
		patch.Idle, patch.OnIdle = &idle, core.ActionDelete
	}
	return patch, nil
}

// renamed puts the vendor's name of a field into an error of control's, and says where a template's name may come from.
func renamed(err error) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok {
		return err
	}
	if e.Code == core.CodeNotFound && e.Field == "template" {
		out := *e
		out.Message += ": GET /v1/templates (templates.list) shows what there is, and the server's setting panda.templates gives it further names"
		return &out
	}
	vendors := map[string]string{"labels": "metadata", "shell": "cmd", "idle_seconds": "ttl_seconds", "on_idle": "ttl_seconds"}
	name, ok := vendors[e.Field]
	if !ok {
		return err
	}
	out := *e
	out.Field = name
	switch e.Field {
	case "idle_seconds":
		out.Message = "ttl_seconds is 1 to 31622400, a year"
	case "labels":
		out.Message = "metadata is kept as labels: " + e.Message
	}
	return &out
}
