package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	shoal "shoal/sdk/go"
)

// stepCheckpoint is the name of the step.
const stepCheckpoint = "checkpoint"

// What the sandbox has, and how many checkpoints are made of it in a row.
const (
	savedFiles = 100_000
	savedBytes = 5 << 30
	savedInRow = 200
	// leastSaves is the fewest that tell a percentile.
	leastSaves = 30
)

// fill makes files of random bytes, in directories of a thousand.
const fill = `
import os, random
block = os.urandom(1 << 20)
each = %d // %d
for i in range(%d):
    if i %% 1000 == 0: os.makedirs("/saved/%%d" %% (i // 1000))
    at = random.randrange(len(block) - each)
    with open("/saved/%%d/%%d" %% (i // 1000, i), "wb") as f: f.write(block[at:at + each])
`

// load is what a sandbox does meanwhile.
type load struct{ name, script string }

// What the sandbox does meanwhile: nothing, small files all the time, or 50 MB/s into a file that begins anew at a gigabyte.
var busy = []load{
	{"idle", ""},
	{"small files", `
import os, time
os.makedirs("/saved/small", exist_ok=True)
n = 0
while True:
    n += 1
    with open("/saved/small/%d" % (n % 5000), "wb") as f: f.write(os.urandom(2048))
    if n % 20 == 0: time.sleep(0.01)
`},
	{"50 MB/s", `
import os, time
block, f, n, start = os.urandom(1 << 20), open("/saved/stream", "wb"), 0, time.monotonic()
while True:
    f.write(block); n += 1
    if n % 1000 == 0: f.seek(0)
    time.sleep(max(0, start + n / 50 - time.monotonic()))
`},
}

// measureCheckpoint makes checkpoints of a large sandbox while it is idle and while it writes, with a neighbour that runs commands beside it.
func measureCheckpoint(ctx context.Context, n int, srv *server, _ *bare, r *report) (err error) {
	n = max(n, leastSaves)
	memory, disk := int64(1<<30), int64(12<<30)
	sb, err := srv.client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{MemoryBytes: &memory, DiskBytes: &disk})
	if err != nil {
		return err
	}
	neighbour, err := srv.client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{})
	if err != nil {
		return err
	}
	defer func() {
		for _, id := range []string{sb.ID, neighbour.ID} {
			err = errors.Join(err, srv.client.Sandboxes().DeleteWithCheckpoints(context.WithoutCancel(ctx), id))
		}
		err = errors.Join(err, srv.settled(context.WithoutCancel(ctx)))
	}()
	fmt.Fprintf(os.Stderr, "writing %d files\n", savedFiles)
	script := fmt.Sprintf(fill, savedBytes, savedFiles, savedFiles)
	if err := srv.run(ctx, sb.ID, "python3", "-c", script+"\nos.sync()"); err != nil {
		return err
	}
	quiet, err := beside(ctx, srv, neighbour.ID, func() error { return pause(ctx, 10*time.Second) })
	if err != nil {
		return err
	}
	addAll(r, "neighbour's exec, nothing beside it", quiet)
	for _, load := range busy {
		b := saving{srv: srv, r: r, sandbox: sb.ID, neighbour: neighbour.ID, load: load}
		if err := b.measure(ctx, n); err != nil {
			return err
		}
	}
	return saveInRow(ctx, srv, r, sb.ID)
}

// saving makes checkpoints while the sandbox is busy, with a neighbour beside it.
type saving struct {
	srv                *server
	r                  *report
	sandbox, neighbour string
	load               load
}

func (b saving) measure(ctx context.Context, n int) error {
	srv, r, ids, name, script := b.srv, b.r, [2]string{b.sandbox, b.neighbour}, b.load.name, b.load.script
	stop := func() error { return nil }
	if script != "" {
		x, err := srv.client.Execs(ids[0]).Start(ctx, shoal.ExecRequest{Cmd: []string{"python3", "-c", script}})
		if err != nil {
			return err
		}
		stop = func() error { return srv.client.Execs(ids[0]).Cancel(context.WithoutCancel(ctx), x.ID) }
		if err := pause(ctx, 5*time.Second); err != nil { // until it has its pace
			return errors.Join(err, stop())
		}
	}
	var made []string
	told, err := beside(ctx, srv, ids[1], func() error {
		for range n {
			start := time.Now()
			c, err := srv.client.Checkpoints().Create(ctx, ids[0], shoal.CreateCheckpointRequest{})
			if err != nil {
				return err
			}
			r.series("checkpoint, "+name, "ms").since(start)
			made = append(made, c.ID)
			if err := pause(ctx, rest); err != nil {
				return err
			}
		}
		return nil
	})
	err = errors.Join(err, stop())
	if err != nil {
		return err
	}
	addAll(r, "neighbour's exec, beside checkpoints, "+name, told)
	held, err := srv.held(made)
	addAll(r, "checkpoint, "+name+": processes held", held)
	for _, id := range made {
		err = errors.Join(err, srv.client.Checkpoints().Delete(ctx, id))
	}
	return err
}

// saveInRow makes many checkpoints, with a small change before each, and compares the last with the first.
func saveInRow(ctx context.Context, srv *server, r *report, id string) error {
	var took []float64
	for range savedInRow {
		if err := srv.run(ctx, id, "sh", "-c", "date >/saved/now"); err != nil {
			return err
		}
		start := time.Now()
		if _, err := srv.client.Checkpoints().Create(ctx, id, shoal.CreateCheckpointRequest{}); err != nil {
			return err
		}
		took = append(took, float64(time.Since(start).Microseconds())/1000)
	}
	first, last := took[:leastSaves], took[len(took)-leastSaves:]
	addAll(r, "checkpoint, the first 30 of 200", first)
	addAll(r, "checkpoint, the last 30 of 200", last)
	median := func(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }
	r.goal("checkpoint, the last of 200 ÷ the first", median(last)/median(first), 1.3, "×")
	return nil
}

// beside runs commands in a sandbox, one after the other, while act goes on, and returns how long each took in ms.
func beside(ctx context.Context, srv *server, id string, act func() error) (took []float64, err error) {
	done := make(chan error, 1)
	go func() { done <- act() }()
	for {
		select {
		case err := <-done:
			return took, err
		default:
		}
		start := time.Now()
		if err := srv.run(ctx, id, "true"); err != nil {
			return took, errors.Join(err, <-done)
		}
		took = append(took, float64(time.Since(start).Microseconds())/1000)
	}
}

func addAll(r *report, name string, values []float64) {
	s := r.series(name, "ms")
	for _, v := range values {
		s.add(v)
	}
}

// held reads in the server's log for how long the processes were held for each of these checkpoints.
func (s *server) held(ids []string) (held []float64, err error) {
	f, err := os.Open(filepath.Join(s.dir, "server.log"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		_, text, ok := strings.Cut(lines.Text(), "held_ms=")
		if !ok || !slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(lines.Text(), id) }) {
			continue
		}
		ms, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
		if err != nil {
			return nil, err
		}
		held = append(held, ms)
	}
	if len(held) != len(ids) {
		return held, fmt.Errorf("the log tells of %d of %d checkpoints", len(held), len(ids))
	}
	return held, nil
}
