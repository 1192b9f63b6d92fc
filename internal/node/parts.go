package node

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/failpoint"
	"shoal/internal/network"
)

// parts are a sandbox's tree and network slot. They are made at the same time, and beside what the runtime does first: none of
// it needs the other.
type parts struct {
	cancel context.CancelFunc
	// done is closed when the fields below are final.
	done chan struct{}
	root string
	slot network.Slot
	err  error
}

// beginParts begins to make both. The caller must call end.
func (n *Node) beginParts(ctx context.Context, spec core.NodeSpec, l launch) *parts {
	ctx, cancel := context.WithCancel(ctx)
	p := &parts{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = n.makeParts(ctx, spec, l, p)
	}()
	return p
}

// newTree makes a new sandbox's tree, of a template or a checkpoint.
func (n *Node) newTree(ctx context.Context, d disk.Driver, spec core.NodeSpec) (string, error) {
	opts := disk.CloneOptions{LimitBytes: spec.Resources.DiskBytes}
	if from := spec.Source.Checkpoint; from != "" {
		root, err := n.cloneCheckpoint(ctx, from, sandboxTree(spec.Sandbox), opts)
		if core.IsCode(err, core.CodeNotFound) {
			err = core.Wrap(core.CodeNotFound, err, "the checkpoint was deleted meanwhile")
		}
		return root, err
	}
	root, err := d.Clone(ctx, templateTree(spec.Source.Template), sandboxTree(spec.Sandbox), opts)
	if err != nil {
		return "", fmt.Errorf("clone template: %w", err)
	}
	return root, nil
}

func (n *Node) makeParts(ctx context.Context, spec core.NodeSpec, l launch, p *parts) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if p.root, err = l.tree(ctx, n.cfg.Disk, spec); err != nil {
			return err
		}
		return failpoint.Hit(l.hasTree)
	})
	g.Go(func() (err error) {
		if p.slot, err = n.cfg.Network.Attach(ctx, spec.Sandbox, network.EgressDeny); err != nil {
			return fmt.Errorf("attach network: %w", err)
		}
		return failpoint.Hit(l.attached)
	})
	return g.Wait()
}

// get waits for the parts and returns where they are.
func (p *parts) get(ctx context.Context) (rootFS, netNS string, err error) {
	select {
	case <-p.done:
		return p.root, p.slot.NetNS, p.err
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
}

// end stops what is still being made: when it returns, nothing new comes into being.
func (p *parts) end() {
	p.cancel()
	<-p.done
}
