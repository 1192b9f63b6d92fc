package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	maxPath = 4096
	// modeBits are the permission bits with setuid, setgid and sticky.
	modeBits = 0o7777
)

// guest returns the guest agent of the path's sandbox.
func (a fileAPI) guest(r *request) (core.Guest, error) {
	ref, err := r.sandbox()
	if err != nil {
		return nil, err
	}
	return a.control.Files(r.Context(), r.principal, ref)
}

// reader returns what reads the files of the path's sandbox, whether it runs or not.
func (a fileAPI) reader(r *request) (core.FileReader, error) {
	ref, err := r.sandbox()
	if err != nil {
		return nil, err
	}
	return a.control.ReadFiles(r.Context(), r.principal, ref)
}

func (a fileAPI) statFile(w http.ResponseWriter, r *request) error {
	path, err := r.filePath()
	if err != nil {
		return err
	}
	reader, err := a.reader(r)
	if err != nil {
		return err
	}
	info, err := reader.Stat(r.Context(), path)
	if err != nil {
		return err
	}
	out := encodeFile(info)
	if r.flag("xattrs") {
		list, err := reader.Xattrs(r.Context(), path)
		if err != nil {
			return err
		}
		out.Xattrs = convert(list, encodeXattr)
	}
	return writeJSON(w, http.StatusOK, out)
}

func (a fileAPI) listFiles(w http.ResponseWriter, r *request) error {
	path, err := r.filePath()
	if err != nil {
		return err
	}
	after, err := base64.RawURLEncoding.DecodeString(r.query.Get("cursor"))
	if err != nil {
		return core.Invalid("cursor", "cursor is not one of a page before")
	}
	reader, err := a.reader(r)
	if err != nil {
		return err
	}
	list, next, err := listPage(r, reader, path, string(after))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.FileList{
		Files: convert(list, encodeFile), NextCursor: base64.RawURLEncoding.EncodeToString([]byte(next)),
	})
}

// listPage returns a page of a directory, or of several levels, and what the next one begins after; empty if there is none.
func listPage(r *request, reader core.FileReader, path, after string) (list []core.FileInfo, next string, err error) {
	limit, depth := r.limit(), int(r.number("depth", 1))
	var more bool
	if depth > 1 {
		list, more, err = reader.Walk(r.Context(), path, core.WalkOptions{Depth: depth, After: after, Limit: limit})
	} else {
		list, more, err = reader.ListFiles(r.Context(), path, after, limit)
	}
	if err != nil {
		return nil, "", err
	}
	if page := bounded(list); len(page) < len(list) {
		list, more = page, true
	}
	switch {
	case !more:
		return list, "", nil
	case depth > 1:
		return list, list[len(list)-1].Path, nil
	}
	return list, list[len(list)-1].Name, nil
}

// bounded returns as many files as make one page: no more once their names and targets have reached the size of a page.
func bounded(list []core.FileInfo) []core.FileInfo {
	total := 0
	for i, f := range list {
		if total >= store.MaxPageBytes {
			return list[:i]
		}
		total += len(f.Name) + len(f.Path) + len(f.Target)
	}
	return list
}

func (a fileAPI) makeDirectory(w http.ResponseWriter, r *request) error {
	var body api.MakeDirectoryRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	path, err := bodyPath("path", body.Path, body.PathRaw)
	if err != nil {
		return err
	}
	mode, err := parseMode(body.Mode)
	if err != nil {
		return err
	}
	if body.Mode == "" {
		mode = 0o755
	}
	guest, err := a.guest(r)
	if err != nil {
		return err
	}
	return noContent(w, guest.Mkdir(r.Context(), path, core.WriteOptions{Mode: mode, User: body.User, Parents: body.Parents}))
}

func (a fileAPI) moveFile(w http.ResponseWriter, r *request) error {
	var body api.MoveFileRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	from, err := bodyPath("from", body.From, body.FromRaw)
	if err != nil {
		return err
	}
	to, err := bodyPath("to", body.To, body.ToRaw)
	if err != nil {
		return err
	}
	guest, err := a.guest(r)
	if err != nil {
		return err
	}
	return noContent(w, guest.Move(r.Context(), from, to))
}

func (a fileAPI) removeFile(w http.ResponseWriter, r *request) error {
	path, err := r.filePath()
	if err != nil {
		return err
	}
	guest, err := a.guest(r)
	if err != nil {
		return err
	}
	return noContent(w, guest.Remove(r.Context(), path, core.RemoveOptions{Recursive: r.flag("recursive")}))
}

// filePath returns the path that the query names, in either of its forms.
func (r *request) filePath() (string, error) {
	if !r.query.Has("path_raw") {
		return checkPath("path", r.query.Get("path"))
	}
	if r.query.Has("path") {
		return "", core.Invalid("path_raw", "give either path or path_raw")
	}
	// Both alphabets are taken, with or without padding: only one of them survives in a query unescaped.
	text := strings.NewReplacer("-", "+", "_", "/", " ", "+").Replace(strings.TrimRight(r.query.Get("path_raw"), "="))
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return "", core.Invalid("path_raw", "path_raw is not base64")
	}
	return checkPath("path_raw", string(raw))
}

// bodyPath returns the path that a JSON body names, in either of its forms.
func bodyPath(field, text string, raw []byte) (string, error) {
	if text != "" && len(raw) > 0 {
		return "", core.Invalid(field+"_raw", "give either %s or %s_raw", field, field)
	}
	return checkPath(field, string(api.Join(text, raw)))
}

// checkPath refuses what can't be a path inside a sandbox. What it leads to, only the guest can say.
func checkPath(field, path string) (string, error) {
	switch {
	case path == "":
		return "", core.Invalid(field, "%s is needed", field)
	case path[0] != '/':
		return "", core.Invalid(field, "%s must be absolute, it begins with a slash: %q", field, path[:min(len(path), maxPath)])
	case len(path) > maxPath:
		return "", core.Invalid(field, "%s can have at most %d bytes", field, maxPath)
	case strings.Contains(path, "\x00"):
		return "", core.Invalid(field, "%s can't hold a NUL", field)
	}
	return path, nil
}

// parseMode reads permission bits in octal; empty is zero.
func parseMode(s string) (uint32, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n > modeBits || len(s) > 5 {
		return 0, core.Invalid("mode", "mode is permission bits in octal, such as 0644")
	}
	if n == 0 {
		return 0, core.Invalid("mode", "a file that nobody may use can't be made at once: give it a mode, then change it inside")
	}
	return uint32(n), nil
}

func encodeXattr(x core.Xattr) api.FileXattr {
	out := api.FileXattr{Value: x.Value}
	out.Name, out.NameRaw = api.Text([]byte(x.Name))
	return out
}

func encodeFile(f core.FileInfo) api.FileInfo {
	out := api.FileInfo{
		Type: api.FileType(f.Type), Size: f.Size, Mode: fmt.Sprintf("%04o", f.Mode&modeBits),
		UID: f.UID, GID: f.GID, Owner: strings.ToValidUTF8(f.Owner, "?"), Group: strings.ToValidUTF8(f.Group, "?"),
		ModifiedAt: f.MTime,
	}
	out.Name, out.NameRaw = api.Text([]byte(f.Name))
	out.Path, out.PathRaw = api.Text([]byte(f.Path))
	out.Target, out.TargetRaw = api.Text([]byte(f.Target))
	return out
}
