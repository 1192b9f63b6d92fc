package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// What an archive held, or why it broke off, is told in trailers: after the bytes, where it is known.
const (
	archiveTrailer = "Shoal-Archive"
	errorTrailer   = "Shoal-Error"
)

// readArchive streams a file or a tree as a tar archive.
func (a fileAPI) readArchive(w http.ResponseWriter, r *request) error {
	path, err := r.filePath()
	if err != nil {
		return err
	}
	reader, err := a.reader(r)
	if err != nil {
		return err
	}
	o := core.PackOptions{Exclude: r.query["exclude"], Gzip: r.flag("gzip")}
	kind := "application/x-tar"
	if o.Gzip {
		kind = "application/gzip"
	}
	if r.Method == http.MethodHead {
		if _, err := reader.Stat(r.Context(), path); err != nil {
			return err
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(http.StatusOK)
		return nil
	}
	archive, err := reader.Pack(r.Context(), path, o)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }() // What could still fail has no effect on what was read.
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Trailer", archiveTrailer+", "+errorTrailer)
	err = httpserve.Send(w, archive, -1, a.options.Stall)
	switch {
	case err == nil:
		return setTrailer(w, archiveTrailer, encodeArchive(archive.Report()))
	case errors.Is(err, httpserve.ErrGone) || !wantsTrailers(r.Request):
		// The connection is cut, so that a part is never taken for the whole.
		return err
	}
	return setTrailer(w, errorTrailer, a.abort(r, err))
}

// wantsTrailers reports whether the client reads trailers, and so learns from one that what it got is not whole.
func wantsTrailers(r *http.Request) bool {
	for _, value := range r.Header.Values("Te") {
		for coding := range strings.SplitSeq(value, ",") {
			if name, _, _ := strings.Cut(coding, ";"); strings.EqualFold(strings.TrimSpace(name), "trailers") {
				return true
			}
		}
	}
	return false
}

func setTrailer(w http.ResponseWriter, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set(name, string(b))
	return nil
}

// writeArchive unpacks a tar archive, however long it is, into a directory.
func (a fileAPI) writeArchive(w http.ResponseWriter, r *request) error {
	path, err := r.filePath()
	if err != nil {
		return err
	}
	guest, err := a.guest(r)
	if err != nil {
		return err
	}
	body := httpserve.NewUpload(w, r.Request, a.options.Stall)
	report, err := guest.Unpack(r.Context(), path, core.UnpackOptions{
		User: r.query.Get("user"), KeepOwners: r.flag("keep_owners"), Parents: r.flag("parents"), Gzip: r.flag("gzip"),
	}, body)
	if body.Err != nil {
		return core.Wrap(core.CodeInvalid, errors.Join(body.Err, err), "the body was cut off: what is unpacked of it stays, each file whole")
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeArchive(report))
}

func encodeArchive(r core.ArchiveReport) api.ArchiveReport {
	out := api.ArchiveReport{Files: r.Files, Directories: r.Directories, Bytes: r.Bytes, Skipped: r.Skipped}
	for _, n := range r.Notes {
		note := api.ArchiveNote{Reason: n.Reason}
		note.Path, note.PathRaw = api.Text([]byte(n.Path))
		out.Notes = append(out.Notes, note)
	}
	return out
}
