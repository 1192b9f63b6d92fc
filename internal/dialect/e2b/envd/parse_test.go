package envd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd/processpb"
)

func TestPartName(t *testing.T) {
	for text, want := range map[string][2]string{
		`form-data; name="file"; filename="/home/user/a b.txt"`: {"file", "/home/user/a b.txt"},
		`form-data; name="file"; filename="ünïcode/ß"`:          {"file", "ünïcode/ß"},
		`form-data; name="file"; filename="a%22b%0Ac%0Dd%25"`:   {"file", "a\"b\nc\rd%25"},
		`form-data; name="file"; filename="a\\b"`:               {"file", `a\b`},
		`form-data; name="file"; filename="a\b"`:                {"file", `a\b`},
		`form-data; name=file; filename=plain`:                  {"file", "plain"},
		`form-data; name="file"; filename*=UTF-8''%C3%BC%2Fx`:   {"file", "ü/x"},
		`form-data; name="file"; filename="../../etc/passwd"`:   {"file", "../../etc/passwd"},
		`form-data; name="file"`:                                {"file", ""},
	} {
		if field, name, err := partName(text); err != nil || field != want[0] || name != want[1] {
			t.Errorf("%s: %q, %q, %v", text, field, name, err)
		}
	}
	for _, bad := range []string{"", "attachment; filename=x", `form-data; name="file`, "form-data; name"} {
		if _, _, err := partName(bad); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzPartName(f *testing.F) {
	f.Add(`form-data; name="file"; filename="/home/user/a b.txt"`)
	f.Add(`form-data; name="file"; filename*=UTF-8''%C3%BC; filename="x"`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, _, err := partName(text); err != nil && !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// FuzzForm: no body makes anything but files or a refusal of the caller's.
func FuzzForm(f *testing.F) {
	f.Add("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\none\r\n--x--\r\n")
	f.Add("--x\r\n\r\n--x--")
	f.Add("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nhalf")
	f.Fuzz(func(t *testing.T, body string) {
		g := &sink{}
		list, err := files{guest: g}.writeParts(t.Context(), "", multipart.NewReader(strings.NewReader(body), "x"))
		if err != nil && !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%v", err)
		}
		if err == nil && (len(list) == 0 || len(list) != g.files) {
			t.Errorf("%d files told, %d written", len(list), g.files)
		}
	})
}

func FuzzBasicUser(f *testing.F) {
	for _, s := range []string{"Basic dXNlcjo=", "basic  cm9vdDo=", "Basic", "Basic !", "Bearer x", "Basic AA==", "Basic gDo="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		user, err := basicUser(http.Header{"Authorization": {value}})
		if err != nil {
			if !core.IsCode(err, core.CodeUnauthenticated) || !utf8.ValidString(err.Error()) {
				t.Errorf("%q: %v", value, err)
			}
			return
		}
		if len(user) > maxUser || strings.ContainsAny(user, ":\x00") || !utf8.ValidString(user) {
			t.Errorf("%q gave %q", value, user)
		}
	})
}

func TestDeadlines(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": time.Millisecond, "60000": time.Minute, "9999999999": 9999999999 * time.Millisecond} {
		if d, err := parseMillis(text); err != nil || d != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for text, want := range map[string]time.Duration{"5S": 5 * time.Second, "1H": time.Hour, "3M": 3 * time.Minute, "20m": 20 * time.Millisecond, "1u": time.Millisecond, "7n": time.Millisecond} {
		if d, err := parseGRPCTimeout(text); err != nil || d != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
}

func FuzzDeadlines(f *testing.F) {
	for _, s := range []string{"", "0", "12345678901", "-1", "99999999H", "1x", "S"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (time.Duration, error){parseMillis, parseGRPCTimeout} {
			if d, err := parse(text); err == nil && d <= 0 || err != nil && !core.IsCode(err, core.CodeInvalid) {
				t.Errorf("%q: %v, %v", text, d, err)
			}
		}
		if d, err := keepAlive(http.Header{"Keepalive-Ping-Interval": {text}}); err == nil && d <= 0 {
			t.Errorf("%q: %v", text, d)
		}
	})
}

func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-1", "bytes=-5", "bytes=5-", "bytes=9223372036854775807-9223372036854775807", "bytes=--1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRange(&http.Request{Header: http.Header{"Range": {text}}})
		if err == nil && (r.from < 0 || r.suffix < 0 || r.length < -1 || r.length == 0) {
			t.Errorf("%q: %+v", text, r)
		}
	})
}

// FuzzPlace: what is taken for an absolute path without asking is one that needs nothing done to it.
func FuzzPlace(f *testing.F) {
	for _, s := range []string{"/", "/a", "//", "/a/", "/./a", "/a/.", "a", "~", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		asked := &sink{}
		p, err := files{guest: asked}.place(t.Context(), "path", name)
		switch {
		case err != nil:
			if !core.IsCode(err, core.CodeInvalid) || len(name) <= maxPath {
				t.Errorf("%q: %v", name, err)
			}
		case asked.asked == 0 && (p.Path != name || !strings.HasPrefix(name, "/") || strings.Contains(name+"/", "/./") || len(name) > 1 && strings.HasSuffix(name, "/")):
			t.Errorf("%q was taken as it is", name)
		}
	})
}

func FuzzAcceptEncoding(f *testing.F) {
	f.Add("gzip, deflate")
	f.Add("*;q=0")
	f.Fuzz(func(t *testing.T, text string) {
		if packed, err := wantsGzip([]string{text}); packed && err != nil {
			t.Errorf("%q: both", text)
		}
	})
}

// sink is a guest agent that takes every file and keeps none.
type sink struct {
	core.Guest
	files, asked int
}

func (s *sink) Resolve(_ context.Context, path, _ string) (core.Place, error) {
	s.asked++
	return core.Place{Path: "/" + path, User: "user"}, nil
}

func (s *sink) WriteFile(_ context.Context, path string, _ core.WriteOptions, r io.Reader) (core.FileInfo, error) {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return core.FileInfo{}, core.Wrap(core.CodeInvalid, err, "the content broke off")
	}
	s.files++
	return core.FileInfo{Name: "x", Path: path, Type: core.FileRegular}, nil
}

// TestCodecs: what is no message is refused, not taken for one.
func TestCodecs(t *testing.T) {
	for _, codec := range []interface {
		Marshal(any) ([]byte, error)
		Unmarshal([]byte, any) error
	}{strictJSON{"json"}, strictProto{}} {
		if _, err := codec.Marshal("x"); err == nil {
			t.Errorf("%T encodes a string", codec)
		}
		if err := codec.Unmarshal(nil, new(string)); err == nil {
			t.Errorf("%T decodes into a string", codec)
		}
		m := &processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: "x", Envs: map[string]string{"A": "b"}}, Tag: proto.String("t")}
		b, err := codec.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var again processpb.StartRequest
		if err := codec.Unmarshal(b, &again); err != nil || !proto.Equal(m, &again) {
			t.Errorf("%T: %v, %v", codec, &again, err)
		}
	}
	if err := (strictJSON{}).Unmarshal(nil, &processpb.ListRequest{}); err == nil {
		t.Error("nothing was taken for JSON")
	}
	inner, err := proto.Marshal(&processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	// A field that is not known, inside the process: number 15, a varint.
	bad := append(bytes.Clone(inner[:1]), append([]byte{inner[1] + 2}, append(bytes.Clone(inner[2:]), 0x78, 1)...)...)
	if err := (strictProto{}).Unmarshal(bad, &processpb.StartRequest{}); err == nil || errors.Is(err, proto.Error) {
		t.Errorf("an unknown field inside: %v", err)
	}
}

// older is a guest agent of before the calls that this package needs most.
type older struct{ sink }

func (*older) Resolve(context.Context, string, string) (core.Place, error) {
	return core.Place{}, core.Errorf(core.CodeUnsupported, `the sandbox's guest agent does not know the operation "resolve"`)
}

// TestOlderAgent: a file goes to a sandbox with an old guest agent if all that it takes is known; else the answer says what is missing.
func TestOlderAgent(t *testing.T) {
	write := func(user, name string) (written, error) {
		return files{guest: &older{}, user: user}.write(t.Context(), name, strings.NewReader("x"))
	}
	if w, err := write("", "/a/b"); err != nil || w.Path != "/a/b" {
		t.Errorf("an absolute path: %+v, %v", w, err)
	}
	for _, c := range [][2]string{{"", "b"}, {"", "~/b"}, {"root", "/a/b"}} {
		if w, err := write(c[0], c[1]); !core.IsCode(err, core.CodeUnsupported) {
			t.Errorf("%q for %q: %+v, %v", c[1], c[0], w, err)
		}
	}
}
