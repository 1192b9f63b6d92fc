package client

import (
	"context"
	"encoding/json"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// call is one operation with one request and one reply.
type call struct {
	op   wire.Op
	args any
	// reply receives the reply's JSON.
	reply any
	// data goes after the request, if the operation has data.
	data []byte
	// again says that the operation may be sent twice: an old connection that turns out to be dead is then replaced.
	again bool
	// long says that it may take as long as the files that it is about are large.
	long bool
}

// longCall bounds a long call whose context has no deadline. An agent that falls silent is given up much earlier.
const longCall = 15 * time.Minute

// frames returns what begins an operation.
func frames(op wire.Op, args any) ([]byte, error) {
	raw, err := wire.Encode(args)
	if err != nil {
		return nil, err
	}
	return wire.Encode(wire.Envelope{Op: op, Args: json.RawMessage(raw)})
}

// do carries out a call.
func (c *Client) do(ctx context.Context, q call) error {
	request, err := frames(q.op, q.args)
	if err != nil {
		return err
	}
	out := []wire.Part{{Type: wire.FrameRequest, Payload: [][]byte{request}}}
	if q.op == wire.OpStdin {
		if len(q.data) > 0 {
			out = append(out, wire.Part{Type: wire.FrameData, Payload: [][]byte{q.data}})
		}
		out = append(out, wire.Part{Type: wire.FrameEnd})
	}
	if q.long {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longCall) // an earlier deadline of the caller's holds
		defer cancel()
	} else if q.op != wire.OpStdin { // input waits for as long as the process does not read it
		var cancel context.CancelFunc
		ctx, cancel = deadline(ctx, c)
		defer cancel()
	}
	for {
		k, err := c.take(ctx)
		if err != nil {
			return err
		}
		payload, fault, err := exchange(ctx, c, k, out)
		if err != nil {
			k.close()
			if q.again && k.reused && ctx.Err() == nil && c.ctx.Err() == nil {
				// Only an old connection is worth a second try; each is closed, so this ends with a new one.
				continue
			}
			return c.broken(ctx, err)
		}
		if fault != nil {
			c.give(k)
			return fault
		}
		err = wire.DecodeReply(payload, q.reply)
		c.give(k)
		if err != nil {
			return unreachable(ctx, err)
		}
		return nil
	}
}

// exchange sends a request and waits for its reply.
func exchange(ctx context.Context, c *Client, k *conn, out []wire.Part) (payload []byte, fault *core.Error, err error) {
	defer c.bind(ctx, k)()
	if err := k.w.WriteAll(out...); err != nil {
		return nil, nil, err
	}
	return c.expect(ctx, k, wire.FrameReply)
}

// Ping makes a round trip without starting a process.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.Hello(ctx)
	return err
}

// Hello makes a round trip and says which protocol the agent speaks and whose it was told to be.
func (c *Client) Hello(ctx context.Context) (wire.Hello, error) {
	var h wire.Hello
	err := c.do(ctx, call{op: wire.OpPing, args: wire.Empty{}, reply: &h, again: true})
	return h, err
}

// Configure tells the agent whose it is. It comes after every start, restore and fork, before the first exec.
func (c *Client) Configure(ctx context.Context, id wire.Identity) error {
	return c.do(ctx, call{op: wire.OpConfigure, args: id, reply: &wire.Empty{}, again: true})
}

// Limit changes the limits that the agent itself sees to.
func (c *Client) Limit(ctx context.Context, l wire.Limits) error {
	return c.do(ctx, call{op: wire.OpLimit, args: l, reply: &wire.Empty{}, again: true})
}

// Sync has all that programs have written flushed to the sandbox's tree.
func (c *Client) Sync(ctx context.Context) error {
	return c.do(ctx, call{op: wire.OpSync, args: wire.Empty{}, reply: &wire.Empty{}, long: true})
}

// Metrics reports what the agent sees from inside; the host's own figures are the ones to bill by.
func (c *Client) Metrics(ctx context.Context) (wire.Metrics, error) {
	var m wire.Metrics
	err := c.do(ctx, call{op: wire.OpMetrics, args: wire.Empty{}, reply: &m, again: true})
	return m, err
}
