package httpapi_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/httpapi"
	shoal "shoal/sdk/go"
)

// TestBatchLogsWhatFailed: what broke while one of many was created is in the log, and only there. What its caller has to mend is not.
func TestBatchLogsWhatFailed(t *testing.T) {
	lines := make(chan logLine, 16)
	c, fake := newClient(t, withLog(lines))
	for _, tt := range []struct {
		fails error
		level slog.Level
		err   string
	}{
		{errors.New("mount: no such device"), slog.LevelError, "mount: no such device"},
		{core.Wrap(core.CodeUnavailable, errors.New("disk I/O error"), "the store is away"), slog.LevelInfo, "disk I/O error"},
		{core.Invalid("vcpus", "too many"), slog.LevelInfo, ""},
	} {
		fake.mu.Lock()
		fake.fail["CreateSandbox"] = tt.fails
		fake.mu.Unlock()
		for _, err := range c.Sandboxes().CreateMany(t.Context(), shoal.CreateSandboxesRequest{Count: 3}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		line := <-lines
		if got := line.attrs["err"]; line.level != tt.level || !strings.Contains(got, tt.err) || (got == "") != (tt.err == "") {
			t.Errorf("%v is logged at %v: %v", tt.fails, line.level, line.attrs)
		}
	}
}

// TestLogLevels holds that moving data and looking, of which there is much, is no line at info unless it fails, and that what
// begins, changes and ends sandboxes and execs is.
func TestLogLevels(t *testing.T) {
	lines := make(chan logLine, 16)
	c, _ := newClient(t, func(o *httpapi.Options) { o.Logger = slog.New(logTo{lines}) })
	ctx := t.Context()
	create(t, c, "x")
	<-lines
	exec, err := c.Execs("x").Start(ctx, shoal.ExecRequest{Shell: "cat", StdinOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	if line := <-lines; line.level != slog.LevelInfo {
		t.Errorf("an exec's start: %v", line.level)
	}
	file := func(path string) error {
		_, err := c.Files("x").Write(ctx, path, strings.NewReader("data"), shoal.WriteOptions{})
		return err
	}
	for _, tt := range []struct {
		name  string
		call  func() error
		fails bool
		level slog.Level
	}{
		{"get a sandbox", func() error { _, err := c.Sandboxes().Get(ctx, "x"); return err }, false, slog.LevelDebug},
		{"get none", func() error { _, err := c.Sandboxes().Get(ctx, "none"); return err }, true, slog.LevelInfo},
		{"write a file", func() error { return file("/a") }, false, slog.LevelDebug},
		{"write to nobody", func() error {
			_, err := c.Files("none").Write(ctx, "/a", strings.NewReader("data"), shoal.WriteOptions{})
			return err
		}, true, slog.LevelInfo},
		{"stat a file", func() error { _, err := c.Files("x").Stat(ctx, "/a"); return err }, false, slog.LevelDebug},
		{"input", func() error { return c.Execs("x").WriteStdin(ctx, exec.ID, []byte("a"), false) }, false, slog.LevelDebug},
		{"the input's end", func() error { return c.Execs("x").WriteStdin(ctx, exec.ID, nil, true) }, false, slog.LevelDebug},
		{"input to none", func() error { return c.Execs("x").WriteStdin(ctx, "none", nil, true) }, true, slog.LevelInfo},
		{"delete", func() error { return c.Sandboxes().Delete(ctx, "x") }, false, slog.LevelInfo},
	} {
		if err := tt.call(); (err != nil) != tt.fails {
			t.Errorf("%s: %v", tt.name, err)
		}
		if line := <-lines; line.level != tt.level {
			t.Errorf("%s is logged at %v: %v", tt.name, line.level, line.attrs)
		}
	}
}
