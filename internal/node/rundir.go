package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"shoal/internal/core"
)

// installAgent keeps the guest agent's binary under its digest, so that a sandbox started by an older server keeps the one
// that it runs. It returns the binary's path.
func installAgent(dir string, binary []byte) (string, error) {
	sum := sha256.Sum256(binary)
	dir = filepath.Join(dir, hex.EncodeToString(sum[:]))
	path := filepath.Join(dir, "agent")
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(binary)) {
		return path, nil
	}
	if err := makeTraversable(filepath.Dir(dir)); err != nil {
		return "", err
	}
	if err := makeTraversable(dir); err != nil {
		return "", err
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

func (n *Node) runDir(id core.SandboxID) string { return filepath.Join(n.cfg.Dir, "run", string(id)) }

// makeRunDir makes the directory that the sandbox sees read-only at /run/shoal. A hard link keeps the agent's binary for as
// long as the sandbox lives.
func (n *Node) makeRunDir(id core.SandboxID) (string, error) {
	dir := n.runDir(id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	err := os.Link(n.agentPath, filepath.Join(dir, "agent"))
	if err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("link guest agent: %w", err)
	}
	return dir, nil
}

func (n *Node) removeRunDir(id core.SandboxID) error {
	if err := os.RemoveAll(n.runDir(id)); err != nil {
		return fmt.Errorf("remove run directory: %w", err)
	}
	return nil
}
