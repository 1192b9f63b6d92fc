package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/client"
	"shoal/internal/guest/wire"
)

// hostile returns a client of an agent that answers every connection with the same bytes, whatever it is asked.
func hostile(tb testing.TB, answer []byte) *client.Client {
	tb.Helper()
	c := client.New(client.Config{
		LostAfter: 20 * time.Millisecond, CallTimeout: time.Second,
		Dial: func(context.Context) (net.Conn, error) {
			host, guest := net.Pipe()
			go func() {
				go func() { _, _ = io.Copy(io.Discard, guest) }()
				_, _ = guest.Write(answer)
				_ = guest.Close()
			}()
			return host, nil
		},
	})
	tb.Cleanup(c.Close)
	return c
}

type frame struct {
	t wire.FrameType
	p string
}

func answer(tb testing.TB, list ...frame) []byte {
	tb.Helper()
	var b strings.Builder
	w := wire.NewWriter(&b)
	for _, f := range list {
		if err := w.Write(f.t, []byte(f.p)); err != nil {
			tb.Fatal(err)
		}
	}
	return []byte(b.String())
}

const execID = "abcdefghijklmnopqrstuv"

func execInfo(tb testing.TB, change func(*wire.ExecInfo)) string {
	tb.Helper()
	code := 0
	i := wire.ExecInfo{ID: execID, PID: 1, Outcome: "exited", ExitCode: &code, StartedAt: time.Now()}
	if change != nil {
		change(&i)
	}
	b, err := json.Marshal(i)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

// TestHostileStreams: no lie of an agent becomes an outcome, a panic or an endless wait.
func TestHostileStreams(t *testing.T) {
	started := frame{wire.FrameStarted, execInfo(t, func(i *wire.ExecInfo) { i.Outcome, i.ExitCode = "", nil })}
	header := string(wire.OutputHeader(0))
	for name, list := range map[string][]frame{
		"ends at once":          {started},
		"wrong offset":          {started, {wire.FrameStdout, string(wire.OutputHeader(5)) + "x"}},
		"empty output":          {started, {wire.FrameStdout, header}},
		"short output":          {started, {wire.FrameStdout, "x"}},
		"gap of nothing":        {started, {wire.FrameGap, string(wire.GapPayload(0, 0))}},
		"negative gap":          {started, {wire.FrameGap, string(wire.GapPayload(0, -5))}},
		"end without outcome":   {started, {wire.FrameEnded, execInfo(t, func(i *wire.ExecInfo) { i.Outcome = "" })}},
		"end without exit code": {started, {wire.FrameEnded, execInfo(t, func(i *wire.ExecInfo) { i.ExitCode = nil })}},
		"impossible exit code":  {started, {wire.FrameEnded, execInfo(t, func(i *wire.ExecInfo) { *i.ExitCode = 256 })}},
		"unknown outcome":       {started, {wire.FrameEnded, execInfo(t, func(i *wire.ExecInfo) { i.Outcome = "fine" })}},
		"other exec":            {started, {wire.FrameEnded, execInfo(t, func(i *wire.ExecInfo) { i.ID = "b" })}},
		"signal without name":   {started, {wire.FrameEnded, execInfo(t, func(i *wire.ExecInfo) { i.Outcome = "signaled" })}},
		"not JSON":              {started, {wire.FrameEnded, "}"}},
		"a reply":               {started, {wire.FrameReply, "{}"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := hostile(t, answer(t, list...)).Exec(t.Context(), execID, core.ExecSpec{Shell: "true"})
			if err != nil {
				t.Fatalf("exec: %v", err)
			}
			for {
				m, err := s.Recv()
				if err != nil {
					t.Fatalf("recv: %v", err)
				}
				if m.Kind != core.ExecEnded {
					continue
				}
				if m.Exec.Outcome != core.OutcomeLost || m.Exec.ExitCode != nil {
					t.Errorf("ended as %+v", m.Exec)
				}
				break
			}
			if _, err := s.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

func TestHostileReplies(t *testing.T) {
	file := `{"name":"x","path":"/x","type":"file","size":1,"mtime":"2026-01-01T00:00:00Z"}`
	for name, list := range map[string][]frame{
		"nothing":     nil,
		"not JSON":    {{wire.FrameReply, "["}},
		"wrong type":  {{wire.FrameStarted, "{}"}},
		"name with /": {{wire.FrameReply, strings.Replace(file, `"x"`, `"../x"`, 1)}},
		"no name":     {{wire.FrameReply, strings.Replace(file, `"x"`, `""`, 1)}},
		"size":        {{wire.FrameReply, strings.Replace(file, `:1,`, `:-1,`, 1)}},
		"type":        {{wire.FrameReply, strings.Replace(file, `"file"`, `"door"`, 1)}},
		"fault":       {{wire.FrameError, "nonsense"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := hostile(t, answer(t, list...))
			if _, err := c.Stat(t.Context(), "/x"); !core.IsCode(err, core.CodeUnavailable) {
				t.Errorf("stat: %v", err)
			}
		})
	}
	twice := answer(t, frame{wire.FrameReply, `{"files":[` + file + `,` + file + `]}`})
	if _, _, err := hostile(t, twice).ListFiles(t.Context(), "/", "", 10); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("names that don't rise: %v", err)
	}
	if _, _, err := hostile(t, twice).ListFiles(t.Context(), "/", "", 1); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("more than asked for: %v", err)
	}
	more := answer(t, frame{wire.FrameReply, file}, frame{wire.FrameData, "0123456789"}, frame{wire.FrameEnd, ""})
	_, r, err := hostile(t, more).ReadFile(t.Context(), "/x", 0, 5)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("more content than asked for: %q, %v", b, err)
	}
}

// FuzzClient feeds every operation with arbitrary answers.
func FuzzClient(f *testing.F) {
	f.Add(answer(f, frame{wire.FrameStarted, execInfo(f, nil)}, frame{wire.FrameStdout, "12345678x"}, frame{wire.FrameEnded, execInfo(f, nil)}))
	f.Add(answer(f, frame{wire.FrameReply, `{}`}, frame{wire.FrameData, "x"}, frame{wire.FrameEnd, ""}))
	f.Add(answer(f, frame{wire.FrameReply, `{}`}, frame{wire.FrameChanges, `{"events":[{"kind":"gone","path":"/x"}]}`}, frame{wire.FrameEnd, ""}))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := hostile(t, b)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin := time.Now()
		defer func() {
			if d := time.Since(begin); d > 4*time.Second {
				t.Errorf("an answer that takes %s", d)
			}
		}()
		if s, err := c.Exec(ctx, execID, core.ExecSpec{Shell: "true"}); err == nil {
			for {
				if _, err := s.Recv(); err != nil {
					break
				}
			}
		}
		if _, r, err := c.ReadFile(ctx, "/x", 0, 100); err == nil {
			if b, _ := io.ReadAll(r); len(b) > 100 {
				t.Error("too much content")
			}
			_ = r.Close()
		}
		_, _ = c.WriteFile(ctx, "/x", core.WriteOptions{}, strings.NewReader("content"))
		_, _ = c.Change(ctx, "/x", core.FileChange{})
		_, _ = c.Xattrs(ctx, "/x")
		_, _ = c.Checksum(ctx, "/x", core.ChecksumSHA256)
		if w, err := c.Watch(ctx, "/x", core.WatchOptions{}); err == nil {
			for err == nil {
				_, err = w.Recv()
			}
			_ = w.Close()
		}
		_, _ = c.ListExecs(ctx)
		_, _, _ = c.ListFiles(ctx, "/", "", 10)
		if nc, err := c.DialPort(ctx, 80); err == nil {
			_, _ = io.Copy(io.Discard, nc)
			_ = nc.Close()
		}
	})
}

// TestHostileWalks: pages that would never end, paths that are none and links that lie are refused.
func TestHostileWalks(t *testing.T) {
	page := func(more bool, files ...wire.FileInfo) string {
		b, err := json.Marshal(wire.WalkReply{Files: files, More: more})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	file := func(path, name string) wire.FileInfo {
		return wire.FileInfo{Name: wire.Bytes(name), Path: wire.Bytes(path), Type: "file"}
	}
	link := file("/d/l", "l")
	link.Type, link.Final = "symlink", &wire.FinalFile{Path: "x", Type: "file"}
	long := strings.Repeat("/d", 10_000)
	longTarget, longEnd := file("/d/l", "l"), file("/d/l", "l")
	longTarget.Type, longTarget.Target = "symlink", wire.Bytes(long)
	longEnd.Type, longEnd.Final = "symlink", &wire.FinalFile{Path: wire.Bytes(long), Type: "file"}
	notLink := file("/d/l", "l")
	notLink.Final = &wire.FinalFile{Path: "/x", Type: "file"}
	for name, text := range map[string]string{
		"more of nothing": page(true),
		"too many":        page(false, file("/d/a", "a"), file("/d/b", "b"), file("/d/c", "c")),
		"not behind":      page(false, file("/d/a", "a")),
		"same again":      page(false, file("/d/m", "m")),
		"falling":         page(false, file("/d/p", "p"), file("/d/o", "o")),
		"another name":    page(false, file("/d/n", "m")),
		"relative link":   page(false, link),
		"no link":         page(false, notLink),
		"long path":       page(false, file("/d/z"+long+"/z", "z")),
		"long target":     page(false, longTarget),
		"long end":        page(false, longEnd),
	} {
		c := hostile(t, answer(t, frame{wire.FrameReply, text}))
		after := "/d/m"
		if strings.HasPrefix(name, "long") || strings.HasSuffix(name, "link") {
			after = ""
		}
		_, _, err := c.Walk(t.Context(), "/d", core.WalkOptions{Depth: 1, After: after, Limit: 2})
		if !core.IsCode(err, core.CodeUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := hostile(t, answer(t, frame{wire.FrameReply, `{"files":[],"more":true}`}))
	if _, _, err := c.ListFiles(t.Context(), "/d", "", 10); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("an endless directory: %v", err)
	}
	owned := file("/d/a", "a")
	owned.Owner, owned.Group = strings.Repeat("u", 1<<10), "staff"
	c = hostile(t, answer(t, frame{wire.FrameReply, page(false, owned)}))
	if list, _, err := c.Walk(t.Context(), "/d", core.WalkOptions{Depth: 1, Limit: 2}); err != nil || list[0].Owner != "" || list[0].Group != "staff" {
		t.Errorf("a long name of a user: %d files, %v", len(list), err)
	}
	for _, text := range []string{`{}`, `{"path":"x","user":"u"}`, `{"path":"/x"}`, `{"path":"/x\u0000","user":"u"}`} {
		c := hostile(t, answer(t, frame{wire.FrameReply, text}))
		if _, err := c.Resolve(t.Context(), "x", ""); !core.IsCode(err, core.CodeUnavailable) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestHostileWatches: what can't have happened is not told, and nothing goes on behind the end.
func TestHostileWatches(t *testing.T) {
	reply, gone := frame{wire.FrameReply, `{}`}, frame{wire.FrameChanges, `{"events":[{"kind":"gone","path":"/d"}]}`}
	change := func(text string) frame { return frame{wire.FrameChanges, `{"events":[` + text + `]}`} }
	for name, list := range map[string][]frame{
		"ends at once":        {reply},
		"end without gone":    {reply, {wire.FrameEnd, ""}},
		"nothing":             {reply, change("")},
		"not JSON":            {reply, {wire.FrameChanges, "["}},
		"a reply":             {reply, {wire.FrameReply, "{}"}},
		"unknown kind":        {reply, change(`{"kind":"eaten","path":"/d/x"}`)},
		"elsewhere":           {reply, change(`{"kind":"create","path":"/e"}`)},
		"almost there":        {reply, change(`{"kind":"create","path":"/dx"}`)},
		"relative":            {reply, change(`{"kind":"create","path":"d"}`)},
		"no path":             {reply, change(`{"kind":"overflow"}`)},
		"two paths":           {reply, change(`{"kind":"create","path":"/d/x","to":"/d/y"}`)},
		"renamed elsewhere":   {reply, change(`{"kind":"rename","path":"/d/x","to":"/etc/y"}`)},
		"zero byte":           {reply, change(`{"kind":"create","path":"/d/\u0000"}`)},
		"long":                {reply, change(`{"kind":"create","path":"/d/` + strings.Repeat("x", 20_000) + `"}`)},
		"more behind the end": {reply, gone, gone},
		"more with the end":   {reply, change(`{"kind":"gone","path":"/d"},{"kind":"create","path":"/d/x"}`)},
	} {
		w, err := hostile(t, answer(t, list...)).Watch(t.Context(), "/d/", core.WatchOptions{})
		for err == nil {
			_, err = w.Recv()
		}
		if !core.IsCode(err, core.CodeUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if _, again := w.Recv(); !errors.Is(again, err) {
			t.Errorf("%s: after the end %v", name, again)
		}
	}
	host, guest := net.Pipe()
	defer func() { _ = guest.Close() }()
	c := client.New(client.Config{Dial: func(context.Context) (net.Conn, error) { return host, nil }})
	defer c.Close()
	go func() { _, _ = io.Copy(io.Discard, guest) }()
	whole := answer(t, reply, gone, frame{wire.FrameEnd, ""})
	go func() { _, _ = guest.Write(whole) }()
	w, err := c.Watch(t.Context(), "/d", core.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := w.Recv(); err != nil || e.Kind != core.FileGone {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := w.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after gone: %v", err)
	}
}

// TestHostileAnswersAboutFiles: digests and attributes that can't be are refused.
func TestHostileAnswersAboutFiles(t *testing.T) {
	file := `{"name":"x","path":"/x","type":"file","size":1,"mtime":"2026-01-01T00:00:00Z"}`
	for name, text := range map[string]string{
		"no digest":  `{"file":` + file + `,"bytes":1}`,
		"short":      `{"file":` + file + `,"bytes":1,"digest":"eA=="}`,
		"no file":    `{"bytes":1,"digest":"` + strings.Repeat("A", 43) + `="}`,
		"negative":   `{"file":` + file + `,"bytes":-1,"digest":"` + strings.Repeat("A", 43) + `="}`,
		"no message": `[`,
	} {
		_, err := hostile(t, answer(t, frame{wire.FrameReply, text})).Checksum(t.Context(), "/x", core.ChecksumSHA256)
		if !core.IsCode(err, core.CodeUnavailable) {
			t.Errorf("checksum, %s: %v", name, err)
		}
	}
	many := make([]string, 20)
	for i := range many {
		many[i] = `{"name":"user.` + string(rune('a'+i)) + `","value":"` + strings.Repeat("AAAA", 8<<10) + `"}`
	}
	for name, text := range map[string]string{
		"twice":     `{"name":"user.a","value":""},{"name":"user.a","value":""}`,
		"falling":   `{"name":"user.b","value":""},{"name":"user.a","value":""}`,
		"no name":   `{"value":""}`,
		"zero byte": `{"name":"user.\u0000","value":""}`,
		"long name": `{"name":"user.` + strings.Repeat("x", 300) + `","value":""}`,
		"long":      `{"name":"user.a","value":"` + strings.Repeat("AAAA", 30<<10) + `"}`,
		"too much":  strings.Join(many, ","),
	} {
		_, err := hostile(t, answer(t, frame{wire.FrameReply, `{"xattrs":[` + text + `]}`})).Xattrs(t.Context(), "/x")
		if !core.IsCode(err, core.CodeUnavailable) {
			t.Errorf("xattrs, %s: %v", name, err)
		}
	}
}

// TestHostileProcesses: what an agent says of its processes is checked before it is believed.
func TestHostileProcesses(t *testing.T) {
	now := time.Now()
	ok := wire.ProcessesReply{
		Processes: []wire.Process{{PID: 2, Parent: 1, Command: "sleep 1", StartedAt: now}},
		Listeners: []wire.Listener{{Proto: "tcp", Address: "0.0.0.0", Port: 80, PID: 2}},
	}
	for name, change := range map[string]func(*wire.ProcessesReply){
		"":                 func(*wire.ProcessesReply) {},
		"too many":         func(r *wire.ProcessesReply) { r.Processes = make([]wire.Process, core.MaxProcesses+1) },
		"no pid":           func(r *wire.ProcessesReply) { r.Processes[0].PID = 0 },
		"negative parent":  func(r *wire.ProcessesReply) { r.Processes[0].Parent = -1 },
		"a long command":   func(r *wire.ProcessesReply) { r.Processes[0].Command = wire.Bytes(strings.Repeat("x", 5000)) },
		"negative more":    func(r *wire.ProcessesReply) { r.MoreListeners = -1 },
		"no address":       func(r *wire.ProcessesReply) { r.Listeners[0].Address = "x\x1b[1m" },
		"a zone":           func(r *wire.ProcessesReply) { r.Listeners[0].Address = "fe80::1%x" },
		"another protocol": func(r *wire.ProcessesReply) { r.Listeners[0].Proto = "raw" },
		"no port":          func(r *wire.ProcessesReply) { r.Listeners[0].Port = 0 },
	} {
		r := wire.ProcessesReply{Processes: []wire.Process{ok.Processes[0]}, Listeners: []wire.Listener{ok.Listeners[0]}}
		change(&r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		list, err := hostile(t, answer(t, frame{wire.FrameReply, string(b)})).Processes(t.Context())
		if name == "" {
			if err != nil || len(list.Processes) != 1 || list.Processes[0].Command != "sleep 1" || list.Listeners[0].Port != 80 {
				t.Errorf("a good one: %+v, %v", list, err)
			}
			continue
		}
		if !core.IsCode(err, core.CodeUnavailable) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}
