package e2b

import (
	"context"
	"math"
	"net/http"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd"
)

// noDomain is what clients get as the domain of a server that has none. It must not be empty, since they would then look for sandboxes at
// their vendor's; it can never resolve, and its name is in the error that they show.
const noDomain = "set-e2b-sandbox-url-or-the-servers-domain.invalid"

// forever is the end of a sandbox that has none, where E2B must have one.
var forever = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// openedSandbox is the reply to create and connect: what a client needs to reach the inside.
type openedSandbox struct {
	SandboxID          string  `json:"sandboxID"`
	TemplateID         string  `json:"templateID"`
	ClientID           string  `json:"clientID"`
	Alias              string  `json:"alias,omitempty"`
	EnvdVersion        string  `json:"envdVersion"`
	EnvdAccessToken    string  `json:"envdAccessToken"`
	TrafficAccessToken *string `json:"trafficAccessToken"`
	Domain             string  `json:"domain"`
}

// listedSandbox is one sandbox of a list.
type listedSandbox struct {
	SandboxID    string            `json:"sandboxID"`
	TemplateID   string            `json:"templateID"`
	ClientID     string            `json:"clientID"`
	Alias        string            `json:"alias,omitempty"`
	StartedAt    string            `json:"startedAt"`
	EndAt        string            `json:"endAt"`
	CPUCount     int               `json:"cpuCount"`
	MemoryMB     int64             `json:"memoryMB"`
	DiskSizeMB   int64             `json:"diskSizeMB"`
	EnvdVersion  string            `json:"envdVersion"`
	Metadata     map[string]string `json:"metadata"`
	State        string            `json:"state"`
	VolumeMounts []volumeMount     `json:"volumeMounts"`
}

// sandboxDetail is one sandbox that was asked for.
type sandboxDetail struct {
	listedSandbox
	EnvdAccessToken string    `json:"envdAccessToken"`
	Domain          string    `json:"domain"`
	AllowInternet   bool      `json:"allowInternetAccess"`
	Lifecycle       lifecycle `json:"lifecycle"`
}

type lifecycle struct {
	OnTimeout  string `json:"onTimeout"`
	AutoResume bool   `json:"autoResume"`
}

func (a *adapter) domain() string {
	if a.Domain == "" {
		return noDomain
	}
	return a.Domain
}

func (a *adapter) opened(sb core.Sandbox) openedSandbox {
	return openedSandbox{
		SandboxID: string(sb.ID), TemplateID: string(sb.Template), ClientID: string(sb.Node), Alias: sb.TemplateName,
		EnvdVersion: envd.Version, EnvdAccessToken: a.Control.AccessToken(sb), Domain: a.domain(),
	}
}

func listed(sb core.Sandbox) listedSandbox {
	end := sb.ExpiresAt
	if end.IsZero() {
		end = forever
	}
	metadata := sb.Labels
	if metadata == nil {
		metadata = map[string]string{}
	}
	return listedSandbox{
		SandboxID: string(sb.ID), TemplateID: string(sb.Template), ClientID: string(sb.Node), Alias: sb.TemplateName,
		StartedAt: rfc3339(sb.StartedAt), EndAt: rfc3339(end), CPUCount: cpuCount(sb.Resources), MemoryMB: sb.Resources.MemoryBytes >> 20,
		DiskSizeMB: sb.Resources.DiskBytes >> 20, EnvdVersion: envd.Version, Metadata: metadata, State: "running", VolumeMounts: []volumeMount{},
	}
}

// cpuCount is a number of cores where there are only whole ones: a part of one is told as one.
func cpuCount(r core.Resources) int { return int(math.Ceil(r.VCPUs)) }

// running finds a sandbox that is of use. One that failed is told as gone, which is what it is to E2B's clients: they know no other
// state that ends.
func (a *adapter) running(ctx context.Context, p control.Principal, ref string) (core.Sandbox, error) {
	sb, err := a.Control.GetSandbox(ctx, p, sandboxRef(ref))
	switch {
	case core.IsCode(err, core.CodeNotFound):
		return sb, gone(ref, "")
	case err != nil:
		return sb, err //nolint:wrapcheck // Control's errors are made for the edge.
	case sb.State == core.StateFailed:
		return sb, gone(ref, sb.Failure)
	case sb.State == core.StateStopped:
		return sb, core.Errorf(core.CodeConflict, "the sandbox is stopped: its owner can wake it by Shoal's own API")
	case sb.State != core.StateRunning:
		return sb, core.Errorf(core.CodeConflict, "the sandbox is %s", sb.State)
	}
	return sb, nil
}

// gone is the error of a sandbox that is not there, or no longer.
func gone(ref, failure string) error {
	if failure != "" {
		return core.Errorf(core.CodeNotFound, "Sandbox %q doesn't run any more: %s", clip(ref), failure)
	}
	return core.Errorf(core.CodeNotFound, "Sandbox %q doesn't exist or you don't have access to it", clip(ref))
}

func (a *adapter) getSandbox(w http.ResponseWriter, r request) error {
	sb, err := a.running(r.Context(), r.principal, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, sandboxDetail{
		listedSandbox: listed(sb), EnvdAccessToken: a.Control.AccessToken(sb), Domain: a.domain(), Lifecycle: lifecycle{OnTimeout: "kill"},
	})
}

// killSandbox deletes a sandbox in whatever state.
func (a *adapter) killSandbox(w http.ResponseWriter, r request) error {
	err := a.Control.DeleteSandbox(r.Context(), r.principal, sandboxRef(r.PathValue("id")))
	if core.IsCode(err, core.CodeNotFound) {
		return gone(r.PathValue("id"), "")
	}
	if err != nil {
		return err //nolint:wrapcheck // Control's errors are made for the edge.
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
