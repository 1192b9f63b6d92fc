package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// once has calls with a key take effect once. What such a call makes is recorded in one transaction with the call, so that at
// every moment, and after every crash, there are both or neither: a repeat looks at what there is.
type once struct {
	*deps
	mu sync.Mutex
	// under has the calls under way; a channel is closed when its call ends.
	under map[callName]chan struct{}
}

// callName names a call. Its route begins with what its caller sees.
type callName struct {
	tenant     core.TenantID
	route, key string
}

// maxResult bounds a result that is kept. A larger one is made again from the records, and from what is kept of the output.
const maxResult = 16 << 10

// turn is a call with a key, while no other with that key is under way. A nil turn is a call without a key: it does nothing.
type turn struct {
	once *once
	name callName
	// asked is what the caller said; found what an earlier call recorded, nil if there was none.
	asked *core.Once
	found *core.KeyedCall
	end   func()
}

func newOnce(d *deps) *once { return &once{deps: d, under: map[callName]chan struct{}{}} }

// begin waits until no other call with the key is under way, and finds out whether there was one. The key is conflict if it was
// used with something else. The caller ends the turn.
func (o *once) begin(ctx context.Context, p Principal, route string, asked *core.Once) (*turn, error) {
	if asked == nil {
		return nil, nil
	}
	name := callName{p.Tenant, sight(p) + route, asked.Key}
	end, err := o.take(ctx, name)
	if err != nil {
		return nil, err
	}
	t := &turn{once: o, name: name, asked: asked, end: end}
	if t.found, err = o.find(ctx, name); err == nil && t.found != nil && t.found.Digest != asked.Digest {
		err = &core.Error{
			Code: core.CodeConflict, Field: "Idempotency-Key", Message: "this key was used with another request: every call has a key of its own",
		}
	}
	if err != nil {
		end()
		return nil, err
	}
	return t, nil
}

// sight says what the caller sees, if that is not all that its tenant has: it is shown what calls of those made who see the same.
func sight(p Principal) string {
	switch {
	case p.Sandbox != "":
		return "token of " + string(p.Sandbox) + ": "
	case len(p.Labels) > 0:
		text, _ := json.Marshal(p.Labels) // a map of strings, in the order of its keys
		return "labels " + core.HashSecret(string(text)) + ": "
	}
	return ""
}

// take waits for the turn of a key.
func (o *once) take(ctx context.Context, name callName) (end func(), err error) {
	for {
		o.mu.Lock()
		other, busy := o.under[name]
		if !busy {
			done := make(chan struct{})
			o.under[name] = done
			o.mu.Unlock()
			return sync.OnceFunc(func() {
				o.mu.Lock()
				delete(o.under, name)
				o.mu.Unlock()
				close(done)
			}), nil
		}
		o.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
		}
	}
}

// find returns what is remembered of a call, nil if nothing is.
func (o *once) find(ctx context.Context, name callName) (found *core.KeyedCall, err error) {
	err = o.store.View(ctx, func(r store.Reader) error {
		c, err := r.KeyedCall(name.tenant, name.route, name.key)
		if core.IsCode(err, core.CodeNotFound) || err == nil && !o.clock.Now().Before(c.At.Add(core.RememberCalls)) {
			return nil
		}
		found = &c
		return err
	})
	return found, err
}

// forget drops what is no longer remembered.
func (o *once) forget(tx store.Tx) error {
	_, err := tx.ForgetKeyedCalls(o.clock.Now().Add(-core.RememberCalls))
	return err
}

// over ends the turn.
func (t *turn) over() {
	if t != nil {
		t.end()
	}
}

// repeated says that the answer is what an earlier call made.
func (t *turn) repeated() { t.asked.Repeated = true }

// record adds to the transaction that records what a call makes that it is what the call made.
func (t *turn) record(tx store.Tx, sandbox core.SandboxID, exec core.ExecID) error {
	return t.put(tx, core.KeyedCall{Sandbox: sandbox, Exec: exec})
}

// began adds to the transaction that records an operation that the call began it.
func (t *turn) began(tx store.Tx, id core.OperationID) error {
	return t.put(tx, core.KeyedCall{Operation: id})
}

// saved adds to the transaction that records a checkpoint that it is what the call makes.
func (t *turn) saved(tx store.Tx, id core.CheckpointID) error {
	return t.put(tx, core.KeyedCall{Checkpoint: id})
}

// put writes what a call made.
func (t *turn) put(tx store.Tx, c core.KeyedCall) error {
	if t == nil {
		return nil
	}
	c.Tenant, c.Route, c.Key, c.Digest, c.At = t.name.tenant, t.name.route, t.name.key, t.asked.Digest, t.once.clock.Now()
	return tx.PutKeyedCall(c)
}

// mark remembers a call that makes several things, each of which is recorded with what it is of the call.
func (t *turn) mark(ctx context.Context) error {
	if t.found != nil {
		return nil
	}
	return t.once.store.UpdateRelaxed(ctx, func(tx store.Tx) error { return t.record(tx, "", "") })
}

// undo adds to the transaction that removes what a call would have made that the call has made nothing.
func (t *turn) undo(tx store.Tx) error {
	if t == nil {
		return nil
	}
	return tx.DeleteKeyedCall(t.name.tenant, t.name.route, t.name.key)
}

// keep remembers the whole answer, unless it is too large.
func (t *turn) keep(ctx context.Context, result any) {
	if t == nil {
		return
	}
	data, err := json.Marshal(result)
	if err != nil {
		t.once.log.ErrorContext(ctx, "encode the answer of a call", slog.Any("err", err))
	}
	if err != nil || len(data) > maxResult {
		return
	}
	t.note(ctx, func(c *core.KeyedCall) { c.Result = data })
}

// fed remembers that a process has been given all of its input.
func (t *turn) fed(ctx context.Context) { t.note(ctx, func(c *core.KeyedCall) { c.Fed = true }) }

// note adds to what is remembered of a call. Without it a repeat is told less: that it can't be written is no failure.
func (t *turn) note(ctx context.Context, change func(*core.KeyedCall)) {
	err := t.once.store.UpdateRelaxed(context.WithoutCancel(ctx), func(tx store.Tx) error {
		c, err := tx.KeyedCall(t.name.tenant, t.name.route, t.name.key)
		if err != nil {
			return err
		}
		change(&c)
		return tx.PutKeyedCall(c)
	})
	if err == nil {
		err = failpoint.Hit(failpoint.ControlOnceNoted)
	}
	if err != nil && !core.IsCode(err, core.CodeNotFound) { // so many calls have come since
		t.once.log.WarnContext(ctx, "note what came of a call", slog.Any("err", err))
	}
}

// kept fills in the answer that was kept, and reports whether there is one.
func (t *turn) kept(result any) bool {
	if t == nil || t.found == nil || t.found.Result == nil {
		return false
	}
	if err := json.Unmarshal(t.found.Result, result); err != nil {
		t.once.log.Warn("read the answer of a call that was kept", slog.Any("err", err))
		return false
	}
	t.repeated()
	return true
}

// errForgotten says that a call took effect, and that what came of it is known no more.
var errForgotten = core.Errorf(core.CodeNotFound,
	"this call was made before, with this key, and there is no record any more of what it made: it is not made again")

// CreateSandbox records a sandbox, starts it, and returns it when its guest agent has answered. If it fails, or the caller
// goes away first, nothing of it is left. With spec.Once a repeat returns what the first call made.
func (s *Service) CreateSandbox(ctx context.Context, p Principal, spec core.SandboxSpec) (core.Sandbox, error) {
	if err := p.may("CreateSandbox"); err != nil {
		return core.Sandbox{}, err
	}
	if err := p.needKey(); err != nil {
		return core.Sandbox{}, err
	}
	return s.createOnce(ctx, p, "sandbox", spec)
}

// createOnce creates a sandbox for a caller who may, under a route if the call has a key.
func (s *Service) createOnce(ctx context.Context, p Principal, route string, spec core.SandboxSpec) (core.Sandbox, error) {
	start := s.clock.Now()
	turn, err := s.once.begin(ctx, p, route, spec.Once)
	if err != nil {
		return core.Sandbox{}, err
	}
	defer turn.over()
	if sb, done, err := s.creation.before(ctx, p, turn); done || err != nil {
		return sb, err
	}
	sb, err := s.createSandbox(ctx, p, spec, turn)
	s.observer.Create(err, s.clock.Now().Sub(start))
	if err == nil {
		turn.keep(ctx, sb)
	}
	return sb, err
}

// before returns the sandbox that an earlier call with the key made, and whether there is one.
func (c *creation) before(ctx context.Context, p Principal, t *turn) (sb core.Sandbox, done bool, err error) {
	if t == nil || t.found == nil {
		return sb, false, nil
	}
	if t.kept(&sb) {
		return sb, true, nil
	}
	err = c.store.View(ctx, func(r store.Reader) error {
		sb, err = r.SandboxByID(t.found.Sandbox)
		return err
	})
	switch {
	case core.IsCode(err, core.CodeNotFound), err == nil && !p.sees(sb):
		return core.Sandbox{}, false, errForgotten
	case err != nil:
		return sb, false, err
	case sb.State == core.StateCreating:
		// Nobody is creating it: the caller of before went away, and the record of that can't be written yet.
		return sb, false, core.Errorf(core.CodeUnavailable, "an earlier call with this key is being undone")
	case sb.State == core.StateDeleted && sb.StartedAt.IsZero():
		return core.Sandbox{}, false, nil // that call failed, and left nothing
	}
	t.repeated()
	c.activity.show(&sb)
	return sb, true, nil
}
