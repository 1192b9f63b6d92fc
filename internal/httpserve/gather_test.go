package httpserve

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

// gathered lets a gatherer take all that is ready and returns what it made of it.
func gathered(t *testing.T, ready ...received) []core.ExecMessage {
	t.Helper()
	messages := make(chan received, len(ready)+1)
	for _, m := range ready {
		messages <- m
	}
	messages <- received{err: io.EOF}
	g := gatherer{messages: messages}
	var out []core.ExecMessage
	for {
		m, err := g.next(t.Context(), nil)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Data = bytes.Clone(m.Data)
		out = append(out, m)
	}
}

func piece(kind core.ExecStreamKind, offset int64, data string) received {
	return received{message: core.ExecMessage{Kind: kind, Offset: offset, Data: []byte(data)}}
}

// TestGather holds that output that is ready goes in one message, and that order, streams and offsets stay as they were.
func TestGather(t *testing.T) {
	gap := core.ExecMessage{Kind: core.ExecGap, Offset: 12, Missing: 8}
	got := gathered(t,
		piece(core.ExecStdout, 0, "one "), piece(core.ExecStdout, 4, "two "), piece(core.ExecStderr, 8, "err"), piece(core.ExecStdout, 11, "x"),
		received{message: gap}, piece(core.ExecStdout, 20, "a"), piece(core.ExecStdout, 21, "b"), piece(core.ExecStdout, 30, "elsewhere"),
		received{message: core.ExecMessage{Kind: core.ExecEnded, Offset: 39}},
	)
	want := []core.ExecMessage{
		{Kind: core.ExecStdout, Offset: 0, Data: []byte("one two ")},
		{Kind: core.ExecStderr, Offset: 8, Data: []byte("err")},
		{Kind: core.ExecStdout, Offset: 11, Data: []byte("x")},
		gap,
		{Kind: core.ExecStdout, Offset: 20, Data: []byte("ab")},
		{Kind: core.ExecStdout, Offset: 30, Data: []byte("elsewhere")},
		{Kind: core.ExecEnded, Offset: 39},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestGatherWaitsForNothing holds that a lone piece is sent at once, and that silence is told.
func TestGatherWaitsForNothing(t *testing.T) {
	messages := make(chan received, 1)
	messages <- piece(core.ExecStdout, 0, "$ ")
	g := gatherer{messages: messages}
	if m, err := g.next(t.Context(), nil); err != nil || string(m.Data) != "$ " {
		t.Errorf("got %q, %v", m.Data, err)
	}
	silent := make(chan time.Time, 1)
	silent <- time.Time{}
	if _, err := g.next(t.Context(), silent); !errors.Is(err, errSilent) {
		t.Errorf("silence is %v", err)
	}
}

// TestFewMessages holds that a MiB of output that is ready takes a few messages, not one for each piece that a guest agent reads.
func TestFewMessages(t *testing.T) {
	const size = 1 << 20
	piece := make([]byte, 8<<10)
	var ready []received
	for at := 0; at < size; at += len(piece) {
		ready = append(ready, received{message: core.ExecMessage{Kind: core.ExecStdout, Offset: int64(at), Data: piece}})
	}
	if messages := gathered(t, ready...); len(messages) > 8 {
		t.Errorf("%d messages", len(messages))
	}
}
