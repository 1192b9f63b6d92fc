package control

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	// measureEvery is how often it is written down that the server is there to see what runs, and what sandboxes keep is measured.
	measureEvery = time.Minute
	// measureBatch is how many changed sizes are written at a time.
	measureBatch = 100
	// seenSetting is the setting with the time at which the server was last there.
	seenSetting = "usage_seen_at"
	// keepDetail is for how many days usage is told apart by sandbox, and keepEnded of how many of a tenant's deleted ones at most.
	keepDetail = 62
	keepEnded  = 100_000
)

// usage counts what sandboxes use. A change of what counts is counted in the transaction of the event that tells of it (appendEvent); the
// rest is here.
//
// Durable: all of it. Process-only: nothing but seen, which is set before the loops begin.
type usage struct {
	*deps
	// sizes tells what sandboxes keep; nil if nobody can.
	sizes core.TreeSizes
	// seen is when the server that was here before this one was last there.
	seen time.Time
}

// start reads when the last server was there.
func (u *usage) start(ctx context.Context) error {
	return u.store.View(ctx, func(r store.Reader) error {
		text, err := r.Setting(seenSetting)
		if core.IsCode(err, core.CodeNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if u.seen, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return core.Wrap(core.CodeDataLoss, err, "a setting of the server's is damaged")
		}
		return nil
	})
}

// close writes down that the server was there until now.
func (u *usage) close(ctx context.Context) {
	if err := u.writeSeen(ctx); err != nil {
		u.log.Warn("write when the server was there", slog.Any("err", err))
	}
}

func (u *usage) writeSeen(ctx context.Context) error {
	return u.store.UpdateRelaxed(ctx, func(tx store.Tx) error {
		return tx.PutSetting(seenSetting, u.clock.Now().Format(time.RFC3339Nano))
	})
}

// begin tells that a sandbox runs, from which moment on it counts. It keeps nothing of its own yet.
func (u *usage) begin(tx store.Tx, sb core.Sandbox, actor core.Actor, now time.Time) error {
	if err := tellEvent(tx, sb, core.EventSandboxRunning, actor, now, sizeFacts(sb.Resources)); err != nil {
		return err
	}
	m := core.MeterOf(sb, now)
	if u.sizes != nil {
		m.KeptBytes = 0
	}
	return tx.PutMeter(m)
}

// endAt ends the awake time of a sandbox whose end nobody saw: at the last moment at which it was known to run.
func (u *usage) endAt(tx store.Tx, sb core.Sandbox, seen, now time.Time, data map[string]string) error {
	m, err := tx.Meter(sb.ID)
	if core.IsCode(err, core.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if seen.Before(m.Since) {
		seen = m.Since
	}
	if seen.After(now) {
		return nil
	}
	data["awake_until"] = seen.Format(time.RFC3339Nano)
	return tx.PutMeter(core.MeterOf(sb, seen))
}

// relabel shows usage with the labels that a sandbox has now.
func (u *usage) relabel(tx store.Tx, sb core.Sandbox, patch SandboxPatch, now time.Time) error {
	if patch.Labels == nil || core.ClocksOf(sb.State) == (core.Clocks{}) {
		return nil // what doesn't count yet begins with the labels that it has then
	}
	return tx.PutMeter(core.MeterOf(sb, now))
}

// sizeFacts are the facts of an event that says what size a sandbox has.
func sizeFacts(r core.Resources) map[string]string {
	return map[string]string{"vcpus": strconv.FormatFloat(r.VCPUs, 'f', -1, 64), "memory_bytes": strconv.FormatInt(r.MemoryBytes, 10)}
}

// loop writes down that the server is there, and measures.
func (u *usage) loop(ctx context.Context) {
	var rolled core.Day
	for {
		if err := u.writeSeen(ctx); err != nil && ctx.Err() == nil {
			u.log.Warn("write when the server was there", slog.Any("err", err))
		}
		today := core.DayOf(u.clock.Now())
		if today != rolled {
			if err := u.store.UpdateRelaxed(ctx, func(tx store.Tx) error { return tx.RollTrees(u.clock.Now()) }); err != nil && ctx.Err() == nil {
				u.log.Warn("count what templates and checkpoints keep", slog.Any("err", err))
			}
		}
		if u.sizes != nil || today != rolled {
			if err := u.measure(ctx, today); err == nil {
				rolled = today
			} else if ctx.Err() == nil {
				u.log.Warn("measure what sandboxes keep", slog.Any("err", err))
			}
		}
		if u.sizes != nil {
			if err := u.measureCheckpoints(ctx); err != nil && ctx.Err() == nil {
				u.log.Warn("measure what checkpoints keep", slog.Any("err", err))
			}
		}
		if !pause(ctx, u.clock, measureEvery) {
			return
		}
	}
}

// measure asks what each sandbox keeps, and counts from now on what has changed. What goes on since another day is counted until
// now, so that whoever asks for usage needs not look far back.
func (u *usage) measure(ctx context.Context, today core.Day) error {
	var after core.SandboxID
	for {
		var list []core.Meter
		err := u.store.View(ctx, func(r store.Reader) (err error) {
			list, err = r.OpenMeters(after, measureBatch)
			return err
		})
		if err != nil || len(list) == 0 {
			return err
		}
		after = list[len(list)-1].Sandbox
		changed := map[core.SandboxID]int64{}
		for _, m := range list {
			bytes := u.size(ctx, m)
			if bytes != m.KeptBytes || core.DayOf(m.Since) < today {
				changed[m.Sandbox] = bytes
			}
		}
		if err := u.putKept(ctx, changed); err != nil {
			return err
		}
	}
}

// size measures a sandbox. One that can't be measured now, as when it has just been deleted, is as it was.
func (u *usage) size(ctx context.Context, m core.Meter) int64 {
	if u.sizes == nil {
		return -1
	}
	bytes, err := u.sizes.KeptBytes(ctx, m.Sandbox)
	if err != nil {
		u.log.Debug("measure what a sandbox keeps", slog.String("sandbox_id", string(m.Sandbox)), slog.Any("err", err))
		return m.KeptBytes
	}
	return bytes
}

func (u *usage) putKept(ctx context.Context, changed map[core.SandboxID]int64) error {
	if len(changed) == 0 {
		return nil
	}
	return u.store.UpdateRelaxed(ctx, func(tx store.Tx) error {
		now := u.clock.Now()
		for id, bytes := range changed {
			if err := tx.PutKeptBytes(id, bytes, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgetLoop sums up what need not be told apart any more.
func (u *usage) forgetLoop(ctx context.Context) {
	for {
		if err := u.forget(ctx); err != nil && ctx.Err() == nil {
			u.log.Error("sum up old usage", slog.Any("err", err))
		}
		if !pause(ctx, u.clock, forgetEvery) {
			return
		}
	}
}

func (u *usage) forget(ctx context.Context) error {
	today := core.DayOf(u.clock.Now())
	keep := store.UsageKeep{First: today - store.MaxUsageDays + 1, Detail: today - keepDetail + 1, Ended: keepEnded}
	for {
		n := 0
		err := u.store.UpdateRelaxed(ctx, func(tx store.Tx) (err error) {
			n, err = tx.ForgetUsage(keep)
			return err
		})
		if err != nil || n == 0 {
			return err
		}
	}
}
