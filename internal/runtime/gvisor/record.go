package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"shoal/internal/core"
)

// record is what the driver writes down of one sandbox, in StateDir/<id>.json. It is a hint for finding processes and
// files again and is never trusted for whether they live.
type record struct {
	ID          core.SandboxID `json:"id"`
	Incarnation int64          `json:"incarnation"`
	// Container is gVisor's name for this start, fresh each time: a killed sandbox's leftovers can't block a new one.
	Container string `json:"container"`
	// Digest names the binary that sentry and gofer run.
	Digest string `json:"digest"`
	// Boot is the machine's boot id: process ids of another boot mean nothing.
	Boot        string  `json:"boot"`
	Sentry      process `json:"sentry"`
	Gofer       process `json:"gofer"`
	MemoryBytes int64   `json:"memory_bytes"`
	VCPUs       float64 `json:"vcpus"`
	CPUWeight   int     `json:"cpu_weight,omitempty"`
	IOWeight    int     `json:"io_weight,omitempty"`
	Started     bool    `json:"started"`
	// Held says that the guest's tasks are held, or were about to be, or to be let go: see freeze.go.
	Held bool `json:"held,omitempty"`
	// Overdue counts how often the tasks were let go, or were about to be, before all had stopped: each may have left a goroutine.
	Overdue int `json:"overdue,omitempty"`
}

const recordSuffix = ".json"

// recordPath is where the record of a sandbox is.
func recordPath(dir string, id core.SandboxID) string {
	return filepath.Join(dir, string(id)+recordSuffix)
}

// readRecord returns the record of a sandbox. Its id is the file's name, whatever the content says.
func readRecord(dir string, id core.SandboxID) (record, error) {
	text, err := os.ReadFile(recordPath(dir, id))
	if err != nil {
		return record{}, fmt.Errorf("read record: %w", err)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, fmt.Errorf("decode record: %w", err)
	}
	if r.ID != id {
		return record{}, fmt.Errorf("record of %s names %q", id, r.ID)
	}
	return r, nil
}

// writeRecord replaces the record of a sandbox whole. It need not reach the disk: after a power cut no sandbox runs.
func writeRecord(dir string, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	path := recordPath(dir, r.ID)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return errors.Join(fmt.Errorf("write record: %w", err), os.Remove(path+".new"))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("place record: %w", err)
	}
	return nil
}

// sandboxOfFile returns the sandbox that a file in StateDir belongs to: a record, or one of gVisor's own, which begin with
// a container's name, and that begins with the sandbox's id.
func sandboxOfFile(name string) (core.SandboxID, bool) {
	name = strings.TrimPrefix(name, controlSocketPrefix)
	if len(name) < core.IDLength || !core.IsID(name[:core.IDLength]) {
		return "", false
	}
	return core.SandboxID(name[:core.IDLength]), true
}

// filesOf returns the paths in StateDir that belong to a sandbox.
func filesOf(dir string, id core.SandboxID) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list state: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if owner, ok := sandboxOfFile(e.Name()); ok && owner == id {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}
