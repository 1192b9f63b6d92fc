package httpapi_test

import (
	"context"

	"shoal/internal/control"
	"shoal/internal/core"
)

// DiffSandbox answers with one of everything. The second page is the last one. A path /nothing is on no side.
func (f *fakeControl) DiffSandbox(_ context.Context, p control.Principal, ref string, q control.DiffQuery) (control.Diff, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p, ref)
	if err != nil {
		return control.Diff{}, err
	}
	if q.Path == "/nothing" {
		return control.Diff{}, core.Errorf(core.CodeNotFound, "no such file on either side")
	}
	d := control.Diff{Sandbox: f.sandboxes[i].ID, Against: core.TreeRef{Kind: core.TreeTemplate, ID: "t1"}, At: f.now}
	if q.Against != "" && q.Against != control.AgainstTemplate {
		d.Against = core.TreeRef{Kind: core.TreeSandbox, ID: q.Against}
	}
	if q.After != "" {
		d.Files = []core.FileDiff{{Path: q.After + " next", Change: core.DiffRemoved, Before: &core.FileState{Type: core.FileRegular, Mode: 0o4755, UID: 1}}}
		return d, nil
	}
	d.Summary = core.DiffSummary{Added: core.DiffCount{Files: 3, Bytes: 20}, Changed: core.DiffCount{Files: 1, Bytes: 7}}
	changed := core.FileDiff{
		Path: "/etc/motd", Change: core.DiffChanged, Aspects: []core.DiffAspect{core.AspectContent, core.AspectMode}, Unsure: true,
		Before: &core.FileState{Type: core.FileRegular, Size: 5, Mode: 0o644}, After: &core.FileState{Type: core.FileRegular, Size: 7, Mode: 0o600},
	}
	if q.Hunks {
		changed.Hunks = "@@ -1,1 +1,1 @@\n-old\n+new\n"
	}
	d.Files = []core.FileDiff{
		changed,
		{Path: "/srv/\xff", Change: core.DiffAdded, After: &core.FileState{Type: core.FileSymlink, Target: "/a"}, NoHunks: core.HunksBinary},
		{Path: "/srv/new", Change: core.DiffAdded, After: &core.FileState{Type: core.FileDirectory, Mode: 0o755}, Below: &core.DiffCount{Files: 2, Bytes: 20}},
	}
	d.More = q.Limit < 4
	d.Packages = []core.PackageDiff{{Manager: core.PackagePip, Name: "six", Path: "/usr/lib", Change: core.DiffChanged, Before: "1", After: "2"}}
	d.Credentials, d.MoreCredentials = []core.CredentialFinding{{Kind: "netrc", Path: "/root/.netrc", Line: 2}, {Kind: "jwt", PID: 9}}, 4
	d.Notes = []core.DiffNote{{Path: "/deep", Reason: "directories nest too deep"}}
	d.Running = &core.ProcessList{
		Processes: []core.Process{{PID: 9, Parent: 1, Command: "sleep\xff", StartedAt: f.now}}, MoreProcesses: 1,
		Listeners: []core.Listener{{Proto: "tcp", Address: "::", Port: 80, PID: 9}},
	}
	if q.Expand {
		d.Running, d.NotRunning = nil, "the sandbox is stopped"
	}
	return d, nil
}
