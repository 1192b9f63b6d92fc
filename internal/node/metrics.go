package node

import (
	"context"
	"fmt"

	"shoal/internal/core"
)

// Metrics reports what a running sandbox uses. All of it is seen from outside: the guest agent may be busy, or lie. What the
// sandbox itself would have to answer for is absent while it does not.
func (n *Node) Metrics(ctx context.Context, id core.SandboxID) (core.SandboxMetrics, error) {
	if _, err := n.machines.get(id); err != nil {
		return core.SandboxMetrics{}, err
	}
	stats, err := n.cfg.Runtime.Stats(ctx, id)
	if err != nil {
		return core.SandboxMetrics{}, fmt.Errorf("read the runtime's figures: %w", err)
	}
	m := core.SandboxMetrics{
		At: stats.At, CPUSeconds: stats.CPUSeconds, MemoryBytes: stats.MemoryBytes,
		MemoryLimitBytes: stats.MemoryLimitBytes, Processes: stats.Processes, PSSBytes: stats.PSSBytes, DiskBytes: -1,
	}
	usage, err := n.cfg.Disk.Usage(ctx, sandboxTree(id))
	if err != nil && !core.IsCode(err, core.CodeUnsupported) {
		return m, fmt.Errorf("read the disk's figures: %w", err)
	}
	if err == nil {
		m.DiskBytes = usage.WrittenBytes
	}
	return m, nil
}
