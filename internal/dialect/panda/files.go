package panda

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

const (
	maxPath = 4096
	// modeBits are the permission bits with setuid, setgid and sticky.
	modeBits = 0o7777
	// filesPage is how many entries of a directory are read at a time.
	filesPage = 500
)

// fileInfo is the vendor's form of a file.
type fileInfo struct {
	// Name and Path have U+FFFD in place of bytes that aren't UTF-8; NameRaw and PathRaw, which are ours, have those bytes in base64.
	Name    string `json:"name"`
	Path    string `json:"path"`
	IsDir   bool   `json:"is_dir"`
	Size    int64  `json:"size"`
	Mode    string `json:"mode"`
	MTime   int64  `json:"mtime"`
	NameRaw string `json:"name_raw,omitempty"`
	PathRaw string `json:"path_raw,omitempty"`
}

func encodeFile(f core.FileInfo, at string) fileInfo {
	out := fileInfo{
		Name: f.Name, Path: at, IsDir: f.Type == core.FileDirectory, Size: f.Size,
		Mode: fmt.Sprintf("%04o", f.Mode&modeBits), MTime: f.MTime.Unix(),
	}
	if !utf8.ValidString(at) || !utf8.ValidString(f.Name) {
		out.Name, out.Path = string([]rune(f.Name)), string([]rune(at))
		out.NameRaw, out.PathRaw = base64.StdEncoding.EncodeToString([]byte(f.Name)), base64.StdEncoding.EncodeToString([]byte(at))
	}
	return out
}

// filePath returns the path that the query names, which may be any bytes.
func (r *request) filePath() (string, error) {
	p := r.query.Get("path")
	switch {
	case p == "":
		return "", core.Invalid("path", "path is needed")
	case p[0] != '/':
		return "", core.Invalid("path", "path must be absolute, it begins with a slash: %q", p[:min(len(p), maxPath)])
	case len(p) > maxPath:
		return "", core.Invalid("path", "path can have at most %d bytes", maxPath)
	case strings.Contains(p, "\x00"):
		return "", core.Invalid("path", "path can't hold a NUL")
	}
	return p, nil
}

// file finds the guest agent and the path of a call.
func (a *adapter) file(r *request) (core.Guest, string, error) {
	p, err := r.filePath()
	if err != nil {
		return nil, "", err
	}
	guest, err := a.cfg.Control.Files(r.Context(), r.Principal, r.sandbox())
	return guest, p, err
}

// readFile streams a file's content.
func (a *adapter) readFile(w http.ResponseWriter, r *request) error {
	guest, p, err := a.file(r)
	if err != nil {
		return err
	}
	info, content, err := guest.ReadFile(r.Context(), p, 0, -1)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // What could still fail has no effect on what was read.
	w.Header().Set("Content-Type", "application/octet-stream")
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK) // what a client would not get is not read
		return nil
	}
	return httpserve.SendFile(w, info, content, stall)
}

// writeFile writes a whole file from the body, however long that is, and makes the directories above it.
func (a *adapter) writeFile(w http.ResponseWriter, r *request) error {
	guest, p, err := a.file(r)
	if err != nil {
		return err
	}
	body := httpserve.NewUpload(w, r.Request, stall)
	info, err := guest.WriteFile(r.Context(), p, core.WriteOptions{User: user, Parents: true}, body)
	if body.Err != nil {
		return core.Wrap(core.CodeInvalid, errors.Join(body.Err, err), "the body was cut off: the file is as it was")
	}
	if err != nil {
		return err
	}
	r.Quiet = true
	return writeJSON(w, http.StatusOK, struct {
		Path  string `json:"path"`
		Bytes int64  `json:"bytes"`
	}{string([]rune(p)), info.Size})
}

// removeFile removes a file or an empty directory, or a directory with all that is in it if that is asked for.
func (a *adapter) removeFile(w http.ResponseWriter, r *request) error {
	recursive := false
	switch r.query.Get("recursive") {
	case "", "false", "0":
	case "true", "1":
		recursive = true
	default:
		return core.Invalid("recursive", "recursive is true or false")
	}
	guest, p, err := a.file(r)
	if err != nil {
		return err
	}
	err = guest.Remove(r.Context(), p, core.RemoveOptions{Recursive: recursive})
	if core.IsCode(err, core.CodeConflict) && !recursive {
		return core.Wrap(core.CodeConflict, err, "the directory is not empty: add recursive=true to remove all that is in it")
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// statFile describes what a path leads to; of a symbolic link that leads nowhere, the link.
func (a *adapter) statFile(w http.ResponseWriter, r *request) error {
	guest, p, err := a.file(r)
	if err != nil {
		return err
	}
	info, err := guest.Stat(r.Context(), p)
	if err != nil {
		return err
	}
	name := info.Name
	if info.Type == core.FileSymlink {
		page, _, err := guest.Walk(r.Context(), p, core.WalkOptions{Limit: 1})
		if err != nil {
			return err
		}
		if len(page) == 1 && page[0].Final != nil {
			if info, err = guest.Stat(r.Context(), page[0].Final.Path); err != nil {
				return err
			}
		}
	}
	info.Name = name
	return writeJSON(w, http.StatusOK, encodeFile(info, p))
}

// listFiles sends all entries of a directory.
func (a *adapter) listFiles(w http.ResponseWriter, r *request) error {
	guest, p, err := a.file(r)
	if err != nil {
		return err
	}
	open, err := encodeJSON(struct {
		Path string `json:"path"`
	}{string([]rune(p))})
	if err != nil {
		return err
	}
	out := newList(w, strings.TrimSuffix(string(open), "}\n")+`,"entries":[`, "]}")
	for after, more := "", true; more; {
		var page []core.FileInfo
		if page, more, err = guest.ListFiles(r.Context(), p, after, filesPage); err != nil {
			return err
		}
		items := make([]any, len(page))
		for i, f := range page {
			items[i] = encodeFile(f, path.Join(p, f.Name))
			after = f.Name
		}
		if err := out.add(items, !more); err != nil {
			return err
		}
	}
	return nil
}
