package panda

import (
	"net/http"
	"slices"
	"strings"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// route is one call of the vendor's API.
type route struct {
	// pattern is what http.ServeMux matches.
	pattern string
	// operation is the call's name in logs; what stands before its dot is the noun of its error codes.
	operation string
	run       operation
	// query are the parameters that it takes, body says that it takes one.
	query []string
	body  bool
	// missing says that it only refuses.
	missing bool
}

// routes are the calls that work.
func (a *adapter) routes() []route {
	return []route{
		{pattern: "POST /v1/sandboxes", operation: "sandbox.create", run: a.createSandbox, body: true},
		{pattern: "GET /v1/sandboxes", operation: "sandbox.list", run: a.listSandboxes},
		{pattern: "GET /v1/sandboxes/{id}", operation: "sandbox.get", run: a.getSandbox},
		{pattern: "DELETE /v1/sandboxes/{id}", operation: "sandbox.delete", run: a.deleteSandbox},
		{pattern: "GET /v1/sandboxes/{id}/lifecycle", operation: "sandbox.lifecycle", run: a.getLifecycle},
		{pattern: "PATCH /v1/sandboxes/{id}/lifecycle", operation: "sandbox.setLifecycle", run: a.setLifecycle, body: true},
		{pattern: "POST /v1/sandboxes/{id}/exec", operation: "exec.run", run: a.runExec, body: true},
		{pattern: "POST /v1/sandboxes/{id}/exec/stream", operation: "exec.stream", run: a.streamExec, body: true},
		{pattern: "GET /v1/sandboxes/{id}/fs", operation: "file.read", run: a.readFile, query: []string{"path"}},
		{pattern: "PUT /v1/sandboxes/{id}/fs", operation: "file.write", run: a.writeFile, query: []string{"path"}, body: true},
		{pattern: "DELETE /v1/sandboxes/{id}/fs", operation: "file.remove", run: a.removeFile, query: []string{"path", "recursive"}},
		{pattern: "GET /v1/sandboxes/{id}/fs/dir", operation: "file.list", run: a.listFiles, query: []string{"path"}},
		{pattern: "GET /v1/sandboxes/{id}/fs/stat", operation: "file.stat", run: a.statFile, query: []string{"path"}},
		{pattern: "GET /v1/templates", operation: "template.list", run: a.listTemplates},
		// The SDK for Python sends a name with a slash as it is, the other one as %2F.
		{pattern: "GET /v1/templates/{name...}", operation: "template.get", run: a.getTemplate},
		{pattern: "GET /v1/me", operation: "account.get", run: a.getMe},
	}
}

// absent are the vendor's calls that this server doesn't have, with what to say of each. A path that ends in a slash stands for
// everything below it as well.
func absent() map[string]string {
	const sandbox = "/v1/sandboxes/{id}/"
	sleep := "sandboxes can't be put to sleep by this server yet: keep it running, or make it persistent and delete it when it is done"
	forks := "forks and checkpoints are not in this server yet: create another sandbox and prepare it anew"
	ports := "ports and previews are not in this server yet: reach a program inside by exec, such as curl http://localhost:PORT"
	builds := "templates can't be built or removed by this API: the server's operator decides which there are; GET /v1/templates lists them"
	logs := "logs, events and metrics are not in this API yet: exec/stream has a command's output as it comes"
	terminal := "terminals, multiplexed execs, SSH and language servers are not in this API yet: use exec or exec/stream"
	return map[string]string{
		sandbox + "pause": sleep, sandbox + "resume": sleep, sandbox + "hibernate": sleep, sandbox + "wake": sleep,
		sandbox + "stop": sleep, sandbox + "start": sleep,
		sandbox + "fork": forks, sandbox + "fork-tree": forks, sandbox + "promote": forks, sandbox + "snapshots": forks, "/v1/snapshots/": forks,
		sandbox + "repl/":  "code contexts (repl) are not in this server yet: run code by exec, such as python3 -c",
		sandbox + "ports/": ports, sandbox + "preview": ports, sandbox + "preview-token": ports, sandbox + "proxy/": ports,
		sandbox + "logs": logs, sandbox + "events": logs, sandbox + "metrics": logs,
		"/v1/stats/": logs, "/v1/audit": logs, "/v1/metrics/": logs,
		sandbox + "exec/pty": terminal, sandbox + "exec/ws": terminal, sandbox + "ssh": terminal, sandbox + "lsp/": terminal,
		sandbox + "mcp": "MCP is not in this server yet", "/v1/mcp": "MCP is not in this server yet",
		"/v1/templates/build": builds, "/v1/templates/builds/": builds, "/v1/templates/{name...}": builds,
		"/v1/volumes/":       "volumes are not in this server yet: a persistent sandbox keeps its files",
		"/v1/functions/":     "functions are not in this server: run code in a sandbox",
		"/v1/schedules/":     "schedules are not in this server: start sandboxes from a scheduler of your own",
		"/v1/databases/":     "managed databases are not in this server",
		"/v1/apps/":          "apps are not in this server: run a program in a sandbox",
		"/v1/preview-repos/": "previews of repositories are not in this server", "/v1/repos/": "previews of repositories are not in this server",
		"/v1/me/tokens/": "keys are not made by this API: the server's operator makes them with shoal key create --dialect panda",
		"/v1/orgs/":      "organisations are not in this server: a key belongs to a tenant", "/v1/invites/": "organisations are not in this server",
	}
}

// methods are those that a path is tried with.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// route registers every call, those that are missing, and what answers the rest.
func (a *adapter) route() {
	taken := map[string]bool{}
	for _, rt := range a.routes() {
		taken[rt.pattern] = true
		a.mux.Handle(rt.pattern, a.endpoint(rt))
	}
	for path, words := range absent() {
		refuse := func(http.ResponseWriter, *request) error { return core.Errorf(core.CodeUnsupported, "%s", words) }
		paths := []string{path}
		if whole, ok := strings.CutSuffix(path, "/"); ok {
			paths = []string{whole, path + "{rest...}"}
		}
		for _, path := range paths {
			for _, method := range methods {
				if pattern := method + " " + path; !taken[pattern] && !onlyDeletes(path, method) {
					a.mux.Handle(pattern, a.endpoint(route{pattern: pattern, operation: "request.missing", run: refuse, missing: true}))
				}
			}
		}
	}
	a.mux.HandleFunc("/", a.unknown)
}

// onlyDeletes says that of a template's path the vendor has DELETE only, beside the GET that works.
func onlyDeletes(path, method string) bool {
	return path == "/v1/templates/{name...}" && method != http.MethodDelete
}

// unknown answers what no call takes.
func (a *adapter) unknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range methods {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		a.fail(w, r, core.Errorf(core.CodeNotFound, "no such path in PandaStack's API; it is served below /v1 at the root of this address"))
		return
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	a.fail(w, r, httpserve.WithStatus(http.StatusMethodNotAllowed, core.Invalid("method", "this path takes %s only", strings.Join(allowed, ", "))))
}
