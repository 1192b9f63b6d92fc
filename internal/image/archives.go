package image

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"shoal/internal/core"
)

// prepareArchives makes the cache of downloaded packages and hands it to the jail's root.
func prepareArchives(cfg BootstrapConfig) error {
	archives := filepath.Join(cfg.WorkDir, archivesName)
	if err := os.MkdirAll(archives, 0o700); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	// The range may have changed since the cache was filled.
	root, err := os.OpenRoot(archives)
	if err != nil {
		return fmt.Errorf("open the cache: %w", err)
	}
	defer func() { _ = root.Close() }()
	err = fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(path, cfg.OwnerUID, cfg.OwnerUID)
	})
	if err != nil {
		return fmt.Errorf("hand over the cache: %w", err)
	}
	if err := os.Chmod(archives, 0o755); err != nil { // _apt reads it; WorkDir keeps others out.
		return fmt.Errorf("hand over the cache: %w", err)
	}
	return nil
}

// clearArchives removes every package from the cache.
func clearArchives(dir string) error {
	return removeArchives(dir, func(string, string) bool { return true })
}

// pruneArchives removes packages from the cache of which the tree that was just made has another version: nobody will ask
// for them again.
func pruneArchives(dir string, installed []core.Package) error {
	versions := make(map[string]string, len(installed))
	for _, p := range installed {
		versions[p.Name] = p.Version
	}
	return removeArchives(dir, func(name, version string) bool {
		current, ok := versions[name]
		return ok && current != version
	})
}

// removeArchives removes the packages that match, by the name_version_arch.deb of their files.
func removeArchives(dir string, match func(name, version string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the cache: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		parts := strings.Split(entry.Name(), "_")
		if len(parts) != 3 || !strings.HasSuffix(entry.Name(), ".deb") {
			continue
		}
		// apt writes the colon of an epoch as %3a.
		version, err := url.PathUnescape(parts[1])
		if err == nil && match(parts[0], version) {
			errs = append(errs, os.Remove(filepath.Join(dir, entry.Name())))
		}
	}
	return errors.Join(errs...)
}
