package wire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

func TestFramesRoundTrip(t *testing.T) {
	want := []Frame{
		{FrameRequest, []byte(`{"op":"ping"}`)},
		{FrameHeartbeat, []byte{}},
		{FrameData, bytes.Repeat([]byte("x"), MaxPayload)},
		{FrameEnd, []byte{}},
		{FrameStdout, []byte("12345678out")},
		{FrameData, []byte{0}},
	}
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, f := range want {
		if err := w.Write(f.Type, f.Payload[:len(f.Payload)/2], f.Payload[len(f.Payload)/2:]); err != nil {
			t.Fatal(err)
		}
	}
	whole := b.Bytes()
	for name, src := range map[string]io.Reader{
		"at once": bytes.NewReader(whole), "by bytes": iotest.OneByteReader(bytes.NewReader(whole)),
		"data with the error": iotest.DataErrReader(bytes.NewReader(whole)),
		"with timeouts":       &stuttering{r: iotest.HalfReader(bytes.NewReader(whole))},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(src)
			for i, f := range want {
				got, err := r.Next()
				for errors.Is(err, os.ErrDeadlineExceeded) {
					got, err = r.Next()
				}
				if err != nil || got.Type != f.Type || !bytes.Equal(got.Payload, f.Payload) {
					t.Fatalf("frame %d: type %d, %d bytes, %v", i, got.Type, len(got.Payload), err)
				}
			}
			_, err := r.Next()
			for errors.Is(err, os.ErrDeadlineExceeded) {
				_, err = r.Next()
			}
			if !errors.Is(err, io.EOF) || r.Version() != Version || r.Buffered() {
				t.Errorf("at the end: %v, version %d", err, r.Version())
			}
		})
	}
}

// stuttering fails every second read with a timeout.
type stuttering struct {
	r io.Reader
	n int
}

func (s *stuttering) Read(b []byte) (int, error) {
	if s.n++; s.n%2 == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return s.r.Read(b)
}

// TestPayloadLifetime: a payload stays as it is until the second call after it.
func TestPayloadLifetime(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, p := range []string{"one", "two"} {
		if err := w.Write(FrameData, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(&b)
	one, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil || string(one.Payload) != "one" {
		t.Errorf("%q, %v", one.Payload, err)
	}
}

func TestMalformedFrames(t *testing.T) {
	good := string(appendPreamble(nil))
	for name, c := range map[string]struct {
		bytes string
		want  error
	}{
		"nothing":         {"", io.EOF},
		"half a preamble": {"SHO", io.ErrUnexpectedEOF},
		"HTTP":            {"GET / HTTP/1.1\r\n\r\n", ErrMalformed},
		"version 0":       {magic + "\x00\x00", ErrMalformed},
		"no frame":        {good, io.EOF},
		"half a header":   {good + "\x01\x00", io.ErrUnexpectedEOF},
		"half a payload":  {good + "\x04\x00\x00\x00\x05abc", io.ErrUnexpectedEOF},
		"type 0":          {good + "\x00\x00\x00\x00\x00", ErrMalformed},
		"type 13":         {good + "\x0d\x00\x00\x00\x00", ErrMalformed},
		"too long":        {good + "\x04\x00\x10\x00\x01", ErrMalformed},
		"4 GiB":           {good + "\x04\xff\xff\xff\xff", ErrMalformed},
		"heartbeat + 1":   {good + "\x0b\x00\x00\x00\x01x", ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewReader(strings.NewReader(c.bytes)).Next(); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	if err := NewWriter(io.Discard).Write(FrameData, make([]byte, MaxPayload+1)); err == nil {
		t.Error("a frame that is too long was written")
	}
}

// TestAnnouncedLengthTakesNoMemory: a header alone makes the reader allocate little.
func TestAnnouncedLengthTakesNoMemory(t *testing.T) {
	n := testing.AllocsPerRun(1, func() {
		r := NewReader(strings.NewReader(string(appendPreamble(nil)) + "\x04\x00\x10\x00\x00"))
		_, _ = r.Next()
		if cap(r.bufs[0]) > 64<<10 {
			t.Errorf("%d bytes for a payload that never came", cap(r.bufs[0]))
		}
	})
	if n > 100 {
		t.Errorf("%f allocations", n)
	}
}

func TestBytesJSON(t *testing.T) {
	for _, s := range []string{"", "plain", "\xff\x00\xfe", "new\nline", `{"raw":"eA=="}`, "ü"} {
		b, err := Encode(PathRequest{Path: Bytes(s)})
		if err != nil {
			t.Fatal(err)
		}
		var got PathRequest
		if err := DecodeRequest(b, &got); err != nil || string(got.Path) != s {
			t.Errorf("%q became %q by %s, %v", s, got.Path, b, err)
		}
	}
	var p PathRequest
	for _, bad := range []string{`{"path":{}}`, `{"path":{"raw":"!"}}`, `{"path":1}`, `{"path":{"raw":1}}`} {
		if err := DecodeRequest([]byte(bad), &p); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestUnknownFields: a request's are refused by name, a reply's are left out.
func TestUnknownFields(t *testing.T) {
	var q ExecRef
	err := DecodeRequest([]byte(`{"id":"x","nice":5}`), &q)
	var e *core.Error
	if !errors.As(err, &e) || e.Code != core.CodeUnsupported || e.Field != "nice" {
		t.Errorf("request: %v", err)
	}
	if err := DecodeReply([]byte(`{"id":"x","nice":5}`), &q); err != nil || q.ID != "x" {
		t.Errorf("reply: %v, %+v", err, q)
	}
	if err := DecodeRequest([]byte(`{"id":"x"}{"id":"y"}`), &q); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("two values: %v", err)
	}
}

// TestFirstVersion: what version 1 of the protocol sends, byte for byte, is what later builds must still read. Only add
// to this list.
func TestFirstVersion(t *testing.T) {
	var exec ExecRequest
	err := DecodeRequest([]byte(`{"id":"a","cmd":["ls",{"raw":"/w=="}],"shell":"","cwd":"/","env":{"A":"b"},"user":"u","stdin":true,`+
		`"timeout_ms":5,"detach":true,"tty":true,"rows":1,"cols":2}`), &exec)
	want := ExecRequest{
		ID: "a", Cmd: []Bytes{"ls", "\xff"}, Cwd: "/", Env: map[string]string{"A": "b"}, User: "u", Stdin: true, TimeoutMS: 5,
		Detach: true, TTY: true, Rows: 1, Cols: 2,
	}
	if diff := cmp.Diff(want, exec); diff != "" || err != nil {
		t.Errorf("exec (-want +got):\n%s%v", diff, err)
	}
	var info ExecInfo
	err = DecodeReply([]byte(`{"id":"a","pid":7,"outcome":"exited","exit_code":0,"started_at":"2026-01-02T03:04:05Z",`+
		`"ended_at":"2026-01-02T03:04:06Z","output_bytes":9,"output_from":1,"processes":2}`), &info)
	code := 0
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	wantInfo := ExecInfo{
		ID: "a", PID: 7, Outcome: "exited", ExitCode: &code, StartedAt: start, EndedAt: start.Add(time.Second),
		OutputBytes: 9, OutputFrom: 1, Processes: 2,
	}
	if diff := cmp.Diff(wantInfo, info); diff != "" || err != nil {
		t.Errorf("info (-want +got):\n%s%v", diff, err)
	}
}

// TestSecondVersion: the same for what version 2 added.
func TestSecondVersion(t *testing.T) {
	for text, c := range map[string]struct{ got, want any }{
		`{"path":"~/x","user":"u"}`:                                  {&ResolveRequest{}, &ResolveRequest{Path: "~/x", User: "u"}},
		`{"path":{"raw":"L/8="},"depth":2,"after":"/a/b","limit":7}`: {&WalkRequest{}, &WalkRequest{Path: "/\xff", Depth: 2, After: "/a/b", Limit: 7}},
		`{"path":"/x","parents":true,"exclusive":true}`:              {&WriteRequest{}, &WriteRequest{Path: "/x", Parents: true, Exclusive: true}},
	} {
		if err := DecodeRequest([]byte(text), c.got); err != nil || !cmp.Equal(c.want, c.got) {
			t.Errorf("%s: %v\n%s", text, err, cmp.Diff(c.want, c.got))
		}
	}
	var reply WalkReply
	err := DecodeReply([]byte(`{"files":[{"name":"l","path":"/l","type":"symlink","size":1,"mode":511,"uid":0,"gid":0,`+
		`"mtime":"2026-01-02T03:04:05Z","target":"x","final":{"path":"/x","type":"file","mode":420}}],"more":true}`), &reply)
	if err != nil || !reply.More || len(reply.Files) != 1 || *reply.Files[0].Final != (FinalFile{Path: "/x", Type: "file", Mode: 0o644}) {
		t.Errorf("walk: %+v, %v", reply, err)
	}
	// What a version 1 agent would refuse is only sent when it is needed.
	if b, err := Encode(WriteRequest{Path: "/x"}); err != nil || string(b) != `{"path":"/x"}` {
		t.Errorf("write: %s, %v", b, err)
	}
}

// TestThirdVersion: the same for what version 3 added.
func TestThirdVersion(t *testing.T) {
	size, mode := int64(5), uint32(0o640)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for text, c := range map[string]struct{ got, want any }{
		`{"path":"/x","size":5,"mode":416,"owner":"u","group":"7","xattrs":[{"name":"user.a","value":"eA=="},{"name":"user.b","remove":true}],` +
			`"modified_at":"2026-01-02T03:04:05.000000006Z","accessed_at":"2026-01-02T03:04:05.000000006Z","recursive":true,"no_follow":true}`: {
			&ChangeRequest{}, &ChangeRequest{
				Path: "/x", Size: &size, Mode: &mode, Owner: "u", Group: "7", ModifiedAt: &at, AccessedAt: &at, Recursive: true, NoFollow: true,
				Xattrs: []XattrChange{{Name: "user.a", Value: []byte("x")}, {Name: "user.b", Remove: true}},
			},
		},
		`{"path":"/l","target":{"raw":"/w=="},"hard":true,"user":"u","parents":true,"replace":true}`: {
			&LinkRequest{}, &LinkRequest{Path: "/l", Target: "\xff", Hard: true, User: "u", Parents: true, Replace: true},
		},
		`{"path":"/x","algorithm":"sha256"}`: {&ChecksumRequest{}, &ChecksumRequest{Path: "/x", Algorithm: "sha256"}},
		`{"path":"/x","recursive":true}`:     {&WatchRequest{}, &WatchRequest{Path: "/x", Recursive: true}},
		`{"path":"/x","append":true}`:        {&WriteRequest{}, &WriteRequest{Path: "/x", Append: true}},
	} {
		if err := DecodeRequest([]byte(text), c.got); err != nil || !cmp.Equal(c.want, c.got) {
			t.Errorf("%s: %v\n%s", text, err, cmp.Diff(c.want, c.got))
		}
	}
	for text, c := range map[string]struct{ got, want any }{
		`{"xattrs":[{"name":{"raw":"/w=="},"value":"eA=="}]}`: {&XattrsReply{}, &XattrsReply{Xattrs: []Xattr{{Name: "\xff", Value: []byte("x")}}}},
		`{"file":{"name":"x"},"bytes":3,"digest":"eA=="}`:     {&ChecksumReply{}, &ChecksumReply{File: FileInfo{Name: "x"}, Bytes: 3, Digest: []byte("x")}},
		`{"events":[{"kind":"rename","path":"/a","to":"/b","dir":true},{"kind":"overflow"}]}`: {
			&FileEvents{}, &FileEvents{Events: []FileEvent{{Kind: "rename", Path: "/a", To: "/b", Dir: true}, {Kind: "overflow"}}},
		},
	} {
		if err := DecodeReply([]byte(text), c.got); err != nil || !cmp.Equal(c.want, c.got) {
			t.Errorf("%s: %v\n%s", text, err, cmp.Diff(c.want, c.got))
		}
	}
	// What older agents would refuse is only sent when it is needed.
	for want, v := range map[string]any{
		`{"path":"/x"}`: ChangeRequest{Path: "/x"}, `{"path":"/x","target":"y"}`: LinkRequest{Path: "/x", Target: "y"},
	} {
		if b, err := Encode(v); err != nil || string(b) != want {
			t.Errorf("%T: %s, %v", v, b, err)
		}
	}
}

// TestThirdVersionArchives: the same for its archives.
func TestThirdVersionArchives(t *testing.T) {
	for text, c := range map[string]struct{ got, want any }{
		`{"path":"/x","exclude":["a",{"raw":"/w=="}],"gzip":true}`: {&PackRequest{}, &PackRequest{Path: "/x", Exclude: []Bytes{"a", "\xff"}, Gzip: true}},
		`{"path":"/x","user":"u","parents":true,"gzip":true}`:      {&UnpackRequest{}, &UnpackRequest{Path: "/x", User: "u", Parents: true, Gzip: true}},
		`{"path":"/x","keep_owners":true}`:                         {&UnpackRequest{}, &UnpackRequest{Path: "/x", KeepOwners: true}},
	} {
		if err := DecodeRequest([]byte(text), c.got); err != nil || !cmp.Equal(c.want, c.got) {
			t.Errorf("%s: %v\n%s", text, err, cmp.Diff(c.want, c.got))
		}
	}
	var reply ArchiveReport
	err := DecodeReply([]byte(`{"files":3,"directories":2,"bytes":1,"skipped":1,"notes":[{"path":"p","reason":"r"}]}`), &reply)
	want := ArchiveReport{Files: 3, Directories: 2, Bytes: 1, Skipped: 1, Notes: []ArchiveNote{{"p", "r"}}}
	if err != nil || !cmp.Equal(want, reply) {
		t.Errorf("report: %+v, %v", reply, err)
	}
}

func TestFaults(t *testing.T) {
	f := FaultOf(core.Wrap(core.CodeDenied, errors.New("secret cause"), "public"))
	if f.Code != "denied" || f.Message != "public" {
		t.Errorf("%+v", f)
	}
	if f := FaultOf(errors.New("secret")); f.Code != "internal" || strings.Contains(f.Message, "secret") {
		t.Errorf("%+v", f)
	}
	e := Fault{Code: "unauthenticated", Message: "a\x1b[31mred\n" + strings.Repeat("ü", 5000), Field: strings.Repeat("f", 100)}.Err()
	if e.Code != core.CodeInternal || strings.ContainsAny(e.Message, "\x1b\n") || len(e.Message) > 1100 || len(e.Field) > 64 {
		t.Errorf("%s, %d, %q", e.Code, len(e.Message), e.Message[:20])
	}
	if e := (Fault{}).Err(); e.Message == "" {
		t.Error("no message")
	}
}

func FuzzReader(f *testing.F) {
	f.Add(append(appendPreamble(nil), "\x01\x00\x00\x00\x02{}\x04\x00\x00\x00\x01x"...))
	f.Add([]byte("SHOALG\x00\x01\x04\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		total := 0
		for {
			fr, err := r.Next()
			if err != nil {
				return
			}
			if total += headerSize + len(fr.Payload); total > len(b) {
				t.Fatal("more came out than went in")
			}
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"op":"exec","args":{"id":"x","cmd":["a"]}}`))
	f.Add([]byte(`{"files":[{"name":{"raw":"/w=="},"path":"/x","mtime":"2026-01-01T00:00:00Z"}]}`))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte(`{"path":"/x","size":5,"xattrs":[{"name":"user.a","value":"eA=="}],"modified_at":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"events":[{"kind":"rename","path":"/a","to":{"raw":"/w=="}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range []any{&Envelope{}, &Identity{}, &ExecRequest{}, &AttachRequest{}, &ListFilesRequest{}, &WriteRequest{}, &ResolveRequest{}, &WalkRequest{}, &PackRequest{}, &UnpackRequest{}, &ChangeRequest{}, &LinkRequest{}, &ChecksumRequest{}, &WatchRequest{}, &PartRequest{}} {
			if err := DecodeRequest(b, v); err != nil && core.CodeOf(err) == core.CodeInternal {
				t.Errorf("%T: %v", v, err)
			}
		}
		for _, v := range []any{&ExecInfo{}, &ListReply{}, &ListFilesReply{}, &WalkReply{}, &ResolveReply{}, &ArchiveReport{}, &FileInfo{}, &Metrics{}, &Hello{}, &XattrsReply{}, &ChecksumReply{}, &FileEvents{}, &PartialReply{}} {
			_ = DecodeReply(b, v)
		}
		var fault Fault
		if DecodeReply(b, &fault) == nil && fault.Err().Message == "" {
			t.Error("a fault without a message")
		}
		if o, m, err := ParseGap(b); err == nil && (o < 0 || m <= 0 || o+m < o) {
			t.Errorf("gap %d + %d", o, m)
		}
		if o, data, err := ParseOutput(b); err == nil && (o < 0 || o+int64(len(data)) < o) {
			t.Errorf("output at %d", o)
		}
	})
}

// TestFourthVersion: the same for what version 4 added.
func TestFourthVersion(t *testing.T) {
	var id Identity
	err := DecodeRequest([]byte(`{"sandbox":"a","incarnation":1,"hostname":"h","limits":{"memory_bytes":5,"pids":6,"open_files":7,"force":true}}`), &id)
	if err != nil || id.Limits == nil || *id.Limits != (Limits{MemoryBytes: 5, Pids: 6, OpenFiles: 7, Force: true}) {
		t.Errorf("identity: %+v, %v", id.Limits, err)
	}
	if b, err := Encode(Limits{Pids: 3}); err != nil || string(b) != `{"pids":3}` {
		t.Errorf("limits: %s, %v", b, err)
	}
}

// TestFifthVersion: the same for what version 5 added.
func TestFifthVersion(t *testing.T) {
	var part PartRequest
	err := DecodeRequest([]byte(`{"partial":"p","offset":5,"more":true,"sha256":"eA==","write":{"path":{"raw":"/w=="},"mode":6}}`), &part)
	if err != nil || part.Partial != "p" || part.Offset != 5 || !part.More || string(part.SHA256) != "x" || part.Write != (WriteRequest{Path: "\xff", Mode: 6}) {
		t.Errorf("part: %+v, %v", part, err)
	}
	if b, err := Encode(PartRequest{Partial: "p", Write: WriteRequest{Path: "/f"}}); err != nil || string(b) != `{"partial":"p","offset":0,"write":{"path":"/f"}}` {
		t.Errorf("part: %s, %v", b, err)
	}
	var reply PartialReply
	err = DecodeReply([]byte(`{"path":"/f","size":5,"sha256":"eA==","expires_at":"2026-01-02T03:04:05Z","file":{"name":"f","path":"/f","type":"file","size":5}}`), &reply)
	if err != nil || reply.Path != "/f" || reply.Size != 5 || string(reply.SHA256) != "x" || reply.ExpiresAt.Year() != 2026 || reply.File == nil || reply.File.Size != 5 {
		t.Errorf("reply: %+v, %v", reply, err)
	}
}

// TestHeartbeatTakesNoBuffer: a frame's bytes stay as they are while a heartbeat and the frame behind it are read.
func TestHeartbeatTakesNoBuffer(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, text := range []string{"first", "", "other"} {
		kind := FrameData
		if text == "" {
			kind = FrameHeartbeat
		}
		if err := w.Write(kind, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(&b)
	first, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if string(first.Payload) != "first" {
		t.Errorf("the first frame has become %q", first.Payload)
	}
}
