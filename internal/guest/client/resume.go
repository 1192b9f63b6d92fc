package client

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// resume goes on at the same offset after the connection broke. It returns an empty message when the stream goes on,
// the lost message when the agent is gone or does not know the exec, and an error when the caller gave up.
//
// A broken connection says nothing about the process, so only the agent's own word, or its absence, ends it.
func (s *stream) resume() (core.ExecMessage, error) {
	s.stale++
	if s.stale > maxStale {
		return s.lost("the guest agent broke the stream off again and again"), nil
	}
	begin := time.Now()
	pause := 20 * time.Millisecond
	for {
		answered, err := s.reattach()
		if err == nil {
			return core.ExecMessage{}, nil
		}
		if e := s.over(); e != nil {
			return core.ExecMessage{}, e
		}
		if core.IsCode(err, core.CodeNotFound) {
			return s.lost("the guest agent does not know the exec"), nil
		}
		// An agent that can't even be dialed has no reason to come back; one that is slow may be under load.
		limit := s.c.cfg.LostAfter
		if !answered {
			limit /= 10
		}
		if time.Since(begin) > limit {
			return s.lost(err.Error()), nil
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-s.ctx.Done():
		case <-s.c.ctx.Done():
		}
		t.Stop()
		pause = min(2*pause, time.Second)
	}
}

// reattach dials and attaches once. answered says that the agent took the connection, or that the dial was not
// refused but took too long.
func (s *stream) reattach() (answered bool, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, max(s.c.cfg.LostAfter/3, time.Millisecond))
	defer cancel()
	// An idle connection may be as broken as the one before: only a new one is evidence.
	dial := func(ctx context.Context) (*conn, error) {
		k, err := s.c.dial(ctx)
		answered = err == nil || ctx.Err() != nil
		return k, err
	}
	err = s.connect(ctx, wire.OpAttach, wire.AttachRequest{ID: string(s.id), From: s.pos}, dial)
	return answered, err
}

// lost ends the stream without an outcome of the process.
func (s *stream) lost(why string) core.ExecMessage {
	s.c.cfg.Logger.Warn("exec lost", slog.Any("exec_id", s.id), slog.Any("err", why))
	s.ended = true
	s.cancel()
	e := s.last
	e.Outcome, e.ExitCode, e.Signal = core.OutcomeLost, nil, ""
	e.EndedAt = time.Now().UTC()
	e.Processes = 0
	e.OutputBytes = s.pos
	return core.ExecMessage{Kind: core.ExecEnded, Offset: s.pos, Exec: &e}
}
