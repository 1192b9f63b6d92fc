package httpserve

import (
	"context"
	"errors"
	"time"

	"shoal/internal/core"
)

const (
	// readAhead is how many messages of an exec are taken before the client has got the one before. It is what there is
	// to join, and all that a slow client makes the server keep.
	readAhead = 8
	// maxGathered bounds the output of one message.
	maxGathered = 256 << 10
)

// received is what one Recv of a stream returned.
type received struct {
	message core.ExecMessage
	err     error
}

// gatherer joins the pieces of output that are ready into one message: what a message costs, from its encoding to the
// client's system call, is then paid once and not for each piece that a guest agent reads. It waits for nothing, so an
// answer to a key press is as fast as it was.
type gatherer struct {
	messages <-chan received
	// buf is what was joined, until the next message.
	buf []byte
	// held is what came and didn't fit.
	held *received
}

// errSilent says that there has been nothing for the keepalive time.
var errSilent = errors.New("nothing came")

// next returns the next message, with all that belongs to it and is ready.
func (g *gatherer) next(ctx context.Context, silent <-chan time.Time) (core.ExecMessage, error) {
	m := g.held
	g.held = nil
	if m == nil {
		select {
		case <-ctx.Done():
			return core.ExecMessage{}, context.Cause(ctx)
		case <-silent:
			g.buf = nil // an exec that is quiet keeps no room
			return core.ExecMessage{}, errSilent
		case r := <-g.messages:
			m = &r
		}
	}
	if m.err != nil {
		return core.ExecMessage{}, m.err
	}
	return g.join(m.message), nil
}

// join returns first with all that is ready and belongs to it. Its data is valid until the next call.
func (g *gatherer) join(first core.ExecMessage) core.ExecMessage {
	if !isOutput(first) {
		return first
	}
	for joined := false; g.held == nil; joined = true {
		select {
		case m := <-g.messages:
			if m.err != nil || m.message.Kind != first.Kind || m.message.Offset != first.Offset+int64(len(first.Data)) ||
				len(first.Data)+len(m.message.Data) > maxGathered {
				g.held = &m
				return first
			}
			if !joined {
				first.Data = append(g.buf[:0], first.Data...)
			}
			g.buf = append(first.Data, m.message.Data...)
			first.Data = g.buf
		default:
			return first
		}
	}
	return first
}

func isOutput(m core.ExecMessage) bool { return m.Kind == core.ExecStdout || m.Kind == core.ExecStderr }
