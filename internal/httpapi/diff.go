package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
)

func (a fileAPI) diffSandbox(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	path := "/"
	if r.query.Has("path") || r.query.Has("path_raw") {
		if path, err = r.filePath(); err != nil {
			return err
		}
	}
	after, err := base64.RawURLEncoding.DecodeString(r.query.Get("cursor"))
	if err != nil || len(after) > maxPath {
		return core.Invalid("cursor", "cursor is not one of a page before")
	}
	against := r.query.Get("against")
	if against != "" && !refPattern().MatchString(against) {
		return &core.Error{Code: core.CodeNotFound, Field: "against", Message: "no such checkpoint or sandbox"}
	}
	d, err := a.control.DiffSandbox(r.Context(), r.principal, ref, control.DiffQuery{
		Against: against, Path: path, After: string(after), Limit: r.limit(), Expand: r.flag("expand"), Hunks: r.flag("content"),
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeDiff(d, len(after) == 0))
}

func encodeDiff(d control.Diff, first bool) api.SandboxDiff {
	out := api.SandboxDiff{
		SandboxID: string(d.Sandbox), Against: api.DiffBase{Kind: api.DiffBaseKind(d.Against.Kind), ID: d.Against.ID}, At: d.At,
		Files: convert(d.Files, encodeFileDiff),
	}
	if d.More {
		out.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(d.Files[len(d.Files)-1].Path))
	}
	if !first {
		return out
	}
	out.Summary = &api.DiffSummary{
		Added: encodeCount(d.Summary.Added), Removed: encodeCount(d.Summary.Removed), Changed: encodeCount(d.Summary.Changed),
	}
	out.Packages, out.MorePackages = convert(d.Packages, encodePackageDiff), d.MorePackages
	out.Credentials, out.MoreCredentials = convert(d.Credentials, encodeCredential), d.MoreCredentials
	out.Notes, out.MoreNotes = convert(d.Notes, encodeDiffNote), d.MoreNotes
	out.NotRunning = d.NotRunning
	if run := d.Running; run != nil {
		out.Processes, out.MoreProcesses = convert(run.Processes, encodeProcess), run.MoreProcesses
		out.Listeners, out.MoreListeners = convert(run.Listeners, encodeListener), run.MoreListeners
	}
	return out
}

func encodeCount(c core.DiffCount) api.DiffCount {
	return api.DiffCount{Files: c.Files, Bytes: c.Bytes}
}

func encodeFileDiff(f core.FileDiff) api.FileDiff {
	out := api.FileDiff{
		Change: api.FileDiffChange(f.Change), Unsure: f.Unsure, Before: encodeFileState(f.Before), After: encodeFileState(f.After),
		Hunks: f.Hunks, NoHunks: api.FileDiffNoHunks(f.NoHunks),
	}
	out.Path, out.PathRaw = api.Text([]byte(f.Path))
	for _, aspect := range f.Aspects {
		out.Aspects = append(out.Aspects, api.FileDiffAspects(aspect))
	}
	if f.Below != nil {
		out.Below = encodeCount(*f.Below)
	}
	return out
}

func encodeFileState(s *core.FileState) (out api.FileState) {
	if s == nil {
		return out
	}
	out = api.FileState{Type: api.FileType(s.Type), Size: s.Size, Mode: fmt.Sprintf("%04o", s.Mode&modeBits), UID: s.UID, GID: s.GID}
	out.Target, out.TargetRaw = api.Text([]byte(s.Target))
	return out
}

func encodePackageDiff(p core.PackageDiff) api.PackageDiff {
	out := api.PackageDiff{
		Manager: api.PackageDiffManager(p.Manager), Name: p.Name, Change: api.PackageDiffChange(p.Change), Before: p.Before, After: p.After,
	}
	out.Path, out.PathRaw = api.Text([]byte(p.Path))
	return out
}

func encodeCredential(c core.CredentialFinding) api.CredentialFinding {
	out := api.CredentialFinding{Kind: string(c.Kind), Line: c.Line, PID: c.PID}
	out.Path, out.PathRaw = api.Text([]byte(c.Path))
	return out
}

func encodeDiffNote(n core.DiffNote) api.DiffNote {
	out := api.DiffNote{Reason: n.Reason}
	out.Path, out.PathRaw = api.Text([]byte(n.Path))
	return out
}

func encodeProcess(p core.Process) api.SandboxProcess {
	return api.SandboxProcess{
		PID: p.PID, Parent: p.Parent, UID: p.UID, User: strings.ToValidUTF8(p.User, "?"), Command: strings.ToValidUTF8(p.Command, "?"), Cut: p.Cut,
		StartedAt: p.StartedAt,
	}
}

func encodeListener(l core.Listener) api.SandboxListener {
	return api.SandboxListener{Proto: api.SandboxListenerProto(l.Proto), Address: l.Address, Port: int(l.Port), PID: l.PID}
}
