package httpapi

import (
	"encoding/hex"
	"net/http"
	"strconv"

	"shoal/api"
	"shoal/internal/core"
)

// changeFile changes what there is to know of a file.
func (a fileAPI) changeFile(w http.ResponseWriter, r *request) error {
	path, err := r.filePath()
	if err != nil {
		return err
	}
	var body api.ChangeFileRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	change, err := fileChange(body)
	if err != nil {
		return err
	}
	guest, err := a.guest(r)
	if err != nil {
		return err
	}
	info, err := guest.Change(r.Context(), path, change)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeFile(info))
}

// fileChange reads a change from a body. What the guest agent has to check, it checks.
func fileChange(body api.ChangeFileRequest) (core.FileChange, error) {
	change := core.FileChange{
		Size: body.Size, Owner: body.Owner, Group: body.Group, ModifiedAt: body.ModifiedAt, AccessedAt: body.AccessedAt,
		Recursive: body.Recursive, NoFollow: body.NoFollow,
	}
	if body.Mode != "" {
		n, err := strconv.ParseUint(body.Mode, 8, 32)
		if err != nil || n > modeBits || len(body.Mode) > 5 {
			return change, core.Invalid("mode", "mode is permission bits in octal, such as 0644")
		}
		mode := uint32(n)
		change.Mode = &mode
	}
	if len(body.Xattrs) > core.MaxXattrChanges {
		return change, core.Invalid("xattrs", "at most %d attributes can be changed together", core.MaxXattrChanges)
	}
	for _, x := range body.Xattrs {
		if x.Name != "" && len(x.NameRaw) > 0 {
			return change, core.Invalid("xattrs", "give either name or name_raw")
		}
		if x.Remove && len(x.Value) > 0 {
			return change, core.Invalid("xattrs", "an attribute that is removed has no value")
		}
		change.Xattrs = append(change.Xattrs, core.XattrChange{Name: string(api.Join(x.Name, x.NameRaw)), Value: x.Value, Remove: x.Remove})
	}
	return change, nil
}

// linkFile makes a symbolic or hard link.
func (a fileAPI) linkFile(w http.ResponseWriter, r *request) error {
	var body api.LinkFileRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	path, err := bodyPath("path", body.Path, body.PathRaw)
	if err != nil {
		return err
	}
	target := string(api.Join(body.Target, body.TargetRaw))
	switch {
	case body.Target != "" && len(body.TargetRaw) > 0:
		return core.Invalid("target_raw", "give either target or target_raw")
	case target == "":
		return core.Invalid("target", "target is needed")
	case body.Hard:
		if target, err = checkPath("target", target); err != nil {
			return err
		}
	}
	guest, err := a.guest(r)
	if err != nil {
		return err
	}
	info, err := guest.Link(r.Context(), path, target, core.LinkOptions{
		Hard: body.Hard, User: body.User, Parents: body.Parents, Replace: body.Replace,
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeFile(info))
}

// checksumFile reads a file where it is.
func (a fileAPI) checksumFile(w http.ResponseWriter, r *request) error {
	path, err := r.filePath()
	if err != nil {
		return err
	}
	reader, err := a.reader(r)
	if err != nil {
		return err
	}
	algorithm := core.ChecksumSHA256
	if name := r.query.Get("algorithm"); name != "" {
		algorithm = core.ChecksumAlgorithm(name)
	}
	sum, err := reader.Checksum(r.Context(), path, algorithm)
	if err != nil {
		return err
	}
	if tag := etag(sum.File); tag != "" {
		w.Header().Set("ETag", tag)
	}
	return writeJSON(w, http.StatusOK, api.FileChecksum{
		Algorithm: string(algorithm), Digest: hex.EncodeToString(sum.Digest), Bytes: sum.Bytes, File: encodeFile(sum.File),
	})
}
