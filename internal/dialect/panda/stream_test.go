package panda_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"shoal/internal/core"
)

// TestEventsAreBounded holds that output which is ready all at once goes out in events of a bounded size, each with whole characters: an event is
// held in memory until its client has read it.
func TestEventsAreBounded(t *testing.T) {
	f := newFake()
	url, _ := serve(t, f, nil)
	newSandbox(t, url)
	want := strings.Repeat("\x01ü", 80_000)
	f.messages = []core.ExecMessage{out(want), end(core.Exec{Outcome: core.OutcomeExited, ExitCode: code(3)})}
	res, body := call(t, http.MethodPost, url+"/v1/sandboxes/"+id+"/exec/stream", `{"cmd":"x"}`)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	var got bytes.Buffer
	last := ""
	for _, event := range strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		const most = 256 << 10
		if len(event) > most {
			t.Errorf("an event of %d bytes", len(event))
		}
		kind, data, _ := strings.Cut(event, "\ndata: ")
		var d struct{ Chunk string }
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			t.Fatalf("%.80q: %v", event, err)
		}
		got.WriteString(d.Chunk)
		last = kind
	}
	if got.String() != want || last != "event: exit" {
		t.Errorf("%d bytes of output, then %q", got.Len(), last)
	}
}
