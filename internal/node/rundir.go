package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"shoal/internal/core"
)

// installAgent keeps the guest agent's binary under its digest and removes those of other versions: a sandbox that an older
// server started keeps the one that it runs by a link of its own. It returns the binary's path.
func installAgent(root string, binary []byte) (string, error) {
	sum := sha256.Sum256(binary)
	name := hex.EncodeToString(sum[:])
	dir := filepath.Join(root, name)
	path := filepath.Join(dir, "agent")
	if err := errors.Join(makeTraversable(root), makeTraversable(dir)); err != nil {
		return "", err
	}
	if err := removeOthers(root, name); err != nil {
		return "", err
	}
	// The content is compared: after a power loss the name may stand for a file that was never written.
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, binary) {
		return path, nil
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, binary, 0o755); err != nil {
		return "", fmt.Errorf("install guest agent: %w", err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil { // the umask may have taken bits away
		return "", fmt.Errorf("install guest agent: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return "", fmt.Errorf("install guest agent: %w", err)
	}
	return path, nil
}

// removeOthers removes everything below root but one name.
func removeOthers(root, keep string) error {
	names, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("list guest agents: %w", err)
	}
	for _, d := range names {
		if d.Name() == keep {
			continue
		}
		if err := os.RemoveAll(filepath.Join(root, d.Name())); err != nil {
			return fmt.Errorf("remove an older guest agent: %w", err)
		}
	}
	return nil
}

// runDirs makes the directories that sandboxes see read-only at /run/shoal.
type runDirs struct {
	dir string
	// agent is the guest agent's binary.
	agent string
}

func (r runDirs) path(id core.SandboxID) string { return filepath.Join(r.dir, string(id)) }

// make makes a sandbox's directory, anew for each start. A hard link keeps the agent's binary for as long as the sandbox lives.
func (r runDirs) make(id core.SandboxID) (string, error) {
	if err := r.remove(id); err != nil {
		return "", err
	}
	dir := r.path(id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	if err := os.Link(r.agent, filepath.Join(dir, "agent")); err != nil {
		return "", fmt.Errorf("link guest agent: %w", err)
	}
	return dir, nil
}

func (r runDirs) remove(id core.SandboxID) error {
	if err := os.RemoveAll(r.path(id)); err != nil {
		return fmt.Errorf("remove run directory: %w", err)
	}
	return nil
}

func (r runDirs) list() ([]core.SandboxID, error) {
	names, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, fmt.Errorf("list run directories: %w", err)
	}
	var out []core.SandboxID
	for _, d := range names {
		if core.IsID(d.Name()) {
			out = append(out, core.SandboxID(d.Name()))
		}
	}
	return out, nil
}
