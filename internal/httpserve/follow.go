package httpserve

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"shoal/internal/core"
)

// Follow hands the messages of an exec to send, output that is ready joined, and calls idle whenever there has been none
// for the keepalive time. What send is given is valid until it returns. It returns nil after the last message. When it returns, the stream is closed and nothing reads
// from it.
func Follow(
	ctx context.Context, stream core.ExecStream, keepalive time.Duration, send func(core.ExecMessage) error, idle func() error,
) error {
	messages := make(chan received, readAhead)
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { read(stream, messages, done) })
	defer reader.Wait()
	defer func() { _ = stream.Close() }() // Closing only stops following; the process goes on either way.
	defer close(done)

	ready := gatherer{messages: messages}
	silent := time.NewTimer(keepalive)
	defer silent.Stop()
	for {
		m, err := ready.next(ctx, silent.C)
		switch {
		case errors.Is(err, errSilent):
			err = idle()
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			if err = send(m); err == nil && m.Kind == core.ExecEnded {
				return nil // it is the last one: what befalls the stream now concerns nobody
			}
		}
		if err != nil {
			return err
		}
		silent.Reset(keepalive)
	}
}

// read hands over what a stream gives until it ends or done is closed.
func read(stream core.ExecStream, messages chan<- received, done <-chan struct{}) {
	for {
		m, err := stream.Recv()
		select {
		case messages <- received{m, err}:
		case <-done:
			return
		}
		if err != nil {
			return
		}
	}
}
