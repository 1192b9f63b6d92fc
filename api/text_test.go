package api_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"shoal/api"
)

// TestTextIsBounded: whatever the bytes are, they come back, and are at most a little more than twice as long in JSON.
func TestTextIsBounded(t *testing.T) {
	const n = 4 << 10
	tests := map[string]struct {
		in  string
		raw bool
	}{
		"empty":                 {"", false},
		"plain":                 {strings.Repeat("x", n), false},
		"lines":                 {strings.Repeat("\r\n\t ", n/4), false},
		"colours":               {strings.Repeat("\x1b[31mred\x1b[0m", n/12), false},
		"JSON":                  {strings.Repeat(`{"a":"b"}`, n/9), false},
		"quotes":                {strings.Repeat(`"`, n), false},
		"a quarter control":     {strings.Repeat("\x00abc", n/4), false},
		"a third control":       {strings.Repeat("\x00ab", n/3), true},
		"zeros":                 {strings.Repeat("\x00", n), true},
		"few zeros":             {strings.Repeat("\x00", 100), false},
		"not UTF-8":             {"\xff", true},
		"much that isn't UTF-8": {strings.Repeat("\xff", n), true},
	}
	for name, tc := range tests {
		text, raw := api.Text([]byte(tc.in))
		if (raw != nil) != tc.raw || (raw != nil && text != "") {
			t.Errorf("%s: text %.10q, raw %.10q", name, text, raw)
		}
		if got := api.Join(text, raw); !bytes.Equal(got, []byte(tc.in)) {
			t.Errorf("%s came back as %.20q", name, got)
		}
		reply, err := json.Marshal(api.ExecMessage{Data: text, DataRaw: raw})
		if err != nil {
			t.Fatal(err)
		}
		if most := 9*len(tc.in)/4 + 1<<10; len(reply) > most {
			t.Errorf("%s: %d bytes became %d", name, len(tc.in), len(reply))
		}
	}
}
