package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"shoal/api"
)

// TestResultInPieces: a reply that is encoded in pieces is what it would be in one.
func TestResultInPieces(t *testing.T) {
	code := 0
	meta := api.ExecResult{ID: "e1", PID: 17, Outcome: api.OutcomeExited, ExitCode: &code, DurationMs: 38}
	for name, out := range map[string]string{
		"empty": "", "short": "hello <&> ü\n", "one byte too many": strings.Repeat("x", pieceSize+1),
		"runes across pieces": "x" + strings.Repeat("€", pieceSize), "wide runes": "ab" + strings.Repeat("😀", pieceSize),
		"separators": strings.Repeat("\u2028\u2029", pieceSize/2), "escapes": strings.Repeat("\"\\\x00\n\x1b[0m", pieceSize/2),
		"zeros": strings.Repeat("\x00", 3*pieceSize+1), "not UTF-8": strings.Repeat("\xff", 2*pieceSize), "one bad byte": "\xff",
	} {
		want := meta
		text, raw := api.Text([]byte(out))
		if want.StdoutRaw = raw; raw == nil {
			want.Stdout = &text
		}
		want.Stderr, want.StderrRaw = want.Stdout, want.StdoutRaw
		w := httptest.NewRecorder()
		if err := sendResult(w, meta, []byte(out), []byte(out)); err != nil {
			t.Fatal(err)
		}
		var got api.ExecResult
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		a, errA := encodeJSON(want)
		b, errB := encodeJSON(got)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: got %.200s, want %.200s", name, b, a)
		}
		if !bytes.Equal(got.StdoutBytes(), []byte(out)) || !bytes.HasSuffix(w.Body.Bytes(), []byte("}\n")) {
			t.Errorf("%s came back as %.200q", name, got.StdoutBytes())
		}
		if len(w.Body.Bytes()) != len(a) {
			t.Errorf("%s: %d bytes, %d in one piece", name, w.Body.Len(), len(a))
		}
	}
}
