package control

import (
	"context"

	"shoal/internal/core"
)

// whole does act in the sandbox's turn and returns what came of it. Once act has begun, a caller who goes away doesn't cut it in two: it goes
// on without him. A delete of the sandbox ends its context, and so does the server's end: what is on record then is finished at the next start.
func (d *deps) whole(
	ctx context.Context, id core.SandboxID, act func(ctx context.Context) (core.Sandbox, error),
) (core.Sandbox, error) {
	type result struct {
		sb  core.Sandbox
		err error
	}
	ended := make(chan result, 1)
	begun := d.tasks.run(func(stop context.Context) {
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(stop, cancel)()
		turn, done, err := d.commands.beginWhole(own, ctx, id)
		if err != nil {
			ended <- result{err: err}
			return
		}
		defer done()
		sb, err := act(turn)
		ended <- result{sb, err}
	})
	if !begun {
		return core.Sandbox{}, core.Errorf(core.CodeUnavailable, "the server is shutting down")
	}
	select {
	case r := <-ended:
		return r.sb, r.err
	case <-ctx.Done():
		return core.Sandbox{}, core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled; what it has begun goes on")
	}
}

// inTurn does act in the sandbox's turn.
func (d *deps) inTurn(ctx context.Context, id core.SandboxID, act func(ctx context.Context) error) error {
	ctx, done, err := d.commands.begin(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	return act(ctx)
}
