package node

import (
	"context"
	"fmt"
	"log/slog"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/failpoint"
)

// ImportTemplate makes a frozen tree for the template. One that is complete already is left as it is; one that was cut off is
// made anew.
func (n *Node) ImportTemplate(ctx context.Context, id core.TemplateID, fill func(context.Context, string) error) (core.TreeInfo, error) {
	has, err := n.HasTemplate(ctx, id)
	if err != nil {
		return core.TreeInfo{}, err
	}
	ref := templateTree(id)
	if has {
		dir, err := n.cfg.Disk.Path(ref)
		if err != nil {
			return core.TreeInfo{}, fmt.Errorf("find tree: %w", err)
		}
		return digestOf(ctx, n, dir)
	}
	if err := n.cfg.Disk.Delete(ctx, ref); err != nil {
		return core.TreeInfo{}, fmt.Errorf("remove a cut-off import: %w", err)
	}
	info, err := importTree(ctx, n, ref, fill)
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		if derr := n.cfg.Disk.Delete(undo, ref); derr != nil {
			n.log.Warn("remove a template that was not finished", slog.String("template_id", string(id)), slog.Any("err", derr))
		}
		return core.TreeInfo{}, err
	}
	return info, nil
}

func importTree(ctx context.Context, n *Node, ref disk.Ref, fill func(context.Context, string) error) (core.TreeInfo, error) {
	dir, err := n.cfg.Disk.Create(ctx, ref)
	if err == nil {
		err = failpoint.Hit(failpoint.NodeImportCreated)
	}
	if err != nil {
		return core.TreeInfo{}, fmt.Errorf("create tree: %w", err)
	}
	if err = fill(ctx, dir); err == nil {
		err = failpoint.Hit(failpoint.NodeImportFilled)
	}
	if err != nil {
		return core.TreeInfo{}, fmt.Errorf("fill tree: %w", err)
	}
	info, err := digestOf(ctx, n, dir)
	if err != nil {
		return core.TreeInfo{}, err
	}
	if err = n.cfg.Disk.Freeze(ctx, ref); err == nil {
		err = failpoint.Hit(failpoint.NodeImportFrozen)
	}
	if err != nil {
		return core.TreeInfo{}, fmt.Errorf("freeze tree: %w", err)
	}
	return info, nil
}

func digestOf(ctx context.Context, n *Node, dir string) (core.TreeInfo, error) {
	info, err := n.cfg.Digest(ctx, dir)
	if err != nil {
		return core.TreeInfo{}, fmt.Errorf("digest tree: %w", err)
	}
	info.OwnBytes = info.SizeBytes
	return info, nil
}

// HasTemplate reports whether the template's tree is complete here.
func (n *Node) HasTemplate(ctx context.Context, id core.TemplateID) (bool, error) {
	trees, err := n.cfg.Disk.List(ctx)
	if err != nil {
		return false, fmt.Errorf("list trees: %w", err)
	}
	for _, t := range trees {
		if t.Ref == templateTree(id) {
			return t.Complete && t.Frozen, nil
		}
	}
	return false, nil
}

// DeleteTemplate removes the template's tree.
func (n *Node) DeleteTemplate(ctx context.Context, id core.TemplateID) error {
	return n.cfg.Disk.Delete(ctx, templateTree(id))
}
