package oci

import (
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"shoal/internal/core"
)

// wantedPlatform reads a platform that a caller named. Sandboxes run programs of the host's own architecture only.
func wantedPlatform(text string) (v1.Platform, error) {
	host := hostPlatform()
	if text == "" {
		return host, nil
	}
	parts := strings.Split(text, "/")
	if len(text) > 100 || len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return v1.Platform{}, core.Invalid("platform", "a platform is written os/architecture or os/architecture/variant, such as %s", host.String())
	}
	want := v1.Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		want.Variant = parts[2]
	}
	if want.OS != host.OS || want.Architecture != host.Architecture {
		return want, &core.Error{
			Code: core.CodeUnsupported, Field: "platform",
			Message: "sandboxes on this machine run " + host.String() + ", and not " + want.String(),
		}
	}
	return want, nil
}

// unknown is the platform of entries in an index that are no images: attestations.
const unknown = "unknown"

// pick chooses the image of an index that is for a platform.
func pick(index *v1.IndexManifest, want v1.Platform) (v1.Descriptor, error) {
	var fit, without []v1.Descriptor
	var there []string
	for _, d := range index.Manifests {
		switch {
		case !d.MediaType.IsImage() && !d.MediaType.IsIndex():
			continue
		case d.Platform == nil || d.Platform.OS == "" && d.Platform.Architecture == "":
			without = append(without, d)
		case d.Platform.OS == unknown || d.Annotations["vnd.docker.reference.type"] != "":
			continue
		case d.Platform.OS == want.OS && d.Platform.Architecture == want.Architecture && (want.Variant == "" || want.Variant == d.Platform.Variant):
			fit = append(fit, d)
		default:
			if name := clip(d.Platform.String(), 60); len(there) < 30 && !slices.Contains(there, name) {
				there = append(there, name)
			}
		}
	}
	switch {
	case len(fit) > 0:
		// Two for one platform are variants, or of different versions of an OS; the first is the publisher's choice.
		return fit[0], nil
	case len(without) == 1:
		return without[0], nil // Its config says what it is for.
	case len(without) > 1:
		return v1.Descriptor{}, core.Errorf(core.CodeInvalid, "there are %d images in it, and nothing says which is meant: save one of them", len(without))
	case len(there) == 0:
		return v1.Descriptor{}, core.Errorf(core.CodeInvalid, "there is no image in it")
	}
	slices.Sort(there)
	return v1.Descriptor{}, &core.Error{
		Code: core.CodeUnsupported, Field: "platform",
		Message: "the image is not there for " + want.String() + ": it is for " + strings.Join(there, ", "),
	}
}

// checkPlatform holds a config against what can run here.
func checkPlatform(c *v1.ConfigFile) error {
	host := hostPlatform()
	// An image without a word about it is made by hand, for the machine of who made it.
	if c.OS != "" && c.OS != host.OS || c.Architecture != "" && c.Architecture != host.Architecture {
		return &core.Error{
			Code: core.CodeUnsupported, Field: "platform",
			Message: "the image is for " + clip(c.OS+"/"+c.Architecture, 60) + ", and sandboxes on this machine run " + host.String(),
		}
	}
	return nil
}

// clip shortens hostile text for a message.
func clip(text string, most int) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
