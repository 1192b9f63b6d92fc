package envd

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/httpserve"
)

// written is a file that was uploaded.
type written struct {
	Path string `json:"path"`
	Name string `json:"name"`
	Type string `json:"type"`
}

// maxAnswer bounds what is kept of where the files of one form went, until the last of them has come.
const maxAnswer = 4 << 20

// writtenSize is about what a file takes there, beside its path and name.
const writtenSize = 64

// drainMost is how much of a body is still read once it has been refused, so that its sender comes to read the answer.
const drainMost = 1 << 30

// upload writes files from a request's body, however long that is: each of them whole or not at all.
func (h *handler) upload(w *answer, r *http.Request) error {
	dialect.CallOf(r.Context()).Quiet = true
	body := httpserve.NewUpload(w, r, h.stall)
	list, err := h.receive(r, body)
	if err == nil {
		writeJSON(w, http.StatusOK, list)
		return nil
	}
	if body.Err != nil {
		err = core.Wrap(core.CodeInvalid, errors.Join(body.Err, err), "the body was cut off: the file that it was for is as it was")
	}
	// The answer goes out while the body still comes: a client that can't send any more would not read it.
	_ = http.NewResponseController(w).EnableFullDuplex() // where it can't be had, it is not needed
	w.after = func() {
		_ = http.NewResponseController(w).Flush() // a client that is gone needs no answer
		_, _ = io.Copy(io.Discard, io.LimitReader(body, drainMost))
	}
	return err
}

// receive reads what kind of upload it is and carries it out.
func (h *handler) receive(r *http.Request, body io.Reader) ([]written, error) {
	if err := refuseMetadata(r); err != nil {
		return nil, err
	}
	query := r.URL.Query()
	user, name := query.Get("username"), query.Get("path")
	if err := checkUser(user); err != nil {
		return nil, err
	}
	f, err := h.filesOf(r.Context(), user)
	if err != nil {
		return nil, err
	}
	if body, err = unpacked(r.Header.Get("Content-Encoding"), body); err != nil {
		return nil, err
	}
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "multipart/form-data" && parameters["boundary"] != "":
		return f.writeParts(r.Context(), name, multipart.NewReader(body, parameters["boundary"]))
	case err == nil && kind == "application/octet-stream":
		if name == "" {
			return nil, core.Invalid("path", "path is needed: say in the query where the file goes")
		}
		one, err := f.write(r.Context(), name, body)
		return []written{one}, err
	}
	return nil, core.Invalid("Content-Type", "an upload is multipart/form-data with parts named file, or application/octet-stream")
}

// unpacked returns a body without its content encoding.
func unpacked(encoding string, body io.Reader) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return body, nil
	case "gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, core.Wrap(core.CodeInvalid, err, "the body is not gzip, as its Content-Encoding says")
		}
		return z, nil
	}
	return nil, httpserve.WithStatus(http.StatusUnsupportedMediaType, core.Invalid("Content-Encoding", "a body comes as it is or by gzip"))
}

// writeParts writes the parts of a form. Each says in its filename where it goes, unless the query has said it for the only one.
func (f files) writeParts(ctx context.Context, name string, form *multipart.Reader) ([]written, error) {
	var list []written
	kept := 0
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) && len(list) > 0 {
			return list, nil
		}
		if errors.Is(err, io.EOF) {
			return nil, core.Invalid("file", "the form has no part named file")
		}
		if err != nil {
			return nil, core.Wrap(core.CodeInvalid, err, "the form is malformed or was cut off")
		}
		field, filename, err := partName(part.Header.Get("Content-Disposition"))
		switch {
		case err != nil:
			return nil, err
		case field != "file":
			return nil, core.Invalid(shown(field), "a form's parts are named file, not %q", shown(field))
		case name != "" && len(list) > 0:
			return nil, core.Invalid("path", "path says where one file goes: leave it out and give each part its path as filename")
		case name != "":
			filename = name
		case kept > maxAnswer:
			return nil, core.Invalid("file", "a form has fewer files or shorter paths: the first %d files are written; send the others by another call", len(list))
		case filename == "":
			return nil, core.Invalid("path", "say where the file goes: path in the query, or filename of the part")
		}
		one, err := f.write(ctx, filename, part)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
		kept += writtenSize + len(one.Path) + len(one.Name)
	}
}

// partName reads a part's Content-Disposition. The library's own reading would cut the directories off a filename.
func partName(disposition string) (field, filename string, err error) {
	kind, parameters, err := mime.ParseMediaType(disposition)
	if err != nil || kind != "form-data" {
		return "", "", core.Wrap(core.CodeInvalid, err, "a part of the form has no Content-Disposition that can be read")
	}
	// What would end the quoted name or the line, clients write so, as browsers do.
	filename = strings.NewReplacer("%22", `"`, "%0D", "\r", "%0A", "\n").Replace(parameters["filename"])
	return parameters["name"], filename, nil
}

// write writes one file and gives it to the user, with missing directories above it.
func (f files) write(ctx context.Context, name string, content io.Reader) (written, error) {
	if len(name) > maxPath {
		return written{}, core.Invalid("path", "a path has at most %d bytes", maxPath)
	}
	place, err := f.resolve(ctx, name)
	if core.IsCode(err, core.CodeUnsupported) && f.user == "" && strings.HasPrefix(name, "/") {
		place, err = core.Place{Path: name}, nil // an old guest agent, and nothing that it would have to know
	}
	if err != nil {
		return written{}, err
	}
	info, err := f.guest.WriteFile(ctx, place.Path, core.WriteOptions{User: place.User, Parents: true}, content)
	var e *core.Error
	if errors.As(err, &e) && e.Code == core.CodeExhausted && e.Field == "path" {
		err = &core.Error{Code: e.Code, Field: e.Field, Message: "not enough disk space: " + e.Message, Err: e.Err}
	}
	if err != nil {
		return written{}, err
	}
	return written{Path: text(place.Path), Name: text(info.Name), Type: string(core.FileRegular)}, nil
}
