package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// WriteFile writes a whole file from r; see core.Guest. If r fails, its error comes back and the old content stands. A
// *core.Error of r's is returned as it is.
func (c *Client) WriteFile(ctx context.Context, path string, opts core.WriteOptions, r io.Reader) (core.FileInfo, error) {
	payload, err := upload(ctx, c, wire.OpWrite, writeRequest(path, opts), r)
	if err != nil {
		return core.FileInfo{}, err
	}
	var info wire.FileInfo
	if err := wire.DecodeReply(payload, &info); err != nil {
		return core.FileInfo{}, unreachable(ctx, err)
	}
	f, err := fileOf(info)
	if err != nil {
		return core.FileInfo{}, unreachable(ctx, err)
	}
	return f, nil
}

// upload sends r as the data of an operation, and returns the reply that comes after it.
func upload(ctx context.Context, c *Client, op wire.Op, args any, r io.Reader) ([]byte, error) {
	request, err := frames(op, args)
	if err != nil {
		return nil, err
	}
	k, _, release, err := c.begin(ctx, request, true)
	if err != nil {
		return nil, err
	}
	// The answer may come before the end, when the disk is full: so it is read beside the sending.
	answers := make(chan answer, 1)
	go func() {
		payload, fault, err := c.expect(ctx, k, wire.FrameReply)
		// The connection may serve another operation before the payload is looked at.
		answers <- answer{append([]byte(nil), payload...), fault, err}
	}()
	clean, source, sendErr := send(k, r, answers)
	if sendErr != nil || source != nil {
		// Without an end frame the agent throws away what it has.
		k.close()
	}
	a := <-answers
	release()
	if clean && a.err == nil {
		c.give(k)
	} else {
		k.close()
	}
	switch {
	case source != nil:
		if e := contextError(ctx); e != nil {
			return nil, e
		}
		return nil, source
	case a.fault != nil:
		return nil, a.fault
	case a.err != nil:
		return nil, c.broken(ctx, errors.Join(a.err, sendErr))
	}
	return a.payload, nil
}

type answer struct {
	payload []byte
	fault   *core.Error
	err     error
}

// send copies r into data frames and an end frame. It stops early when an answer is there. clean says that everything
// including the end was sent.
func send(k *conn, r io.Reader, answers chan answer) (clean bool, source, err error) {
	buf := make([]byte, wire.DataChunk)
	for {
		n, readErr := fill(r, buf)
		if len(answers) > 0 {
			return false, nil, nil
		}
		if n > 0 {
			if err := k.w.Write(wire.FrameData, buf[:n]); err != nil {
				return false, nil, err
			}
		}
		switch {
		case readErr == io.EOF: //nolint:errorlint // Inside another error it means that the content broke off.
			return true, nil, k.w.Write(wire.FrameEnd)
		case readErr != nil:
			var known *core.Error
			if errors.As(readErr, &known) {
				return false, readErr, nil
			}
			return false, core.Wrap(core.CodeInvalid, fmt.Errorf("read content: %w", readErr), "the content broke off"), nil
		}
	}
}

// fill reads until buf is full or r ends. Unlike io.ReadFull it keeps a source that broke off apart from one that ended.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}
