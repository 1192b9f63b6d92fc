package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// purgeEvery is how often trees that were set aside are looked at.
const purgeEvery = time.Hour

// watchExits passes on the ends of sandboxes that nobody asked for, and drops what was set aside for long enough.
func (n *Node) watchExits() {
	defer n.wg.Done()
	exits := n.cfg.Runtime.Exits()
	for {
		select {
		case <-n.done:
			return
		case e, ok := <-exits:
			if !ok {
				return
			}
			n.exited(e)
		case <-n.cfg.Clock.After(purgeEvery):
			if err := n.purge(context.Background()); err != nil {
				n.log.Warn("purge of trees set aside", "err", err)
			}
		}
	}
}

// exited makes a dead machine unreachable, and removes what is left of it but the tree.
func (n *Node) exited(e runtime.Exit) {
	if !n.markEnded(e) {
		n.log.Debug("a sandbox ended during its create or delete", "sandbox_id", string(e.ID), "reason", e.Reason)
		return // they clean up themselves
	}
	ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
	defer cancel()
	if err := n.end(ctx, e.ID); err != nil {
		n.log.Warn("clean up after a sandbox that ended", "sandbox_id", string(e.ID), "err", err)
	}
	n.admission.release(e.ID) // the dead hold no memory
	select {
	case n.exits <- core.NodeExit{Sandbox: e.ID, Incarnation: e.Incarnation, Reason: e.Reason}:
	case <-n.done:
	}
}

func (n *Node) listRunDirs() ([]core.SandboxID, error) {
	names, err := os.ReadDir(filepath.Join(n.cfg.Dir, "run"))
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
