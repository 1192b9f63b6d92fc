package cli_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"shoal/internal/cli"
)

// interrupting ends a context when the first line is written to it.
type interrupting struct {
	stop  context.CancelFunc
	lines atomic.Int64
}

func (i *interrupting) Write(p []byte) (int, error) {
	i.lines.Add(int64(bytes.Count(p, []byte("\n"))))
	i.stop()
	return len(p), nil
}

// TestCreateManyInterrupted: whoever interrupts it is told how many were made and stay.
func TestCreateManyInterrupted(t *testing.T) {
	b := newBackend(t).ready(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, said := &interrupting{stop: stop}, &strings.Builder{}
	code := cli.Main(ctx, []string{"create", "--count", "1000"}, cli.Options{
		Version: "v1.2.3", Stdout: out, Stderr: said, Getenv: func(k string) string {
			return map[string]string{"SHOAL_URL": b.url, "SHOAL_API_KEY": b.key}[k]
		},
	})
	if n := out.lines.Load(); n == 0 || n == 1000 || code != 125 ||
		!strings.HasPrefix(said.String(), "shoal: interrupted; ") || !strings.HasSuffix(said.String(), " of 1000 were made by then and stay: 'shoal ls' shows them\n") {
		t.Errorf("%d lines, code %d, %q", n, code, said)
	}
}
