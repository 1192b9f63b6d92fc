package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"shoal/internal/core"
	"shoal/internal/image/jail"
	"shoal/internal/image/layer"
	"shoal/internal/outbound"
)

// Bounds that are no setting.
const (
	// maxManifest bounds a manifest and an index, which is what registries are to take; maxConfig an image's config.
	maxManifest = 4 << 20
	maxConfig   = 4 << 20
	maxLayers   = 256
	// maxNesting is how many indexes may lie in one another.
	maxNesting = 3
	// maxTime bounds one import, whatever a slow registry does.
	maxTime = 2 * time.Hour
	// DefaultEntries is how many files, links and directories all layers of an image may have together.
	DefaultEntries = 2_000_000
	// DefaultMinFree is the space that stays free for sandboxes where the tree is made.
	DefaultMinFree = 512 << 20
)

// Config says what to import, and where.
type Config struct {
	Source core.ImageSource
	// Layout is a directory in the OCI layout, in place of Source's Ref and Archive. It is trusted to be what it is until the end; no
	// caller's word may name it.
	Layout string
	// Dir is an empty directory of any filesystem that keeps owners, modes and xattrs. It may be mounted nosuid and nodev.
	Dir string
	// OwnerUID is the host uid and gid that the tree's uid 0 becomes; so does every other id up to 65535, counted from it.
	OwnerUID int
	// WorkDir is where an archive that is compressed is unpacked to, in a file without a name.
	WorkDir string
	// Guard dials registries.
	Guard *outbound.Guard
	// PlainHTTP are the registries, as HOST or HOST:PORT, that are spoken to without TLS; all others are not.
	PlainHTTP []string
	// Limits bound the image. Bytes also bounds an archive, and the sum of what is downloaded.
	Limits layer.Limits
	// Progress hears of each step; nil if nobody listens. It must be quick.
	Progress func(core.OperationProgress)
	Logger   *slog.Logger
	// pace is how fast a registry is asked again; zero is retryPace.
	pace time.Duration
}

// Result describes a tree that was made.
type Result struct {
	// Source names the image by digest: "registry/repository@sha256:…", or "archive sha256:…".
	Source string
	Config core.TemplateConfig
}

// image is one that was found, with its manifest and config read and checked.
type image struct {
	// source is what Result.Source becomes.
	source string
	config *v1.ConfigFile
	layers []layerSource
}

// layerSource is one layer.
type layerSource struct {
	diffID v1.Hash
	// digest is of the bytes that open returns, which are size; it is empty where only their diff id is known.
	digest v1.Hash
	size   int64
	open   func(ctx context.Context) (io.ReadCloser, error)
}

// Import fills an empty directory with the tree of an image. On any error, and when ctx ends first, the directory is to be thrown
// away: no process and no mount is left. It needs root, and a program whose main calls RunFace.
func Import(ctx context.Context, cfg Config) (Result, error) {
	if cfg.Progress == nil {
		cfg.Progress = func(core.OperationProgress) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.pace == 0 {
		cfg.pace = retryPace
	}
	if cfg.OwnerUID < jail.IDs {
		return Result{}, core.Invalid("owner_uid", "a tree can't belong to ids of the host's own users: %d is below %d", cfg.OwnerUID, jail.IDs)
	}
	if os.Geteuid() != 0 {
		return Result{}, core.Errorf(core.CodeUnsupported, "importing an image needs root")
	}
	want, err := wantedPlatform(cfg.Source.Platform)
	if err != nil {
		return Result{}, err
	}
	if err := prepareDir(cfg); err != nil {
		return Result{}, core.Wrap(core.CodeInternal, err, "the template's directory can't be prepared")
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	res, err := importFrom(ctx, cfg, want)
	return res, wrapContext(ctx, err)
}

// importFrom opens the source, and imports from it.
func importFrom(ctx context.Context, cfg Config, want v1.Platform) (Result, error) {
	begun := time.Now()
	cfg.Progress(core.OperationProgress{Step: "reading the image's manifest"})
	img, closeSource, err := openSource(ctx, cfg, want)
	if err != nil {
		return Result{}, err
	}
	defer closeSource()
	config, err := templateConfig(img.config)
	if err != nil {
		return Result{}, err
	}
	written, err := unpack(ctx, cfg, img, config.Workdir)
	if err != nil {
		return Result{}, err
	}
	cfg.Logger.Info("image imported", slog.String("source", img.source), slog.Int("layers", len(img.layers)),
		slog.Int64("bytes", written), slog.Int64("dur_ms", time.Since(begun).Milliseconds()))
	return Result{Source: img.source, Config: config}, nil
}

// openSource finds the image in whichever source is named.
func openSource(ctx context.Context, cfg Config, want v1.Platform) (img image, closeSource func(), err error) {
	src := cfg.Source
	switch {
	case cfg.Layout != "" && src.Ref == "" && src.Archive == "":
		return openLayout(ctx, cfg, want)
	case src.Ref != "" && src.Archive == "" && cfg.Layout == "":
		return openRegistry(ctx, cfg, want)
	case src.Archive != "" && src.Ref == "" && cfg.Layout == "":
		return openArchive(ctx, cfg, want)
	}
	return image{}, nil, core.Invalid("ref", "name an image in a registry or upload an archive: one of them")
}

// prepareDir hands the tree's directory to the jail's root.
func prepareDir(cfg Config) error {
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil {
		return fmt.Errorf("look into the directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("look into the directory: %s is not empty", cfg.Dir)
	}
	if err := errors.Join(os.Chown(cfg.Dir, cfg.OwnerUID, cfg.OwnerUID), os.Chmod(cfg.Dir, 0o755)); err != nil { // a root directory; its parents guard it.
		return fmt.Errorf("hand over the directory: %w", err)
	}
	return nil
}

// wrapContext returns canceled or timeout if ctx has ended, for then whatever else went wrong was its doing; an error that has no words
// of its own gets some.
func wrapContext(ctx context.Context, err error) error {
	var own *core.Error
	switch cause := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(cause, context.DeadlineExceeded):
		return core.Wrap(core.CodeTimeout, err, "importing the image took too long")
	case cause != nil:
		return core.Wrap(core.CodeCanceled, err, "importing the image was canceled")
	case errors.As(err, &own):
		return err
	}
	return core.Wrap(core.CodeInternal, err, "the image could not be imported")
}

// hostPlatform is what sandboxes on this machine run.
func hostPlatform() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }
