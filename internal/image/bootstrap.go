package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"shoal/internal/core"
	"shoal/internal/image/jail"
)

// BootstrapConfig says what tree to make, and where.
type BootstrapConfig struct {
	Recipe Recipe
	// Dir is an empty directory of any filesystem that keeps owners, modes and xattrs. It may be mounted nosuid and nodev.
	Dir string
	// OwnerUID is the host uid and gid that the tree's uid 0 becomes; so does every other id up to 65535, counted from it.
	OwnerUID int
	// WorkDir keeps downloaded packages from one bootstrap to the next, in "archives". Only root may be able to write there.
	WorkDir string
	// Mirror replaces the host's apt sources: an archive that has all packages, updates included. Empty means the host's.
	Mirror string
	// Suite is the codename of a release of the host's distribution; empty means the host's own release. Another one is
	// fetched from Mirror or else from the distribution's public mirrors.
	Suite string
	// Progress hears of each step; nil if nobody listens. It is called from other goroutines, one at a time, and must be quick.
	Progress func(step string, percent int)
	Logger   *slog.Logger
}

// Result describes a tree that was made.
type Result struct {
	// Source says how it was made, such as "debian bookworm, mmdebstrap".
	Source   string
	Packages []core.Package
	Config   core.TemplateConfig
}

// Bootstrap fills an empty directory with a root tree. It needs root, apt, and mmdebstrap or debootstrap; where one is missing
// the error is unsupported and names what to install. On any error, and when ctx ends first, the directory is to be thrown
// away: no process and no mount is left.
func Bootstrap(ctx context.Context, cfg BootstrapConfig) (Result, error) {
	r, err := lookup(cfg.Recipe)
	if err != nil {
		return Result{}, err
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string, int) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.OwnerUID < jail.IDs {
		// Maintainer scripts would run as the host's root or as one of its users.
		return Result{}, core.Invalid("owner_uid", "a tree can't belong to ids of the host's own users: %d is below %d", cfg.OwnerUID, jail.IDs)
	}
	if os.Geteuid() != 0 {
		return Result{}, core.Errorf(core.CodeUnsupported, "making a template needs root")
	}
	t, path, err := findTool(exec.LookPath)
	if err != nil {
		return Result{}, err
	}
	cfg.Progress("reading apt's configuration", 0)
	h, err := readHost(ctx, "/")
	if err != nil {
		return Result{}, wrapContext(ctx, core.Wrap(core.CodeInternal, err, "apt's configuration can't be read"))
	}
	j, err := newJob(cfg, r, h)
	if err != nil {
		return Result{}, err
	}
	unlock, err := lockWorkDir(ctx, cfg.WorkDir, func() { cfg.Progress("waiting for another template to be made", 0) })
	if err != nil {
		return Result{}, wrapContext(ctx, core.Wrap(core.CodeInternal, err, "the cache of packages can't be used"))
	}
	defer unlock()
	if err := prepareDirs(cfg); err != nil {
		return Result{}, core.Wrap(core.CodeInternal, err, "the template's directory can't be prepared")
	}
	begun := time.Now()
	archives := filepath.Join(cfg.WorkDir, archivesName)
	if err := runTool(ctx, cfg, t, path, j, h.auth); err != nil {
		if ctx.Err() == nil && core.IsCode(err, core.CodeInternal) {
			// It may be a package that a power cut left damaged in the cache, which apt would take for good by its size.
			err = errors.Join(err, clearArchives(archives))
		}
		return Result{}, wrapContext(ctx, err)
	}
	cfg.Progress("finishing the tree", 95)
	packages, err := finish(cfg.Dir, cfg.OwnerUID, j)
	if err != nil {
		return Result{}, core.Wrap(core.CodeInternal, err, "the template's tree can't be finished")
	}
	if err := pruneArchives(archives, packages); err != nil {
		cfg.Logger.Warn("old packages stay in the cache", slog.Any("err", err))
	}
	source := fmt.Sprintf("%s %s, %s", j.distribution.id, j.distribution.codename, t)
	cfg.Logger.Info("tree made", slog.String("recipe", string(cfg.Recipe)), slog.String("source", source),
		slog.Int("packages", len(packages)), slog.Int64("dur_ms", time.Since(begun).Milliseconds()))
	cfg.Progress("tree made", 100)
	return Result{Source: source, Packages: packages, Config: r.config}, nil
}

// newJob decides which repositories a tree is made from.
func newJob(cfg BootstrapConfig, r recipe, h host) (job, error) {
	j := job{distribution: h.distribution, arch: h.arch, sources: h.sources, options: h.options, recipe: r}
	if !h.known && (cfg.Mirror == "" || cfg.Suite == "") {
		return job{}, core.Errorf(core.CodeUnsupported,
			"this host is neither Debian nor Ubuntu: name a mirror and a suite, or import an image in its place: `shoal template import NAME REF`")
	}
	if cfg.Suite != "" && cfg.Suite != h.distribution.codename {
		id := h.distribution.id
		if !h.known {
			id = likelyDistribution()
		}
		j.distribution, _ = newDistribution(id, cfg.Suite)
		j.sources = nil
	}
	switch {
	case cfg.Mirror != "":
		j.sources = []source{{URI: cfg.Mirror, Suite: j.distribution.codename, Components: j.distribution.public(h.arch)[0].Components}}
	case len(j.sources) == 0:
		j.sources = j.distribution.public(h.arch)
	}
	for _, s := range j.sources {
		if err := s.check(); err != nil {
			return job{}, core.Wrap(core.CodeInvalid, err, "the mirror or suite for templates is malformed")
		}
	}
	if _, err := os.Stat(j.distribution.keyring); err != nil {
		return job{}, core.Wrap(core.CodeUnsupported, err, "the keys of %s are missing: install %s", j.distribution.id,
			map[string]string{"debian": "debian-archive-keyring", "ubuntu": "ubuntu-keyring"}[j.distribution.id])
	}
	return j, nil
}

// likelyDistribution guesses whose archive a mirror is from the keys that the host has.
func likelyDistribution() string {
	if _, err := os.Stat(debianKeyring); err == nil {
		return "debian"
	}
	return "ubuntu"
}

// prepareDirs hands the tree's directory and the cache of packages to the jail's root.
func prepareDirs(cfg BootstrapConfig) error {
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil {
		return fmt.Errorf("look into the directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("look into the directory: %s is not empty", cfg.Dir)
	}
	if err := os.Chown(cfg.Dir, cfg.OwnerUID, cfg.OwnerUID); err != nil {
		return fmt.Errorf("hand over the directory: %w", err)
	}
	if err := os.Chmod(cfg.Dir, 0o755); err != nil { // a root directory; its parents guard it.
		return fmt.Errorf("hand over the directory: %w", err)
	}
	return prepareArchives(cfg)
}

// runTool runs the tool in the jail.
func runTool(ctx context.Context, cfg BootstrapConfig, t tool, path string, j job, auth []byte) error {
	out := &progress{report: cfg.Progress}
	box := jail.Jail{
		OwnerUID: cfg.OwnerUID,
		Binds:    map[string]string{targetName: cfg.Dir, archivesName: filepath.Join(cfg.WorkDir, archivesName)},
		Files:    map[string][]byte{sourcesName: j.list(), authName: auth},
	}
	argv, env := j.mmdebstrapArgs(path), environmentFor(os.Getenv)
	if t == debootstrap {
		box.Files[scriptName] = []byte(j.debootstrapScript(path))
		env = append(env, j.proxies()...)
		argv = []string{"/bin/sh", filepath.Join(jail.Dir, scriptName)}
	}
	if err := box.Run(ctx, argv, env, out); err != nil {
		return explain(t, err, out.output())
	}
	return nil
}

// wrapContext returns canceled or timeout if ctx has ended, for then whatever else went wrong was its doing, else err.
func wrapContext(ctx context.Context, err error) error {
	switch cause := ctx.Err(); {
	case errors.Is(cause, context.DeadlineExceeded):
		return core.Wrap(core.CodeTimeout, err, "making the template took too long")
	case cause != nil:
		return core.Wrap(core.CodeCanceled, err, "making the template was canceled")
	}
	return err
}
