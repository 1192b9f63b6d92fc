package shoal

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestReadFrame(t *testing.T) {
	r := strings.NewReader("\x00\x00\x00\x11\x00{\"type\":\"error\"}" + "\x00\x00\x00\x0b\x01\x00\x00\x00\x00\x00\x00\x00\x05hi")
	if m, err := readFrame(r); err != nil || m.Type != "error" {
		t.Errorf("got %+v, %v", m, err)
	}
	if m, err := readFrame(r); err != nil || m.Type != MessageStdout || *m.Offset != 5 || m.Data != "hi" {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err := readFrame(r); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
	for _, bad := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x00\x00\x00\x02\x00x", "\x00\x00\x00\x01\x07"} {
		if _, err := readFrame(strings.NewReader(bad)); ErrorCode(err) != CodeInternal {
			t.Errorf("%q gives %v", bad, err)
		}
	}
}

// TestStreamForms holds that a server that answers with lines is followed too, and one that breaks off between two frames is
// told from one that has said all.
func TestStreamForms(t *testing.T) {
	started := `{"type":"started","exec":{"id":"e"}}`
	for kind, body := range map[string]string{
		linesType:  started + "\n" + `{"type":"stdout","offset":0,"data":"x"}` + "\n",
		framesType: "\x00\x00\x00\x25\x00" + started + "\x00\x00\x00\x0a\x01\x00\x00\x00\x00\x00\x00\x00\x00x",
	} {
		c, _ := answers(t, func(w http.ResponseWriter, r *http.Request) {
			if accept := r.Header.Get("Accept"); !strings.Contains(accept, framesType) || !strings.Contains(accept, linesType) {
				t.Errorf("accepts %s", accept)
			}
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, body)
		})
		s, err := c.Execs("x").Stream(t.Context(), ExecRequest{Shell: "true"})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if m, err := s.Recv(); err != nil || m.Type != MessageStarted || m.Exec.ID != "e" {
			t.Errorf("%s: got %+v, %v", kind, m, err)
		}
		if m, err := s.Recv(); err != nil || string(m.Bytes()) != "x" {
			t.Errorf("%s: got %+v, %v", kind, m, err)
		}
		if _, err := s.Recv(); ErrorCode(err) != CodeUnavailable {
			t.Errorf("%s: the end is %v", kind, err)
		}
		_ = s.Close()
	}
}

// TestInputComesTooFast holds that input that a rate limit refused is sent again, once, in order and as it is.
func TestInputComesTooFast(t *testing.T) {
	var got bytes.Buffer
	c, n := answers(t, refuse(http.StatusTooManyRequests, CodeQuota), func(w http.ResponseWriter, r *http.Request) {
		_, _ = got.ReadFrom(r.Body)
		w.WriteHeader(http.StatusNoContent)
	})
	data := bytes.Repeat([]byte{0, 1, 0xff}, maxInput)
	if err := c.Execs("x").WriteStdin(t.Context(), "e", data, true); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), data) || n.Load() != 4 {
		t.Errorf("%d bytes of %d arrived in %d calls", got.Len(), len(data), n.Load())
	}
	c, _ = answers(t, refuse(http.StatusConflict, CodeConflict))
	if err := c.Execs("x").WriteStdin(t.Context(), "e", data, true); ErrorCode(err) != CodeConflict {
		t.Errorf("got %v", err)
	}
}
