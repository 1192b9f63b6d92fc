package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	shoal "shoal/sdk/go"
)

const (
	// mapKept is how much of each stream is kept to be printed.
	mapKept = 1 << 20
	// fullMost is how long it is tried again to make a sandbox while none of ours runs that would make room.
	fullMost = 2 * time.Minute
)

// The outcomes of an item beside those of an exec.
const (
	outcomeFailed      = "failed"      // the command was not run, or its files could not be copied
	outcomeInterrupted = "interrupted" // we were told to stop
)

// mapResult is what came of one item.
type mapResult struct {
	Index   int    `json:"index"`
	Item    string `json:"item"`
	Sandbox string `json:"sandbox,omitempty"`
	Exec    string `json:"exec,omitempty"`
	Outcome string `json:"outcome"`
	// ExitCode is what the command returned; nil unless the outcome is exited.
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	// Message says why the outcome is failed or lost.
	Message     string `json:"message,omitempty"`
	DurationMs  int64  `json:"duration_ms"`
	StdoutBytes int64  `json:"stdout_bytes"`
	StderrBytes int64  `json:"stderr_bytes"`
	Tries       int    `json:"tries"`
	// Stdout and Stderr are the output if there is no --dir. Truncated says that there was more.
	// What isn't UTF-8 is in the raw fields.
	Stdout    string `json:"stdout,omitempty"`
	StdoutRaw []byte `json:"stdout_raw,omitempty"`
	Stderr    string `json:"stderr,omitempty"`
	StderrRaw []byte `json:"stderr_raw,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`

	out, err sink
}

func (r mapResult) ok() bool {
	return r.Outcome == string(shoal.OutcomeExited) && r.ExitCode != nil && *r.ExitCode == 0 && r.Message == ""
}

// start starts the items in their order, each when there is a place, until ctx ends, and waits for all.
func (m *mapper) start(ctx context.Context, items []string, begun func(), done chan<- mapResult) {
	var all sync.WaitGroup
	defer all.Wait()
	for i, item := range items {
		if m.places.take(ctx) != nil {
			return
		}
		begun()
		all.Go(func() {
			defer m.places.give()
			done <- m.item(ctx, i+1, item)
		})
	}
}

// item runs the command for an item, again if its end was lost.
func (m *mapper) item(ctx context.Context, index int, item string) mapResult {
	for try := 1; ; try++ {
		r := m.once(ctx, index, item)
		r.Tries = try
		if r.Outcome != string(shoal.OutcomeLost) || try > m.flags.retry || ctx.Err() != nil {
			return r
		}
	}
}

// once makes a sandbox, runs the command in it and deletes it.
func (m *mapper) once(ctx context.Context, index int, item string) (r mapResult) {
	r = mapResult{Index: index, Item: item, Outcome: outcomeFailed}
	fail := func(err error) mapResult {
		if r.Message = explain(err); ctx.Err() != nil {
			r.Outcome = outcomeInterrupted
		}
		return r
	}
	req := m.sandbox
	// A name of our own: if the answer to the create is lost, the sandbox can still be deleted.
	req.Name = fmt.Sprintf("map-%s-%d", strings.ToLower(rand.Text()[:10]), index)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		if err := m.client.Sandboxes().Delete(ctx, req.Name); err != nil && shoal.ErrorCode(err) != shoal.CodeNotFound && r.Message == "" {
			r.Message = "its sandbox is left to its ttl: " + explain(err)
		}
	}()
	sb, err := m.create(ctx, req)
	m.refusal.note(err)
	if err != nil {
		return fail(err)
	}
	r.Sandbox = sb.ID
	if err := (runner{m.app}).copyIn(ctx, m.client, sb, "", m.flags.copies.in); err != nil {
		return fail(err)
	}
	if err := r.open(m.flags.dir); err != nil {
		return fail(err)
	}
	began := time.Now()
	exec, err := m.exec(ctx, sb.ID, &r)
	r.DurationMs = time.Since(began).Milliseconds()
	if cerr := r.close(); err == nil && cerr != nil {
		return fail(cerr)
	}
	switch {
	case err != nil && ctx.Err() == nil && (r.Exec != "" || unanswered(err)):
		// It was started, or may have been, and what became of it can't be learned.
		r.Outcome, r.Message = string(shoal.OutcomeLost), explain(err)
		return r
	case err != nil:
		return fail(err)
	}
	r.Outcome, r.ExitCode, r.Signal = string(exec.Outcome), exec.ExitCode, exec.Signal
	if err := m.fetch(ctx, sb, index); err != nil {
		r.Message = explain(err)
	}
	return r
}

// unanswered reports whether a call may have done what it was to do, though no answer of the server says so.
func unanswered(err error) bool {
	e, ok := errors.AsType[*shoal.Error](err)
	return ok && e.Code == shoal.CodeUnavailable && e.RequestID == ""
}

// create makes a sandbox. When the server has no room it is asked again: when one of ours has ended, or for a while.
func (m *mapper) create(ctx context.Context, req shoal.CreateSandboxRequest) (sb shoal.Sandbox, err error) {
	var since time.Time
	for {
		err = m.pace.call(ctx, func() (err error) {
			sb, err = m.app.create(ctx, m.client, req)
			return err
		})
		if shoal.ErrorCode(err) != shoal.CodeExhausted {
			if err == nil {
				m.places.made()
			}
			return sb, err
		}
		if others := m.places.full(); others || since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > fullMost {
			return sb, err
		}
		select {
		case <-time.After(min(pauseOf(err), 10*time.Second)):
		case <-ctx.Done():
			return sb, ctx.Err()
		}
	}
}

// exec runs the command to its end, with its output to where the result keeps it.
func (m *mapper) exec(ctx context.Context, sandbox string, r *mapResult) (shoal.Exec, error) {
	req := shoal.ExecRequest{Env: map[string]string{"SHOAL_ITEM": r.Item, "SHOAL_INDEX": strconv.Itoa(r.Index)}, User: m.flags.user}
	for k, v := range m.flags.environment {
		req.Env[k] = v
	}
	for _, arg := range m.cmd {
		req.Cmd = append(req.Cmd, strings.ReplaceAll(arg, "{}", r.Item))
	}
	if m.flags.timeout > 0 {
		req.TimeoutSeconds = new(time.Duration(m.flags.timeout).Seconds())
	}
	var stream shoal.ExecStream
	err := m.pace.call(ctx, func() (err error) {
		stream, err = m.client.Execs(sandbox).Stream(ctx, req)
		return err
	})
	if err != nil {
		return shoal.Exec{}, err
	}
	f := &follower{execs: m.client.Execs(sandbox), out: &r.out, err: &r.err}
	e, err := f.watch(ctx, stream)
	r.Exec, r.StdoutBytes, r.StderrBytes = f.id, r.out.bytes, r.err.bytes
	return e, err
}

// fetch copies out what --out names.
func (m *mapper) fetch(ctx context.Context, sb shoal.Sandbox, index int) error {
	if len(m.flags.out) == 0 {
		return nil
	}
	dir := filepath.Join(m.flags.dir, fmt.Sprintf("%06d", index))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	base, err := (runner{m.app}).base(ctx, m.client, sb, "")
	if err != nil {
		return err
	}
	for _, from := range m.flags.out {
		if !path.IsAbs(from) {
			from = path.Join(base, from)
		}
		if err := m.copy(ctx, unnamed(m.client, sb.ID), from, m.local(), dir+string(os.PathSeparator)); err != nil {
			return err
		}
	}
	return nil
}

// open says where the output goes.
func (r *mapResult) open(dir string) (err error) {
	if dir == "" {
		r.out.kept, r.err.kept = &bytes.Buffer{}, &bytes.Buffer{}
		return nil
	}
	name := filepath.Join(dir, fmt.Sprintf("%06d", r.Index))
	if r.out.file, err = os.Create(name + ".out"); err == nil {
		r.err.file, err = os.Create(name + ".err")
	}
	return err
}

func (r *mapResult) close() error {
	r.Truncated = r.out.cut || r.err.cut
	return errors.Join(r.out.close(), r.err.close())
}

// sink takes the output of one stream: into a file, or the first of it into memory.
type sink struct {
	file  *os.File
	kept  *bytes.Buffer
	bytes int64
	cut   bool
}

// Write takes a piece of output.
func (s *sink) Write(p []byte) (int, error) {
	s.bytes += int64(len(p))
	if s.file != nil {
		return s.file.Write(p)
	}
	room := min(len(p), mapKept-s.kept.Len())
	s.cut = s.cut || room < len(p)
	s.kept.Write(p[:room])
	return len(p), nil
}

func (s *sink) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// text returns what is kept.
func (s *sink) text() []byte {
	if s.kept == nil {
		return nil
	}
	return s.kept.Bytes()
}

var _ io.Writer = (*sink)(nil)
