package isolation_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal/test/bombs"
	"shoal/test/harness"
)

// testNeighbours sets bombs off and measures what a neighbour notices: all of its calls must succeed. How long they take is printed
// and not asserted: that is the machine's. A bombed sandbox is of use again afterwards, or has failed and says why; it can be
// deleted at once; and the server is as it was before.
func testNeighbours(t *testing.T, e env) {
	full := os.Getenv("SHOAL_TEST_FULL") != ""
	length := 1500 * time.Millisecond
	if full {
		length = 10 * time.Second
	}
	c, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	field := bombs.Field{Client: e.Client, Neighbour: e.neighbour.ID}
	quiet, err := field.Measure(c, length)
	if err != nil {
		t.Fatal(err)
	}
	before := serverFigures(t, e)
	var list []bombs.Outcome
	for _, b := range bombs.All() {
		if !full && !b.Quick {
			continue
		}
		got, err := field.Try(c, b, length)
		if err != nil {
			t.Errorf("%s: %v", b.Name, err)
			continue
		}
		list = append(list, got)
		for i, after := range got.After {
			reason, failed := strings.CutPrefix(after, "failed: ")
			switch {
			case failed && !b.MayFail:
				t.Errorf("%s: the sandbox has failed: %s", b.Name, reason)
			case failed && reason == "":
				t.Errorf("%s: the sandbox has failed without a reason", b.Name)
			case !failed && got.Ends[i] == "lost":
				t.Errorf("%s: the bomb is lost and its sandbox is %s", b.Name, after)
			}
		}
	}
	var table strings.Builder
	bombs.Table(&table, quiet, list)
	t.Logf("\n%s", table.String())
	harness.Eventually(t, time.Minute, "the server is as it was before", func() error {
		after := serverFigures(t, e)
		for name, slack := range map[string]float64{"go_goroutines": 32, "process_open_fds": 16, "go_memstats_heap_inuse_bytes": 64 << 20} {
			if after[name] > before[name]+slack {
				return fmt.Errorf("%s is %.0f, before %.0f", name, after[name], before[name])
			}
		}
		return nil
	})
}

// serverFigures are the server's own metrics that are single numbers.
func serverFigures(t *testing.T, e env) map[string]float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx(t), http.MethodGet, e.URL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %s %v", res.Status, err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && !slices.Contains([]string{"#"}, f[0]) {
			if out[f[0]], err = strconv.ParseFloat(f[1], 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}
