package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	shoal "shoal/sdk/go"
)

// counted is as far as a counter must have come before its server is killed.
const counted = 10

// showRestart kills the server while a process counts, starts it again, and shows that the process went on and that none of
// its output is missing or there twice.
func (t *tour) showRestart(ctx context.Context) error {
	id, _, err := t.sandbox(ctx)
	if err != nil {
		return err
	}
	if err := t.script(ctx, id, "count.py"); err != nil {
		return err
	}
	e, err := t.client.Execs(id).Start(ctx, shoal.ExecRequest{Cmd: []string{"python3", "count.py"}, Cwd: "/tmp/tour"})
	if err != nil {
		return err
	}
	count := &counter{}
	if err := count.follow(ctx, t.client.Execs(id), e.ID, counted); err != nil {
		return err
	}
	before := count.last
	down := time.Now()
	if err := t.server.kill(); err != nil {
		return err
	}
	t.say("   A process in a sandbox counts and is at %d. kill -9: no server any more.", before)
	client, err := t.server.start(ctx)
	if err != nil {
		return err
	}
	t.client = client
	gone := time.Since(down)
	again, err := client.Execs(id).Get(ctx, e.ID)
	if err != nil {
		return err
	}
	if !again.Running || again.PID != e.PID {
		return fmt.Errorf("the process is not the same: running %t, pid %d, was %d", again.Running, again.PID, e.PID)
	}
	// As much as it counts in the time without a server must have come meanwhile, give or take.
	least := before + max(1, int(gone.Seconds()*5))
	if err := count.follow(ctx, client.Execs(id), e.ID, least); err != nil {
		return err
	}
	t.say("   A new server answers %s later, and the same process (pid %d) is at %d: it never stopped,", duration(gone), again.PID, count.last)
	t.say("   and of its output no number is missing and none is there twice.")
	return nil
}

// counter reads the numbers 1, 2, 3, … and insists on every one of them.
type counter struct {
	last   int
	offset int64
	line   []byte
}

// follow reads on from where it was until the number is at least n.
func (c *counter) follow(ctx context.Context, execs shoal.Execs, exec string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, tourStartTime)
	defer cancel()
	stream, err := execs.Attach(ctx, exec, c.offset)
	if err != nil {
		return err
	}
	err = c.read(stream, n)
	return errors.Join(err, stream.Close())
}

func (c *counter) read(stream shoal.ExecStream, n int) error {
	for c.last < n {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		data := m.Bytes()
		if m.Offset == nil || len(data) == 0 {
			continue
		}
		if *m.Offset != c.offset {
			return fmt.Errorf("output jumps from byte %d to byte %d", c.offset, *m.Offset)
		}
		c.offset += int64(len(data))
		if err := c.add(data); err != nil {
			return err
		}
	}
	return nil
}

func (c *counter) add(data []byte) error {
	c.line = append(c.line, data...)
	for {
		text, rest, ok := bytes.Cut(c.line, []byte("\n"))
		if !ok {
			return nil
		}
		n, err := strconv.Atoi(string(text))
		if err != nil || n != c.last+1 {
			return fmt.Errorf("after %d comes %q", c.last, text)
		}
		c.last, c.line = n, rest
	}
}
