package httpapi

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

const (
	// reprDigest is the header with the digest of a whole file, uploadOffset the one that says where the next part begins.
	reprDigest   = "Repr-Digest"
	uploadOffset = "Upload-Offset"
)

// part reads what a request says of a file that comes in parts; nil if it doesn't.
func (r *request) part(o core.WriteOptions) (*core.PartOptions, error) {
	digest := r.Header.Get(reprDigest)
	if !r.query.Has("partial") {
		for _, name := range []string{"offset", "more"} {
			if r.query.Has(name) {
				return nil, core.Invalid(name, "%s is for a file that comes in parts: give partial too", name)
			}
		}
		if digest != "" {
			return nil, core.Invalid(reprDigest, "Repr-Digest is for a file that comes in parts; the digest of this body is Content-Digest")
		}
		return nil, nil
	}
	part := &core.PartOptions{WriteOptions: o, Partial: r.query.Get("partial"), Offset: r.number("offset", 0), More: r.flag("more")}
	switch _, later := r.Trailer[digestHeader]; {
	case o.Append:
		return nil, core.Invalid("append", "a file that comes in parts replaces what is there: add to the end with one call")
	case later || r.Header.Get(digestHeader) != "":
		return nil, &core.Error{Code: core.CodeUnsupported, Field: digestHeader, Message: "a part has no digest of its own: give the whole file's with the last part, as Repr-Digest"}
	case digest != "" && part.More:
		return nil, core.Invalid(reprDigest, "Repr-Digest goes with the last part")
	case digest != "":
		sum, ok := parseDigest(digest)
		if !ok {
			return nil, core.Invalid(reprDigest, "Repr-Digest is sha-256=:<base64>:, as RFC 9530 has it")
		}
		part.SHA256 = sum
	}
	return part, nil
}

// takePart adds the request's body to a partial file and answers with that, or with the file that it has become.
func (a fileAPI) takePart(w http.ResponseWriter, r *request, guest core.Guest, path string, o core.PartOptions) error {
	body := httpserve.NewUpload(w, r.Request, a.options.Stall)
	p, err := guest.WritePart(r.Context(), path, o, body)
	if body.Err != nil {
		return core.Wrap(core.CodeInvalid, errors.Join(body.Err, err), "the body was cut off: what has come is kept")
	}
	if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeConflict && e.Field == "offset" {
		offset := int64(0)
		if now, err := guest.PartialFile(r.Context(), o.Partial); err == nil {
			offset = now.Size
		} else if !core.IsCode(err, core.CodeNotFound) {
			return err
		}
		w.Header().Set(uploadOffset, strconv.FormatInt(offset, 10))
	}
	if err != nil {
		return err
	}
	if !p.Whole {
		return writeJSON(w, http.StatusAccepted, encodePartial(p))
	}
	w.Header().Set(reprDigest, "sha-256=:"+base64.StdEncoding.EncodeToString(p.SHA256)+":")
	return writeJSON(w, http.StatusOK, encodeFile(p.File))
}

// getPartialFile tells how far a file has come.
func (a fileAPI) getPartialFile(w http.ResponseWriter, r *request) error {
	guest, err := a.guest(r)
	if err != nil {
		return err
	}
	p, err := guest.PartialFile(r.Context(), r.PathValue("partial"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodePartial(p))
}

// deletePartialFile throws away what has come of a file.
func (a fileAPI) deletePartialFile(w http.ResponseWriter, r *request) error {
	guest, err := a.guest(r)
	if err != nil {
		return err
	}
	return noContent(w, guest.DropPartial(r.Context(), r.PathValue("partial")))
}

func encodePartial(p core.PartialFile) api.PartialFile {
	out := api.PartialFile{Size: p.Size, ExpiresAt: p.ExpiresAt}
	out.Path, out.PathRaw = api.Text([]byte(p.Path))
	if p.Whole {
		out.File = encodeFile(p.File)
	}
	return out
}
