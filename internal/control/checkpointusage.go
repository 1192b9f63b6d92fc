package control

import (
	"context"
	"log/slog"

	"shoal/internal/core"
	"shoal/internal/store"
)

// measureCheckpoints asks what the checkpoints of each tenant keep that no sandbox keeps, and counts from now on what has changed. What a
// sandbox that is there has written counts as the sandbox's own, whether it has it still or only checkpoints do; what one that is gone had
// written, or one that was put back to another tree, counts here, once for all checkpoints that have it.
func (u *usage) measureCheckpoints(ctx context.Context) error {
	var origins []store.CheckpointOrigin
	var was map[core.TenantID]int64
	err := u.store.View(ctx, func(r store.Reader) (err error) {
		if origins, err = r.CheckpointOrigins(); err != nil {
			return err
		}
		was, err = r.CheckpointBytes()
		return err
	})
	if err != nil {
		return err
	}
	now := map[core.TenantID]int64{}
	unknown := map[core.TenantID]bool{}
	for _, o := range origins {
		bytes, err := u.sizes.LeftBytes(ctx, o.Sandbox, o.Origin)
		if err != nil {
			u.log.Debug("measure what checkpoints keep", slog.String("sandbox_id", string(o.Sandbox)), slog.Any("err", err))
			unknown[o.Tenant] = true
		}
		now[o.Tenant] += bytes
	}
	for t := range was {
		now[t] += 0 // it may have none any more
	}
	for t, bytes := range now {
		if unknown[t] || bytes == was[t] {
			continue // what can't be measured now is as it was
		}
		err := u.store.UpdateRelaxed(ctx, func(tx store.Tx) error { return tx.MeterCheckpoints(t, bytes, u.clock.Now()) })
		if err != nil {
			return err
		}
	}
	return nil
}
