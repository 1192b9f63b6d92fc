package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	shoal "shoal/sdk/go"
)

const (
	transferBytes = 1 << 30
	transferRuns  = 3
	pipeUp        = "cat | cat of 1 GiB to a file, inside"
	pipeDown      = "cat | cat of 1 GiB to /dev/null, inside"
)

// repeated is a file of so many bytes: one block of noise over and over.
type repeated struct {
	block []byte
	size  int64
}

func newRepeated(size int64) *repeated {
	block := make([]byte, mib)
	_, _ = rand.NewChaCha8([32]byte{}).Read(block) // never fails
	return &repeated{block, size}
}

// ReadAt reads at any offset.
func (r *repeated) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) && off < r.size {
		from := r.block[off%int64(len(r.block)):]
		k := copy(p[n:], from[:min(int64(len(from)), r.size-off)])
		n, off = n+k, off+int64(k)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// measureFiles moves 1 GiB into and out of a sandbox through the API and, in turns, the same bytes through a pipe inside it.
func measureFiles(ctx context.Context, n int, srv *server, _ *bare, r *report) error {
	sb, err := srv.client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{})
	if err != nil {
		return err
	}
	t := &transfer{srv: srv, sandbox: sb.ID, report: r, content: newRepeated(transferBytes)}
	for range min(n, transferRuns) {
		for _, step := range t.steps() {
			if err := t.measure(ctx, step); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
	}
	for _, step := range t.steps() {
		if step.pipe != "" {
			ours, pipe := r.find(step.name), r.find(step.pipe)
			ours.finish()
			pipe.finish()
			r.goal(step.name+" ÷ "+step.pipe, ours.P50/pipe.P50, 2, "×")
		}
	}
	r.goal("server's memory above what it was, during 1 GiB", float64(t.server)/mib, 32, "MiB")
	r.goal("guest agent's memory above what it was, during 1 GiB", float64(t.agent)/mib, 32, "MiB")
	return srv.client.Sandboxes().Delete(ctx, sb.ID)
}

// transfer is a large file on its way, and how much more memory that has ever taken.
type transfer struct {
	srv           *server
	sandbox       string
	report        *report
	content       *repeated
	server, agent int64
}

// transferStep is one way for the file; pipe names what it is compared with, if it is.
type transferStep struct {
	name, pipe string
	run        func(context.Context) error
}

func (t *transfer) steps() []transferStep {
	files := t.srv.client.Files(t.sandbox)
	shell := func(script string) func(context.Context) error {
		return func(ctx context.Context) error { return t.srv.run(ctx, t.sandbox, "/bin/sh", "-ec", script) }
	}
	return []transferStep{
		{"1 GiB up in one call", pipeUp, func(ctx context.Context) error {
			_, err := files.Write(ctx, "/root/up", io.NewSectionReader(t.content, 0, transferBytes), shoal.WriteOptions{})
			return err
		}},
		{pipeUp, "", shell("cat /root/up | cat >/root/piped")},
		{"1 GiB up in parts", pipeUp, func(ctx context.Context) error {
			_, err := files.Upload(ctx, "/root/up", t.content, transferBytes, shoal.WriteOptions{}, shoal.Resume{})
			return err
		}},
		{"1 GiB down", pipeDown, func(ctx context.Context) error {
			body, err := files.Download(ctx, "/root/up", shoal.Resume{})
			if err != nil {
				return err
			}
			got, err := io.Copy(io.Discard, body)
			if err == nil && got != transferBytes {
				err = fmt.Errorf("%d bytes came", got)
			}
			return errors.Join(err, body.Close())
		}},
		{pipeDown, "", shell("cat /root/up | cat >/dev/null; rm -f /root/piped")},
	}
}

// measure times a step and, if it is one of the API, watches what memory it takes.
func (t *transfer) measure(ctx context.Context, step transferStep) error {
	if step.pipe == "" {
		start := time.Now()
		err := step.run(ctx)
		t.report.series(step.name, "ms").since(start)
		return err
	}
	agent, err := t.watchAgent(ctx)
	if err != nil {
		return err
	}
	server := watchServer(ctx, strconv.Itoa(t.srv.cmd.Process.Pid))
	start := time.Now()
	err = step.run(ctx)
	t.report.series(step.name, "ms").since(start)
	grown, serverErr := server()
	grownInside, agentErr := agent()
	t.server, t.agent = max(t.server, grown), max(t.agent, grownInside)
	return errors.Join(err, serverErr, agentErr)
}

// growth is how much more a figure has been than at first.
type growth struct{ first, most int64 }

func (g *growth) add(v int64) {
	if g.first == 0 {
		g.first = v
	}
	g.most = max(g.most, v-g.first)
}

// watchServer looks at the server's memory until the returned function is called, which says by how much it grew.
func watchServer(ctx context.Context, pid string) (stop func() (int64, error)) {
	ctx, cancel := context.WithCancel(ctx)
	var g growth
	var err error
	var done sync.WaitGroup
	done.Go(func() {
		for err == nil {
			var now int64
			if now, err = processMemory(pid); err == nil {
				g.add(now)
			}
			if pause(ctx, 20*time.Millisecond) != nil {
				return
			}
		}
	})
	return func() (int64, error) {
		cancel()
		done.Wait()
		return g.most, err
	}
}

// watchAgent does the same for the guest agent, which is the sandbox's first process, from inside. It returns once it has looked.
func (t *transfer) watchAgent(ctx context.Context) (stop func() (int64, error), err error) {
	const script = "while :; do grep VmRSS: /proc/1/status; sleep 0.05; done"
	execs := t.srv.client.Execs(t.sandbox)
	stream, err := execs.Stream(ctx, shoal.ExecRequest{Shell: script})
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	var done sync.WaitGroup
	done.Go(func() {
		for {
			m, err := stream.Recv()
			if err == nil {
				_, err = in.Write(m.Bytes())
			}
			if err != nil {
				_ = in.CloseWithError(err) // never fails
				return
			}
		}
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return nil, errors.Join(errors.New("the guest agent's memory can't be seen"), lines.Err())
	}
	var g growth
	var bad error
	look := func() {
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(lines.Text(), "VmRSS:"), "kB")), 10, 64)
		bad = errors.Join(bad, err)
		g.add(kib << 10)
	}
	look()
	done.Go(func() {
		for lines.Scan() {
			look()
		}
	})
	return func() (int64, error) {
		err := stream.Signal("SIGKILL")
		done.Wait()
		return g.most, errors.Join(err, bad, stream.Close())
	}, nil
}
