package cli_test

import (
	"context"
	"os"
	"path/filepath"

	"shoal/internal/core"
	"shoal/internal/diff"
	"shoal/internal/files/hostfiles"
)

// Diff compares a sandbox's directory with another one's, or with a new sandbox's, which a template and a checkpoint stand for.
func (m *machine) Diff(ctx context.Context, q core.TreeDiffQuery) (core.TreeDiff, error) {
	was := filepath.Join(m.dir, "fresh")
	for _, dir := range []string{"home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(was, dir), 0o755); err != nil {
			return core.TreeDiff{}, err
		}
	}
	if q.Against.Kind == core.TreeSandbox {
		was = filepath.Join(m.dir, q.Against.ID)
	}
	owners := hostfiles.Owners{First: uint32(os.Geteuid()), Count: 65536} // whoever runs the test is root inside
	return diff.Compare(ctx, hostfiles.New(was, owners), hostfiles.New(filepath.Join(m.dir, string(q.Sandbox)), owners), q)
}

// Processes tells of one process and one listener, whatever runs.
func (g *guest) Processes(context.Context) (core.ProcessList, error) {
	return core.ProcessList{
		Processes: []core.Process{{PID: 7, Parent: 1, User: "root", Command: "python3 -m http.server 8000", StartedAt: g.began}},
		Listeners: []core.Listener{{Proto: "tcp", Address: "0.0.0.0", Port: 8000, PID: 7}},
	}, nil
}
