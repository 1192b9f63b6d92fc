package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shoal/internal/core"
)

// process is one process of the fake: its program is one of those in run.
type process struct {
	started core.Exec
	done    chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and renewed with every change
	exec    core.Exec
	chunks  []core.ExecMessage
	stdin   bytes.Buffer
	eof     bool
	// hold, if not nil, keeps Close of a stream waiting until it is closed.
	hold chan struct{}
}

func newProcess(e core.Exec) *process {
	return &process{started: e, exec: e, done: make(chan struct{}), changed: make(chan struct{})}
}

// run is the program: echo, err, raw, exit, cat, wait, flood, zeros.
func (p *process) run() {
	arg := strings.Join(p.exec.Spec.Cmd[1:], " ")
	code := 0
	switch p.exec.Spec.Cmd[0] {
	case "echo":
		p.write(core.ExecStdout, []byte(arg+"\n"))
	case "err":
		p.write(core.ExecStderr, []byte(arg+"\n"))
	case "raw":
		p.write(core.ExecStdout, []byte{0xff, 0xfe})
	case "exit":
		code, _ = strconv.Atoi(arg)
	case "flood":
		n, _ := strconv.Atoi(arg)
		p.write(core.ExecStdout, bytes.Repeat([]byte("x"), n))
	case "zeros":
		n, _ := strconv.Atoi(arg)
		p.write(core.ExecStdout, make([]byte, n))
	case "cat":
		if !p.copyInput() {
			return
		}
	case "wait":
		<-p.done
		return
	}
	p.end(core.OutcomeExited, &code, "")
}

// copyInput writes what it reads until the input ends; false says that the process was ended first.
func (p *process) copyInput() bool {
	for {
		p.mu.Lock()
		data, eof, changed := bytes.Clone(p.stdin.Bytes()), p.eof, p.changed
		p.stdin.Reset()
		p.mu.Unlock()
		if len(data) > 0 {
			p.write(core.ExecStdout, data)
			continue
		}
		if eof {
			return true
		}
		select {
		case <-changed:
		case <-p.done:
			return false
		}
	}
}

// update changes the process under its lock and wakes its followers.
func (p *process) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *process) write(kind core.ExecStreamKind, data []byte) {
	p.update(func() {
		p.chunks = append(p.chunks, core.ExecMessage{Kind: kind, Offset: p.exec.OutputBytes, Data: data})
		p.exec.OutputBytes += int64(len(data))
	})
}

// forget drops output before an offset, as a full ring does.
func (p *process) forget(before int64) { p.update(func() { p.exec.OutputFrom = before }) }

func (p *process) end(o core.Outcome, code *int, signal string) {
	p.update(func() {
		if p.exec.Outcome != core.OutcomeRunning {
			return
		}
		p.exec.Outcome, p.exec.ExitCode, p.exec.Signal = o, code, signal
		p.exec.EndedAt, p.exec.Processes = p.exec.StartedAt.Add(38*time.Millisecond), 0
		close(p.done)
	})
}

func (p *process) ended() bool { return p.record().Outcome != core.OutcomeRunning }

func (p *process) record() core.Exec {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exec
}

func (p *process) output(kind core.ExecStreamKind) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []byte
	for _, c := range p.chunks {
		if c.Kind == kind {
			out = append(out, c.Data...)
		}
	}
	return out
}

func (p *process) signal(name string) error {
	if !slices.Contains([]string{"SIGTERM", "SIGKILL", "SIGINT"}, name) {
		return core.Invalid("signal", "no such signal")
	}
	if p.ended() {
		return core.Errorf(core.CodeConflict, "the exec has ended")
	}
	p.end(core.OutcomeSignaled, nil, name)
	return nil
}

func (p *process) resize(rows, cols uint16) error {
	if !p.exec.Spec.TTY || p.ended() {
		return core.Errorf(core.CodeConflict, "the exec has no terminal")
	}
	p.write(core.ExecStdout, fmt.Appendf(nil, "%dx%d\n", rows, cols))
	return nil
}

func (p *process) input(data []byte, end bool) error {
	if !p.exec.Spec.Stdin || p.ended() {
		return core.Errorf(core.CodeConflict, "the exec takes no input")
	}
	p.update(func() {
		p.stdin.Write(data)
		p.eof = p.eof || end
	})
	return nil
}

// follow returns a stream of the process.
func (p *process) follow(from int64, started bool) core.ExecStream {
	return &fakeStream{process: p, at: from, starting: started, closed: make(chan struct{})}
}

type fakeStream struct {
	*process
	at       int64
	starting bool
	over     bool
	once     sync.Once
	closed   chan struct{}
}

func (s *fakeStream) Recv() (core.ExecMessage, error) {
	if s.starting {
		s.starting = false
		e := s.started
		return core.ExecMessage{Kind: core.ExecStarted, Exec: &e}, nil
	}
	for !s.over {
		m, changed := s.next()
		if m.Kind != "" {
			return m, nil
		}
		select {
		case <-changed:
		case <-s.closed:
			return core.ExecMessage{}, core.Errorf(core.CodeCanceled, "the stream was closed")
		}
	}
	return core.ExecMessage{}, io.EOF
}

// next returns the message at the stream's offset, or an empty one and what to wait for.
func (s *fakeStream) next() (core.ExecMessage, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from := s.exec.OutputFrom; s.at < from {
		m := core.ExecMessage{Kind: core.ExecGap, Offset: s.at, Missing: from - s.at}
		s.at = from
		return m, nil
	}
	for _, c := range s.chunks {
		if end := c.Offset + int64(len(c.Data)); s.at < end {
			c.Data, c.Offset = c.Data[s.at-c.Offset:], s.at
			s.at = end
			return c, nil
		}
	}
	if s.exec.Outcome != core.OutcomeRunning {
		s.over = true
		e := s.exec
		return core.ExecMessage{Kind: core.ExecEnded, Offset: s.exec.OutputBytes, Exec: &e}, nil
	}
	return core.ExecMessage{}, s.changed
}

func (s *fakeStream) SendStdin(data []byte) error    { return s.input(data, false) }
func (s *fakeStream) CloseStdin() error              { return s.input(nil, true) }
func (s *fakeStream) Signal(name string) error       { return s.signal(name) }
func (s *fakeStream) Resize(rows, cols uint16) error { return s.resize(rows, cols) }

func (s *fakeStream) Close() error {
	s.once.Do(func() { close(s.closed) })
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return nil
}

// fakeFiles is a guest agent's files in memory. Other methods of core.Guest are not used here.
type fakeFiles struct {
	core.Guest
	mu    sync.Mutex
	files map[string][]byte
	modes map[string]uint32
	// claims overrides the size that a file says it has.
	claims map[string]int64
	// What was asked for.
	changes  []core.FileChange
	links    []core.LinkOptions
	appended bool
	watched  []core.WatchOptions
	watches  []*fakeWatch

	// parts has one file, unless the test puts a real guest agent here.
	parts core.PartWriter
}

func newFakeFiles() *fakeFiles {
	return &fakeFiles{
		files: map[string][]byte{"/": nil}, modes: map[string]uint32{}, claims: map[string]int64{}, parts: onePart{},
	}
}

func (f *fakeFiles) info(path string) core.FileInfo {
	data := f.files[path]
	i := core.FileInfo{
		Name: path[strings.LastIndex(path, "/")+1:], Path: path, Type: core.FileRegular, Size: int64(len(data)), Mode: 0o644,
		UID: 1000, GID: 1000, Owner: "user", Group: "user", MTime: epoch,
	}
	if len(data) > 0 {
		i.Version = fmt.Sprintf("%x", crc32.ChecksumIEEE(data))
	}
	if m, ok := f.modes[path]; ok {
		i.Mode = m
	}
	if data == nil {
		i.Type = core.FileDirectory
	}
	if n, ok := f.claims[path]; ok {
		i.Size = n
	}
	return i
}

func (f *fakeFiles) Stat(_ context.Context, path string) (core.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.files[path]; !ok {
		return core.FileInfo{}, core.Errorf(core.CodeNotFound, "no such file")
	}
	return f.info(path), nil
}

func (f *fakeFiles) ListFiles(_ context.Context, path, after string, limit int) ([]core.FileInfo, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	prefix := strings.TrimSuffix(path, "/") + "/"
	var list []core.FileInfo
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		base, ok := strings.CutPrefix(name, prefix)
		if ok && base > after && base != "" && !strings.Contains(base, "/") && len(list) < limit {
			list = append(list, f.info(name))
		}
	}
	return list, len(list) == limit, nil
}

func (f *fakeFiles) ReadFile(_ context.Context, path string, offset, length int64) (core.FileInfo, io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, ok := f.files[path]
	if !ok {
		return core.FileInfo{}, nil, core.Errorf(core.CodeNotFound, "no such file")
	}
	rest := data[min(offset, int64(len(data))):]
	if length >= 0 {
		rest = rest[:min(length, int64(len(rest)))]
	}
	return f.info(path), io.NopCloser(bytes.NewReader(rest)), nil
}

func (f *fakeFiles) WriteFile(_ context.Context, path string, o core.WriteOptions, r io.Reader) (core.FileInfo, error) {
	data, err := io.ReadAll(r)
	if known := (*core.Error)(nil); errors.As(err, &known) {
		return core.FileInfo{}, err
	}
	if err != nil {
		return core.FileInfo{}, core.Wrap(core.CodeUnavailable, err, "the upload broke off")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[path] = append([]byte{}, data...)
	f.appended = o.Append
	if o.Mode != 0 {
		f.modes[path] = o.Mode
	}
	return f.info(path), nil
}

func (f *fakeFiles) Mkdir(_ context.Context, path string, o core.WriteOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.files[path]; ok && !o.Parents {
		return core.Errorf(core.CodeExists, "it exists")
	}
	f.files[path], f.modes[path] = nil, o.Mode
	return nil
}

func (f *fakeFiles) Move(_ context.Context, from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, ok := f.files[from]
	if !ok {
		return core.Errorf(core.CodeNotFound, "no such file")
	}
	delete(f.files, from)
	f.files[to] = data
	return nil
}

func (f *fakeFiles) Remove(_ context.Context, path string, _ core.RemoveOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.files[path]; !ok {
		return core.Errorf(core.CodeNotFound, "no such file")
	}
	delete(f.files, path)
	return nil
}
