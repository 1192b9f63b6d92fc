package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"strings"

	"shoal/internal/core"
)

// saved is one image in manifest.json of `docker save`.
type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// fromDockerSave finds the image of what `docker save` wrote. Its layers are known by diff id alone, which the jail checks.
func fromDockerSave(f files, raw []byte) (image, error) {
	var list []saved
	if err := json.Unmarshal(raw, &list); err != nil {
		return image{}, core.Wrap(core.CodeInvalid, err, "manifest.json of the archive can't be read")
	}
	if len(list) != 1 {
		var tags []string
		for _, s := range list {
			if len(tags) < 10 {
				tags = append(tags, clip(strings.Join(s.RepoTags, " "), 100))
			}
		}
		return image{}, core.Invalid("archive", "there are %d images in the archive (%s): save one of them", len(list), strings.Join(tags, ", "))
	}
	m := list[0]
	raw, err := readFile(f, cleanMember(m.Config), maxConfig)
	if err != nil {
		return image{}, missing(m.Config, err)
	}
	c, err := parseConfig(raw, len(m.Layers))
	if err != nil {
		return image{}, err
	}
	sum := sha256.Sum256(raw)
	img := image{config: c, source: "archive sha256:" + hex.EncodeToString(sum[:])}
	for i, name := range m.Layers {
		r, size, err := f.open(cleanMember(name))
		if err != nil {
			return image{}, missing(name, err)
		}
		_ = r.Close()
		img.layers = append(img.layers, layerSource{
			diffID: c.RootFS.DiffIDs[i], size: size,
			open: func(context.Context) (io.ReadCloser, error) {
				r, _, err := f.open(cleanMember(name))
				return r, err
			},
		})
	}
	return img, nil
}

// cleanMember is a name as the index has it.
func cleanMember(name string) string { return strings.TrimPrefix(strings.TrimPrefix(name, "./"), "/") }

func missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &core.Error{Code: core.CodeInvalid, Field: "archive", Message: "the archive is not whole: it lacks " + clip(name, 100), Err: err}
	}
	return err
}
