package panda

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// decoded is what a client reads from an escaped text.
func decoded(t *testing.T, escaped []byte) string {
	t.Helper()
	for _, c := range escaped {
		if c < ' ' || c >= 0x7f {
			t.Fatalf("%q has the byte %#x", escaped, c)
		}
	}
	var s string
	if err := json.Unmarshal([]byte(`"`+string(escaped)+`"`), &s); err != nil {
		t.Fatalf("%q: %v", escaped, err)
	}
	return s
}

// FuzzText holds that text arrives as it was, whole, in pieces of the stream or of the reply, and that other bytes become U+FFFD each.
func FuzzText(f *testing.F) {
	for _, s := range []string{"plain", "caf\xc3\xa9", "\xff\xfe", "\xe2\x82", "\U0001F600\u2028\u0085\x00\x1b\"\\", "\xf0\x9f\x98\x80\xf0\x9f", "\xed\xa0\x80"} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint8) {
		want := string([]rune(string(data)))
		if got := decoded(t, appendText(nil, data)); got != want {
			t.Fatalf("%q became %q", data, got)
		}
		var got strings.Builder
		var d decoder
		step := int(cut)%7 + 1
		for rest := data; len(rest) > 0; {
			n := min(step, len(rest))
			got.WriteString(decoded(t, appendText(nil, d.next(rest[:n]))))
			rest = rest[n:]
		}
		got.WriteString(decoded(t, appendText(nil, d.rest())))
		if got.String() != want {
			t.Fatalf("%q in pieces of %d became %q", data, step, got.String())
		}
	})
}

func TestWriteTextInPieces(t *testing.T) {
	for _, unit := range []string{"é", "€", "\U0001F600", "x", "\xff", "x\xe2\x82"} {
		data := []byte(strings.Repeat(unit, 3*pieceSize/len(unit)+1))
		var b bytes.Buffer
		out := bufio.NewWriter(&b)
		writeText(out, data)
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := decoded(t, b.Bytes()); got != string([]rune(string(data))) {
			t.Errorf("%q: it came apart at the end of a piece", unit)
		}
	}
}

func TestCutWhole(t *testing.T) {
	for in, want := range map[string]string{"abc": "abc", "ab\xc3": "ab", "a\xe2\x82": "a", "\xff\xff\xff": "\xff\xff\xff"} {
		if got := cutWhole([]byte(in), 3); string(got) != want {
			t.Errorf("%q became %q", in, got)
		}
	}
	if got := cutWhole([]byte("a\xc3"), 3); string(got) != "a\xc3" {
		t.Errorf("what was not cut became %q", got)
	}
}

// FuzzHarmless holds that no message makes an SDK send a call again or take it for a timeout.
func FuzzHarmless(f *testing.F) {
	for _, s := range []string{"dial: connect: connection refused", "I/O Timeout", "TIMEOUT", "deadline exceededeadline exceeded", "a\xffno route to host", "İtimeout"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, message string) {
		out := harmless(message, true)
		for _, trap := range traps {
			if indexFold(out, trap.text) >= 0 {
				t.Errorf("%q became %q", message, out)
			}
		}
		if utf8.ValidString(message) && !utf8.ValidString(out) {
			t.Errorf("%q became %q", message, out)
		}
	})
}
