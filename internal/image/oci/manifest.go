package oci

import (
	"bytes"
	"context"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"shoal/internal/core"
)

// store is where manifests, configs and layers are found by digest: a registry's repository, or an archive.
type store interface {
	// manifest returns a manifest or index, checked against its digest.
	manifest(ctx context.Context, d v1.Descriptor) ([]byte, error)
	// small returns a whole blob of a size that was checked, checked against its digest.
	small(ctx context.Context, d v1.Descriptor) ([]byte, error)
	// blob opens a blob; whoever reads it checks it.
	blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
}

// resolve goes from a manifest or index to the image for a platform, and returns the digest of its manifest.
func resolve(ctx context.Context, s store, top v1.Descriptor, raw []byte, want v1.Platform) (image, v1.Hash, error) {
	for nesting := 0; top.MediaType.IsIndex(); nesting++ {
		if nesting == maxNesting {
			return image{}, v1.Hash{}, core.Errorf(core.CodeInvalid, "the image's indexes lie in one another more than %d deep", maxNesting)
		}
		index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
		if err != nil {
			return image{}, v1.Hash{}, core.Wrap(core.CodeInvalid, err, "the image's index can't be read")
		}
		if top, err = pick(index, want); err != nil {
			return image{}, v1.Hash{}, err
		}
		if err := checkDescriptor(top, maxManifest, "manifest"); err != nil {
			return image{}, v1.Hash{}, err
		}
		if raw, err = s.manifest(ctx, top); err != nil {
			return image{}, v1.Hash{}, err
		}
	}
	if !top.MediaType.IsImage() {
		return image{}, v1.Hash{}, core.Errorf(core.CodeUnsupported, "its manifest is of the type %q, which is no container image that can be imported", clip(string(top.MediaType), 100))
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return image{}, v1.Hash{}, core.Wrap(core.CodeInvalid, err, "the image's manifest can't be read")
	}
	img, err := fromManifest(ctx, s, m)
	return img, top.Digest, err
}

// fromManifest reads the config, and makes the list of layers.
func fromManifest(ctx context.Context, s store, m *v1.Manifest) (image, error) {
	switch m.Config.MediaType {
	case types.DockerConfigJSON, types.OCIConfigJSON, "":
	default:
		return image{}, core.Errorf(core.CodeUnsupported, "it is no container image: its config is of the type %q", clip(string(m.Config.MediaType), 100))
	}
	if err := checkDescriptor(m.Config, maxConfig, "config"); err != nil {
		return image{}, err
	}
	raw, err := s.small(ctx, m.Config)
	if err != nil {
		return image{}, err
	}
	c, err := parseConfig(raw, len(m.Layers))
	if err != nil {
		return image{}, err
	}
	img := image{config: c}
	for i, d := range m.Layers {
		if d.MediaType != dockerZstd && !d.MediaType.IsLayer() || !d.MediaType.IsDistributable() {
			return image{}, core.Errorf(core.CodeUnsupported, "a layer is of the type %q, which can't be imported", clip(string(d.MediaType), 100))
		}
		if err := checkDescriptor(d, 1<<50, "layer"); err != nil {
			return image{}, err
		}
		img.layers = append(img.layers, layerSource{
			diffID: c.RootFS.DiffIDs[i], digest: d.Digest, size: d.Size,
			open: func(ctx context.Context) (io.ReadCloser, error) { return s.blob(ctx, d) },
		})
	}
	return img, nil
}

// parseConfig reads a config that is to have as many diff ids as there are layers.
func parseConfig(raw []byte, layers int) (*v1.ConfigFile, error) {
	c, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, core.Wrap(core.CodeInvalid, err, "the image's config can't be read")
	}
	if err := checkPlatform(c); err != nil {
		return nil, err
	}
	switch {
	case layers > maxLayers:
		return nil, core.Errorf(core.CodeInvalid, "the image has %d layers: at most %d are taken", layers, maxLayers)
	case len(c.RootFS.DiffIDs) != layers:
		return nil, core.Errorf(core.CodeInvalid, "the image has %d layers, and its config knows %d", layers, len(c.RootFS.DiffIDs))
	}
	for _, id := range c.RootFS.DiffIDs {
		if id.Algorithm != sha256Name {
			return nil, core.Errorf(core.CodeUnsupported, "a layer's content is named by %q: only sha256 is known", clip(id.Algorithm, 30))
		}
	}
	return c, nil
}

const sha256Name = "sha256"

// dockerZstd is what some builders call a layer of Docker's that is compressed with zstd.
const dockerZstd types.MediaType = "application/vnd.docker.image.rootfs.diff.tar.zstd"

// checkDescriptor bounds what is fetched by a descriptor.
func checkDescriptor(d v1.Descriptor, most int64, what string) error {
	switch {
	case d.Digest.Algorithm != sha256Name || len(d.Digest.Hex) != 64:
		return core.Errorf(core.CodeUnsupported, "the image's %s is named by %q: only sha256 is known", what, clip(d.Digest.Algorithm, 30))
	case d.Size < 0 || d.Size > most:
		return core.Errorf(core.CodeInvalid, "the image's %s has a size of %d bytes: at most %d are taken", what, d.Size, most)
	}
	return nil
}
