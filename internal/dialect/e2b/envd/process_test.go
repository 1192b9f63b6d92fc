package envd_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd/processpb"
)

func (b *bench) processes(options ...connect.ClientOption) processpb.ProcessClient {
	return processpb.NewProcessClient(http.DefaultClient, b.url, append([]connect.ClientOption{connect.WithProtoJSON()}, options...)...)
}

// shell is a start as the clients make it.
func shell(script string) *processpb.StartRequest {
	return &processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", script}}, Stdin: proto.Bool(false)}
}

// ran is everything that a stream said.
type ran struct {
	pid                 int
	stdout, stderr, pty string
	end                 *processpb.ProcessEvent_EndEvent
	beats, chunk        int
	err                 error
}

// events is a stream of either kind.
type events interface {
	Receive() bool
	Err() error
	Close() error
}

// next returns the next event, nil at the end.
func next(s events) *processpb.ProcessEvent {
	if !s.Receive() {
		return nil
	}
	switch s := s.(type) {
	case *connect.ServerStreamForClient[processpb.StartResponse]:
		return s.Msg().GetEvent()
	case *connect.ServerStreamForClient[processpb.ConnectResponse]:
		return s.Msg().GetEvent()
	}
	return nil
}

// drain reads a stream to its end.
func (r *ran) drain(s events) {
	for first := r.pid == 0; ; first = false {
		e := next(s)
		if e == nil {
			r.err = s.Err()
			return
		}
		r.take(e, first)
	}
}

func (r *ran) take(e *processpb.ProcessEvent, first bool) {
	switch e := e.GetEvent().(type) {
	case *processpb.ProcessEvent_Start:
		r.pid = int(e.Start.GetPid())
		if !first {
			r.err = errors.New("start is not the first event")
		}
	case *processpb.ProcessEvent_Data:
		r.stdout += string(e.Data.GetStdout())
		r.stderr += string(e.Data.GetStderr())
		r.pty += string(e.Data.GetPty())
		r.chunk = max(r.chunk, len(e.Data.GetStdout()), len(e.Data.GetPty()))
	case *processpb.ProcessEvent_End:
		r.end = e.End
	case *processpb.ProcessEvent_Keepalive:
		r.beats++
	}
}

// run starts a process and follows it to its end.
func (b *bench) run(t *testing.T, m *processpb.StartRequest, header ...string) (r ran) {
	t.Helper()
	s := b.start(t, t.Context(), m, header...)
	defer func() { _ = s.Close() }()
	r.drain(s)
	return r
}

func (b *bench) start(t *testing.T, ctx context.Context, m *processpb.StartRequest, header ...string) *connect.ServerStreamForClient[processpb.StartResponse] { //nolint:revive // t first, as in all tests
	t.Helper()
	req := connect.NewRequest(m)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header().Set(header[i], header[i+1])
	}
	s, err := b.processes().Start(ctx, req)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return s
}

// begin starts a process and returns when it has been told to run.
func (b *bench) begin(t *testing.T, ctx context.Context, m *processpb.StartRequest, header ...string) (*connect.ServerStreamForClient[processpb.StartResponse], *ran) { //nolint:revive // as above
	t.Helper()
	s := b.start(t, ctx, m, header...)
	r := &ran{}
	e := next(s)
	if e == nil {
		t.Fatalf("no start: %v", s.Err())
	}
	r.take(e, true)
	return s, r
}

func basic(user string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"))
}

func byPID(pid int) *processpb.ProcessSelector {
	return &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Pid{Pid: uint32(pid)}}
}

func byTag(tag string) *processpb.ProcessSelector {
	return &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Tag{Tag: tag}}
}

func TestStart(t *testing.T) {
	b := newBench(t)
	for script, want := range map[string]ran{
		"echo out; echo err >&2":         {stdout: "out\n", stderr: "err\n", end: &processpb.ProcessEvent_EndEvent{Exited: true, Status: "exit status 0"}},
		"exit 7":                         {end: &processpb.ProcessEvent_EndEvent{ExitCode: 7, Exited: true, Status: "exit status 7", Error: proto.String("exit status 7")}},
		"kill -9 $$":                     {end: &processpb.ProcessEvent_EndEvent{ExitCode: -1, Status: "signal: killed", Error: proto.String("signal: killed")}},
		"kill -TERM $$":                  {end: &processpb.ProcessEvent_EndEvent{ExitCode: -1, Status: "signal: terminated", Error: proto.String("signal: terminated")}},
		"cat":                            {end: &processpb.ProcessEvent_EndEvent{Exited: true, Status: "exit status 0"}},
		"echo $FROM_CREATE":              {stdout: "yes\n", end: &processpb.ProcessEvent_EndEvent{Exited: true, Status: "exit status 0"}},
		"echo $E2B_SANDBOX":              {stdout: "true\n", end: &processpb.ProcessEvent_EndEvent{Exited: true, Status: "exit status 0"}},
		"echo $E2B_SANDBOX_ID":           {stdout: string(boxID) + "\n", end: &processpb.ProcessEvent_EndEvent{Exited: true, Status: "exit status 0"}},
		"head -c 500000 /dev/zero":       {stdout: strings.Repeat("\x00", 500000), end: &processpb.ProcessEvent_EndEvent{Exited: true, Status: "exit status 0"}},
		"printf '\\303'; printf '\\251'": {stdout: "é", end: &processpb.ProcessEvent_EndEvent{Exited: true, Status: "exit status 0"}},
	} {
		got := b.run(t, shell(script))
		if got.pid <= 0 || got.err != nil || got.stdout != want.stdout || got.stderr != want.stderr || !proto.Equal(got.end, want.end) {
			t.Errorf("%s: %d bytes %.40q, %q, end %v, %v", script, len(got.stdout), got.stdout, got.stderr, got.end, got.err)
		}
		if got.chunk > 32<<10 {
			t.Errorf("%s: a chunk of %d bytes", script, got.chunk)
		}
	}
}

func TestStartEnvironmentAndDirectory(t *testing.T) {
	b := newBench(t)
	m := shell("echo $A $E2B_SANDBOX; pwd")
	m.Process.Envs = map[string]string{"A": "b", "E2B_SANDBOX": "mine"}
	if r := b.run(t, m); r.stdout != "b mine\n"+b.home+"\n" {
		t.Errorf("%q, %v", r.stdout, r.err)
	}
	if err := b.Mkdir(t.Context(), b.home+"/sub", core.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{"/usr": "/usr", "sub": b.home + "/sub", "./sub/": b.home + "/sub", "~": home} {
		m := shell("pwd")
		m.Process.Cwd = proto.String(dir)
		if r := b.run(t, m); r.stdout != want+"\n" || r.err != nil {
			t.Errorf("%s: in %q, want %q, %v", dir, r.stdout, want, r.err)
		}
	}
}

func TestStartRefusals(t *testing.T) {
	b := newBench(t)
	missing := shell("true")
	missing.Process.Cwd = proto.String("/no/such/dir")
	tall := shell("true")
	tall.Pty = &processpb.PTY{Size: &processpb.PTY_Size{Rows: 70000, Cols: 1}}
	program := &processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: "/no/such/program"}}
	for name, c := range map[string]struct {
		m      *processpb.StartRequest
		header []string
		code   connect.Code
		text   string
	}{
		"no command":     {&processpb.StartRequest{}, nil, connect.CodeInvalidArgument, "cmd"},
		"no program":     {program, nil, connect.CodeInvalidArgument, "no such program"},
		"no directory":   {missing, nil, connect.CodeInvalidArgument, "/no/such/dir"},
		"a tall screen":  {tall, nil, connect.CodeInvalidArgument, "65535"},
		"no user":        {shell("true"), []string{"Authorization", basic("no-such-user")}, connect.CodeUnauthenticated, "invalid username: 'no-such-user'"},
		"a bad header":   {shell("true"), []string{"Authorization", "Basic !"}, connect.CodeUnauthenticated, "malformed"},
		"a NUL":          {shell("true"), []string{"Authorization", basic("a\x00b")}, connect.CodeUnauthenticated, "invalid username"},
		"no number":      {shell("true"), []string{"Keepalive-Ping-Interval", "soon"}, connect.CodeInvalidArgument, "Keepalive"},
		"a bad deadline": {shell("true"), []string{"Connect-Timeout-Ms", "1e3"}, connect.CodeInvalidArgument, "Connect-Timeout-Ms"},
	} {
		r := b.run(t, c.m, c.header...)
		if connect.CodeOf(r.err) != c.code || !strings.Contains(r.err.Error(), c.text) {
			t.Errorf("%s: %v", name, r.err)
		}
	}
}

func TestStartAsUser(t *testing.T) {
	b := newBench(t)
	r := b.run(t, shell("id -un"), "Authorization", basic(me()))
	if r.err != nil || r.stdout != me()+"\n" {
		t.Errorf("%q, %v", r.stdout, r.err)
	}
}

// TestDeadline: the process's group is killed when the deadline passes, and the stream says why it ended.
func TestDeadline(t *testing.T) {
	b := newBench(t)
	s, r := b.begin(t, t.Context(), shell("sleep 100 & sleep 100; echo no"), "Connect-Timeout-Ms", "150")
	r.drain(s)
	if connect.CodeOf(r.err) != connect.CodeDeadlineExceeded || r.end != nil || r.stdout != "" {
		t.Errorf("%+v", r)
	}
	e, err := b.fakeControl.all(t.Context(), acme, string(boxID))
	if err != nil || len(e) != 1 || e[0].Outcome != core.OutcomeTimeout {
		t.Errorf("%+v, %v", e, err)
	}
	// Who comes late is told the same.
	late := b.connect(t, byPID(r.pid))
	if connect.CodeOf(late.err) != connect.CodeDeadlineExceeded || late.pid != r.pid {
		t.Errorf("late: %+v", late)
	}
}

// connect follows a process to its end.
func (b *bench) connect(t *testing.T, by *processpb.ProcessSelector, header ...string) (r ran) {
	t.Helper()
	req := connect.NewRequest(&processpb.ConnectRequest{Process: by})
	for i := 0; i+1 < len(header); i += 2 {
		req.Header().Set(header[i], header[i+1])
	}
	s, err := b.processes().Connect(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	r.drain(s)
	return r
}

// TestDisconnect: a client that goes away doesn't stop its process, another can follow it from then on, and how it ended is kept.
func TestDisconnect(t *testing.T) {
	b := newBench(t)
	ctx, leave := context.WithCancel(t.Context())
	m := shell("echo before; read x; echo after $x; exit 3")
	m.Stdin, m.Tag = nil, proto.String("job")
	s, r := b.begin(t, ctx, m)
	if e := next(s); string(e.GetData().GetStdout()) != "before\n" {
		t.Fatalf("%v, %v", e, s.Err())
	}
	leave()
	_ = s.Close()
	got := make(chan ran)
	go func() { got <- b.connect(t, byTag("job")) }()
	second, err := b.processes().Connect(t.Context(), connect.NewRequest(&processpb.ConnectRequest{Process: byPID(r.pid)}))
	if err != nil || next(second).GetStart().GetPid() != uint32(r.pid) {
		t.Fatalf("connect: %v", err)
	}
	b.input(t, byPID(r.pid), "hello\n")
	again := ran{pid: r.pid}
	again.drain(second)
	if again.stdout != "after hello\n" || again.end.GetExitCode() != 3 || again.err != nil {
		t.Errorf("second: %+v", again)
	}
	if first := <-got; first.end.GetExitCode() != 3 || strings.Contains(first.stdout, "before") {
		t.Errorf("by tag: %+v", first)
	}
	if late := b.connect(t, byPID(r.pid)); late.end.GetExitCode() != 3 || late.err != nil {
		t.Errorf("late: %+v", late)
	}
	b.mu.Lock()
	b.execs[0].EndedAt = time.Now().Add(-31 * time.Second)
	b.mu.Unlock()
	if gone := b.connect(t, byPID(r.pid)); connect.CodeOf(gone.err) != connect.CodeNotFound || gone.pid != 0 ||
		!strings.Contains(gone.err.Error(), fmt.Sprintf("process with pid %d not found", r.pid)) {
		t.Errorf("after 31 s: %+v", gone)
	}
}

func (b *bench) input(t *testing.T, by *processpb.ProcessSelector, text string) {
	t.Helper()
	in := &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: []byte(text)}}
	if _, err := b.processes().SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: by, Input: in})); err != nil {
		t.Errorf("send input: %v", err)
	}
}

func TestConnectDeadlineEndsTheStreamOnly(t *testing.T) {
	b := newBench(t)
	s, r := b.begin(t, t.Context(), shell("sleep 100"))
	if c := b.connect(t, byPID(r.pid), "Connect-Timeout-Ms", "100"); connect.CodeOf(c.err) != connect.CodeDeadlineExceeded {
		t.Errorf("%+v", c)
	}
	if list := b.list(t); len(list) != 1 || list[0].GetPid() != uint32(r.pid) {
		t.Errorf("%v", list)
	}
	b.kill(t, r.pid)
	r.drain(s)
	if r.end.GetStatus() != "signal: killed" {
		t.Errorf("%+v", r)
	}
}

func (b *bench) list(t *testing.T) []*processpb.ProcessInfo {
	t.Helper()
	l, err := b.processes().List(t.Context(), connect.NewRequest(&processpb.ListRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	return l.Msg.GetProcesses()
}

func (b *bench) kill(t *testing.T, pid int) {
	t.Helper()
	m := &processpb.SendSignalRequest{Process: byPID(pid), Signal: processpb.Signal_SIGNAL_SIGKILL}
	if _, err := b.processes().SendSignal(t.Context(), connect.NewRequest(m)); err != nil {
		t.Errorf("kill: %v", err)
	}
}

func TestListAndKill(t *testing.T) {
	b := newBench(t)
	m := shell("sleep 100 & sleep 100")
	m.Tag, m.Process.Envs, m.Process.Cwd = proto.String("web"), map[string]string{"A": "secret"}, proto.String("/")
	s, r := b.begin(t, t.Context(), m)
	b.run(t, shell("true"))
	list := b.list(t)
	want := &processpb.ProcessInfo{
		Config: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: m.Process.Args, Cwd: m.Process.Cwd}, Pid: uint32(r.pid), Tag: m.Tag,
	}
	if len(list) != 1 || !proto.Equal(list[0], want) {
		t.Errorf("list: %v", list)
	}
	b.kill(t, r.pid)
	r.drain(s)
	if r.end.GetExitCode() != -1 || r.end.GetExited() || r.end.GetStatus() != "signal: killed" {
		t.Errorf("end: %v, %v", r.end, r.err)
	}
	if list := b.list(t); len(list) != 0 {
		t.Errorf("after the kill: %v", list)
	}
	for name, by := range map[string]*processpb.ProcessSelector{"ended": byPID(r.pid), "unknown": byPID(4_000_000), "tag": byTag("none")} {
		m := &processpb.SendSignalRequest{Process: by, Signal: processpb.Signal_SIGNAL_SIGKILL}
		if _, err := b.processes().SendSignal(t.Context(), connect.NewRequest(m)); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	none := &processpb.SendSignalRequest{Process: byPID(r.pid)}
	if _, err := b.processes().SendSignal(t.Context(), connect.NewRequest(none)); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("no signal: %v", err)
	}
	if _, err := b.processes().SendSignal(t.Context(), connect.NewRequest(&processpb.SendSignalRequest{Signal: 15})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("no selector: %v", err)
	}
}

func TestTerminal(t *testing.T) {
	b := newBench(t)
	m := shell("stty size; read x; echo got $x; stty size; tty >/dev/null && exit 5")
	m.Pty = &processpb.PTY{Size: &processpb.PTY_Size{Rows: 11, Cols: 33}}
	s, r := b.begin(t, t.Context(), m)
	for !strings.Contains(r.pty, "11 33") {
		e := next(s)
		if e == nil {
			t.Fatalf("%q, %v", r.pty, s.Err())
		}
		r.take(e, false)
	}
	resize := &processpb.UpdateRequest{Process: byPID(r.pid), Pty: &processpb.PTY{Size: &processpb.PTY_Size{Rows: 12, Cols: 34}}}
	if _, err := b.processes().Update(t.Context(), connect.NewRequest(resize)); err != nil {
		t.Errorf("resize: %v", err)
	}
	for name, do := range map[string]func() error{
		"stdin": func() error {
			in := &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: []byte("x")}}
			_, err := b.processes().SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: byPID(r.pid), Input: in}))
			return err
		},
		"close": func() error {
			_, err := b.processes().CloseStdin(t.Context(), connect.NewRequest(&processpb.CloseStdinRequest{Process: byPID(r.pid)}))
			return err
		},
	} {
		if err := do(); connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("%s of a terminal: %v", name, err)
		}
	}
	in := &processpb.ProcessInput{Input: &processpb.ProcessInput_Pty{Pty: []byte("keys\n")}}
	if _, err := b.processes().SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: byPID(r.pid), Input: in})); err != nil {
		t.Errorf("keys: %v", err)
	}
	r.drain(s)
	if !strings.Contains(r.pty, "got keys") || !strings.Contains(r.pty, "12 34") || r.end.GetExitCode() != 5 || r.stdout != "" {
		t.Errorf("%+v", r)
	}
}

func TestStdin(t *testing.T) {
	b := newBench(t)
	m := shell("cat")
	m.Stdin = proto.Bool(true)
	s, r := b.begin(t, t.Context(), m)
	b.input(t, byPID(r.pid), "one ")
	big := strings.Repeat("x", 2<<20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.input(t, byPID(r.pid), big)
		if _, err := b.processes().CloseStdin(t.Context(), connect.NewRequest(&processpb.CloseStdinRequest{Process: byPID(r.pid)})); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	r.drain(s)
	<-done
	if r.stdout != "one "+big || r.end.GetExitCode() != 0 || !r.end.GetExited() {
		t.Errorf("%d bytes, %v, %v", len(r.stdout), r.end, r.err)
	}
	deaf, d := b.begin(t, t.Context(), shell("sleep 100"))
	in := &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: []byte("x")}}
	if _, err := b.processes().SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: byPID(d.pid), Input: in})); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("without stdin: %v", err)
	}
	b.kill(t, d.pid)
	d.drain(deaf)
}

func TestStreamInput(t *testing.T) {
	b := newBench(t)
	m := shell("read a; read b; echo $b $a")
	m.Stdin = proto.Bool(true)
	s, r := b.begin(t, t.Context(), m)
	up := b.processes().StreamInput(t.Context())
	data := func(text string) *processpb.StreamInputRequest {
		in := &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: []byte(text)}}
		return &processpb.StreamInputRequest{Event: &processpb.StreamInputRequest_Data{Data: &processpb.StreamInputRequest_DataEvent{Input: in}}}
	}
	begin := &processpb.StreamInputRequest{Event: &processpb.StreamInputRequest_Start{Start: &processpb.StreamInputRequest_StartEvent{Process: byPID(r.pid)}}}
	alive := &processpb.StreamInputRequest{Event: &processpb.StreamInputRequest_Keepalive{Keepalive: &processpb.StreamInputRequest_KeepAlive{}}}
	for _, m := range []*processpb.StreamInputRequest{begin, data("one\n"), alive, data("two\n")} {
		if err := up.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := up.CloseAndReceive(); err != nil {
		t.Errorf("close: %v", err)
	}
	r.drain(s)
	if r.stdout != "two one\n" {
		t.Errorf("%+v", r)
	}
	lost := b.processes().StreamInput(t.Context())
	_ = lost.Send(data("x")) // the refusal is what counts
	if _, err := lost.CloseAndReceive(); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("without a process: %v", err)
	}
}

func TestKeepAlive(t *testing.T) {
	b := newBench(t)
	r := b.run(t, shell("sleep 1.3; echo x"), "Keepalive-Ping-Interval", "1")
	if r.beats != 1 || r.stdout != "x\n" {
		t.Errorf("%+v", r)
	}
}

func TestShutdownEndsStreams(t *testing.T) {
	b := newBench(t)
	s, r := b.begin(t, t.Context(), shell("sleep 100"))
	b.closing()
	r.drain(s)
	if connect.CodeOf(r.err) != connect.CodeUnavailable || !strings.Contains(r.err.Error(), "shutting down") {
		t.Errorf("%+v", r)
	}
}

// said is a stream that says what a test wants.
type said struct {
	core.ExecStream
	list []core.ExecMessage
}

func (s *said) Recv() (core.ExecMessage, error) {
	if len(s.list) == 0 {
		return core.ExecMessage{}, io.EOF
	}
	m := s.list[0]
	s.list = s.list[1:]
	return m, nil
}

// TestHonestEnds: nothing but a process that returned zero is told as exit code zero.
func TestHonestEnds(t *testing.T) {
	zero := 0
	for name, c := range map[string]struct {
		m    core.ExecMessage
		code connect.Code
		want *processpb.ProcessEvent_EndEvent
	}{
		"lost":             {core.ExecMessage{Kind: core.ExecEnded, Exec: &core.Exec{Outcome: core.OutcomeLost}}, connect.CodeUnavailable, nil},
		"timeout":          {core.ExecMessage{Kind: core.ExecEnded, Exec: &core.Exec{Outcome: core.OutcomeTimeout}}, connect.CodeDeadlineExceeded, nil},
		"no code":          {core.ExecMessage{Kind: core.ExecEnded, Exec: &core.Exec{Outcome: core.OutcomeExited}}, connect.CodeInternal, nil},
		"another":          {core.ExecMessage{Kind: core.ExecEnded, Exec: &core.Exec{Outcome: "dreamt"}}, connect.CodeInternal, nil},
		"no end":           {core.ExecMessage{Kind: core.ExecEnded, Exec: &core.Exec{}}, connect.CodeInternal, nil},
		"nothing":          {core.ExecMessage{Kind: core.ExecStarted}, connect.CodeUnavailable, nil},
		"a gap":            {core.ExecMessage{Kind: core.ExecGap, Missing: 17}, connect.CodeDataLoss, nil},
		"canceled":         {core.ExecMessage{Kind: core.ExecEnded, Exec: &core.Exec{Outcome: core.OutcomeCanceled}}, 0, &processpb.ProcessEvent_EndEvent{ExitCode: -1, Status: "signal: killed", Error: proto.String("canceled: another call killed it")}},
		"memory":           {core.ExecMessage{Kind: core.ExecEnded, Exec: &core.Exec{Outcome: core.OutcomeSignaled, Signal: "SIGKILL", OutOfMemory: true}}, 0, &processpb.ProcessEvent_EndEvent{ExitCode: -1, Status: "signal: killed", Error: proto.String("the sandbox ran out of memory, and processes of this one's group were killed")}},
		"a child's memory": {core.ExecMessage{Kind: core.ExecEnded, Exec: &core.Exec{Outcome: core.OutcomeExited, ExitCode: &zero, OutOfMemory: true}}, 0, &processpb.ProcessEvent_EndEvent{Exited: true, Status: "exit status 0", Error: proto.String("the sandbox ran out of memory, and processes of this one's group were killed")}},
		"real time":        {core.ExecMessage{Kind: core.ExecEnded, Exec: &core.Exec{Outcome: core.OutcomeSignaled, Signal: "SIGRTMIN+1"}}, 0, &processpb.ProcessEvent_EndEvent{ExitCode: -1, Status: "signal: signal 35", Error: proto.String("signal: signal 35")}},
	} {
		b := newBench(t)
		b.wrap = func(s core.ExecStream) core.ExecStream {
			return &said{s, []core.ExecMessage{{Kind: core.ExecStarted, Exec: &core.Exec{PID: 7}}, c.m}}
		}
		r := b.run(t, shell("true"))
		if c.want == nil && (r.end != nil || connect.CodeOf(r.err) != c.code) || c.want != nil && (r.err != nil || !proto.Equal(c.want, r.end)) {
			t.Errorf("%s: end %v, %v", name, r.end, r.err)
		}
	}
}

// TestManyStreams: hundreds of parallel starts in one client don't hinder each other.
func TestManyStreams(t *testing.T) {
	b := newBench(t)
	transport := &http.Transport{MaxConnsPerHost: 0, MaxIdleConnsPerHost: 300}
	defer transport.CloseIdleConnections()
	c := processpb.NewProcessClient(&http.Client{Transport: transport}, b.url)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			s, err := c.Start(t.Context(), connect.NewRequest(shell(fmt.Sprintf("read x </dev/null; echo %d", i))))
			if err != nil {
				t.Errorf("%d: %v", i, err)
				return
			}
			var r ran
			r.drain(s)
			if r.stdout != fmt.Sprintf("%d\n", i) || r.end.GetStatus() != "exit status 0" || r.err != nil {
				t.Errorf("%d: %+v", i, r)
			}
			_ = s.Close()
		})
	}
	all.Wait()
}

// TestOtherEncodings: binary messages, gRPC and gRPC-web come with the library; the first is what some clients of third parties speak.
func TestOtherEncodings(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]processpb.ProcessClient{
		"proto":    processpb.NewProcessClient(http.DefaultClient, b.url),
		"grpc-web": processpb.NewProcessClient(http.DefaultClient, b.url, connect.WithGRPCWeb()),
		"gzip":     processpb.NewProcessClient(http.DefaultClient, b.url, connect.WithSendGzip()),
	} {
		s, err := c.Start(t.Context(), connect.NewRequest(shell("echo hi")))
		if err != nil {
			t.Fatal(err)
		}
		var r ran
		r.drain(s)
		if r.stdout != "hi\n" || r.err != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
