package cli_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"shoal/internal/cli"
)

var update = flag.Bool("update", false, "rewrite golden files and the reference")

// run runs the command line in this process and returns its exit code and what it printed.
func run(t *testing.T, b *backend, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := map[string]string{"SHOAL_URL": b.url, "SHOAL_API_KEY": b.key}
	code = cli.Main(t.Context(), args, cli.Options{
		Version: "v1.2.3", Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(k string) string { return env[k] },
	})
	return code, out.String(), errs.String()
}

// golden compares text with a file, or rewrites the file with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v: run go test ./internal/cli -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is stale (-want +got); if that is on purpose: go test ./internal/cli -update\n%s", name, diff)
	}
}

// commands walks the tree of visible commands.
func commands(c *cobra.Command, visit func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			visit(sub)
			commands(sub, visit)
		}
	}
}

func TestHelp(t *testing.T) {
	root := cli.New(cli.Options{})
	check := func(c *cobra.Command) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			args := append(strings.Fields(c.CommandPath())[1:], "--help")
			if code := cli.Main(t.Context(), args, cli.Options{Stdout: &out, Stderr: &out}); code != 0 {
				t.Fatalf("exit code %d: %s", code, out.String())
			}
			golden(t, filepath.Join("testdata", "help", name+".txt"), out.String())
		})
	}
	check(root)
	commands(root, check)
}

func TestEveryCommandIsDocumented(t *testing.T) {
	commands(cli.New(cli.Options{}), func(c *cobra.Command) {
		switch {
		case c.Short == "" || strings.HasSuffix(c.Short, "."):
			t.Errorf("%s: Short is a phrase without full stop, not %q", c.CommandPath(), c.Short)
		case c.Long == "":
			t.Errorf("%s has no Long", c.CommandPath())
		case !strings.Contains(c.Example, "shoal "):
			t.Errorf("%s has no example", c.CommandPath())
		case c.RunE == nil:
			t.Errorf("%s does nothing", c.CommandPath())
		}
	})
}

// TestReference holds docs/reference/cli.md, which also has the commands that only the program itself can have, against the
// commands of this package.
func TestReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	commands(cli.New(cli.Options{}), func(c *cobra.Command) {
		if !strings.Contains(string(text), strings.TrimSpace(cli.Section(c))+"\n") {
			t.Errorf("docs/reference/cli.md is stale about %s: run make generate", c.CommandPath())
		}
	})
}
