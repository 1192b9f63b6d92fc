package e2b

import (
	"net/http"
	"strconv"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
)

// The bounds of a refresh, in seconds.
const (
	minRefresh = 15
	maxRefresh = 3600
)

// setTimeout makes a sandbox end so long from now. No time at all kills it at once.
func (a *adapter) setTimeout(w http.ResponseWriter, r request) error {
	var body struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := decode(w, r, &body); err != nil {
		return err
	}
	if body.Timeout == nil {
		return core.Invalid("timeout", "timeout is missing: how many seconds from now the sandbox ends")
	}
	if _, err := a.running(r.Context(), r.principal, r.PathValue("id")); err != nil {
		return err
	}
	if *body.Timeout <= 0 {
		return a.killSandbox(w, r)
	}
	ttl, err := a.ttl(r.principal, *body.Timeout)
	if err == nil {
		_, err = a.update(r, control.SandboxPatch{TTL: &ttl})
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// connectBody is the body of a connect. Memory says how a paused sandbox resumes; it says nothing about one that runs.
type connectBody struct {
	Timeout *int64 `json:"timeout"`
	Memory  *bool  `json:"memory"`
}

func (a *adapter) connectV1(w http.ResponseWriter, r request) error {
	return a.connect(w, r, nil)
}

func (a *adapter) connectV2(w http.ResponseWriter, r request) error {
	seconds := int64(defaultTimeoutV2)
	return a.connect(w, r, &seconds)
}

// connect tells how to reach the inside of a sandbox, and lets it live at least so long from now.
func (a *adapter) connect(w http.ResponseWriter, r request, timeout *int64) error {
	body := connectBody{Timeout: timeout}
	if err := decode(w, r, &body); err != nil {
		return err
	}
	if body.Timeout == nil || *body.Timeout < 0 {
		return core.Invalid("timeout", "timeout is missing or negative: how many seconds from now the sandbox shall live at least")
	}
	sb, err := a.running(r.Context(), r.principal, r.PathValue("id"))
	if err == nil {
		sb, err = a.extend(r, sb, *body.Timeout)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, a.opened(sb))
}

// refresh is connect as older clients keep sandboxes alive.
func (a *adapter) refresh(w http.ResponseWriter, r request) error {
	var body struct {
		Duration int64 `json:"duration"`
	}
	if err := decode(w, r, &body); err != nil {
		return err
	}
	if body.Duration < 0 || body.Duration > maxRefresh {
		return core.Invalid("duration", "duration is 0 to %d seconds", maxRefresh)
	}
	sb, err := a.running(r.Context(), r.principal, r.PathValue("id"))
	if err == nil {
		_, err = a.extend(r, sb, max(body.Duration, minRefresh))
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// extend lets a sandbox live at least so long from now, and never shortens its life.
func (a *adapter) extend(r request, sb core.Sandbox, seconds int64) (core.Sandbox, error) {
	ttl, err := a.ttl(r.principal, seconds)
	if err != nil || ttl == 0 {
		return sb, err
	}
	return a.update(r, control.SandboxPatch{ExtendTTL: &ttl})
}

// update changes the sandbox that the path names.
func (a *adapter) update(r request, patch control.SandboxPatch) (core.Sandbox, error) {
	sb, err := a.Control.UpdateSandbox(r.Context(), r.principal, sandboxRef(r.PathValue("id")), patch)
	if core.IsCode(err, core.CodeNotFound) {
		return sb, gone(r.PathValue("id"), "")
	}
	return sb, asE2B(err)
}

// hours writes a duration as E2B's error does.
func hours(d time.Duration) string {
	if d == time.Hour {
		return "1 hour"
	}
	return strconv.FormatFloat(d.Hours(), 'g', 4, 64) + " hours"
}
