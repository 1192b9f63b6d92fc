package e2b

import (
	"net/http"

	"shoal/internal/core"
)

// laterCall is a call of E2B's that this server doesn't have yet.
type laterCall struct {
	operation string
	// words say what is missing and what to do instead.
	words string
	// inSandbox says that the path names a sandbox: one that isn't there is told first.
	inSandbox bool
}

const (
	noPause     = "this server can't pause and resume sandboxes yet: keep the sandbox running with setTimeout, or kill it"
	noForks     = "this server can't fork sandboxes or save their state yet"
	noEgress    = "nothing outside can be reached from a sandbox yet, and there is no policy to change"
	noLogs      = "this server keeps no log of sandboxes: read a command's output from the command, or as it runs by connecting to it"
	noBuilds    = "templates can't be built through this API yet: the server's own templates are in its setting templates.bootstrap, and e2b.templates gives them other names"
	noVolumes   = "this server has no volumes yet"
	noSecrets   = "this server has no secrets yet: give a sandbox what it needs as environment variables"
	noTeams     = "this server has no teams: a key is all that a client needs (E2B_API_KEY), made with `shoal key create --dialect e2b`"
	noEvents    = "lifecycle events and webhooks aren't served in E2B's form yet: the native API has /v1/events"
	noManyStats = "metrics are told of one sandbox at a time: GET /sandboxes/{id}/metrics"
)

// later is every call of E2B's that is answered with 501.
var later = map[string]laterCall{
	"POST /sandboxes/{id}/pause":     {"sandboxes.pause", noPause, true},
	"POST /sandboxes/{id}/resume":    {"sandboxes.resume", noPause, true},
	"POST /sandboxes/{id}/fork":      {"sandboxes.fork", noForks, true},
	"POST /sandboxes/{id}/snapshots": {"sandboxes.snapshot", noForks, true},
	"PUT /sandboxes/{id}/network":    {"sandboxes.network", noEgress, true},
	"GET /sandboxes/{id}/logs":       {"sandboxes.logs", noLogs, true},
	"GET /v2/sandboxes/{id}/logs":    {"sandboxes.logs", noLogs, true},
	"GET /sandboxes/metrics":         {"sandboxes.metrics", noManyStats, false},
	"GET /snapshots":                 {"snapshots.list", noForks, false},

	"POST /templates":          {"templates.build", noBuilds, false},
	"POST /templates/":         {"templates.build", noBuilds, false},
	"PATCH /templates/":        {"templates.update", noBuilds, false},
	"DELETE /templates/":       {"templates.delete", noBuilds, false},
	"POST /v2/templates":       {"templates.build", noBuilds, false},
	"/v2/templates/":           {"templates.build", noBuilds, false},
	"POST /v3/templates":       {"templates.build", noBuilds, false},
	"GET /templates/{id}/":     {"templates.builds", noBuilds, false},
	"GET /volumes":             {"volumes.list", noVolumes, false},
	"POST /volumes":            {"volumes.create", noVolumes, false},
	"GET /volumes/{volume}":    {"volumes.get", noVolumes, false},
	"DELETE /volumes/{volume}": {"volumes.delete", noVolumes, false},
	"/volumecontent/":          {"volumes.content", noVolumes, false},
	"GET /secrets":             {"secrets.list", noSecrets, false},
	"POST /secrets":            {"secrets.create", noSecrets, false},
	"GET /secrets/{secret}":    {"secrets.get", noSecrets, false},
	"POST /secrets/{secret}":   {"secrets.update", noSecrets, false},
	"DELETE /secrets/{secret}": {"secrets.delete", noSecrets, false},
	"GET /teams":               {"teams.list", noTeams, false},
	"/teams/{team}/":           {"teams.metrics", noTeams, false},
	"/events/":                 {"events", noEvents, false},
}

// notYet answers a call that isn't there yet.
func (a *adapter) notYet(l laterCall) call {
	return func(_ http.ResponseWriter, r request) error {
		if l.inSandbox {
			if _, err := a.running(r.Context(), r.principal, r.PathValue("id")); err != nil {
				return err
			}
		}
		return core.Errorf(core.CodeUnsupported, "%s", l.words)
	}
}
