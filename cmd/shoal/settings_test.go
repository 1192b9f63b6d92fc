package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"shoal/internal/cli"
)

// runOwn runs the program's own commands in this process.
func runOwn(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Main(t.Context(), args, cli.Options{
		Stdout: &out, Stderr: &errs, Extra: ownCommands(), Getenv: func(string) string { return "" },
	})
	return code, out.String(), errs.String()
}

// TestHelpNamesWhatCommandsRead holds that the commands beside serve show no flag that means nothing to them.
func TestHelpNamesWhatCommandsRead(t *testing.T) {
	flag := regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)
	for command, want := range map[string][]string{
		"doctor":    {"config", "data-dir", "help", "runtime-owner-uid", "output"},
		"uninstall": {"config", "data-dir", "delete-data", "help", "runtime-cgroup-parent", "yes"},
		"config":    {"help"},
	} {
		code, out, errs := runOwn(t, command, "--help")
		var got []string
		for _, m := range flag.FindAllStringSubmatch(out, -1) {
			got = append(got, m[1])
		}
		if diff := cmp.Diff(want, got); code != 0 || errs != "" || diff != "" {
			t.Errorf("%s: exit code %d, %s, flags (-want +got):\n%s", command, code, errs, diff)
		}
	}
}

// TestQuietFlagsAreRead holds that uninstall takes every setting that the drivers read, and no other.
func TestQuietFlagsAreRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nowhere")
	for flag, want := range map[string]string{
		"--runtime-owner-uid=2000000": "say --yes", "--pool-max-size=2G": "say --yes", "--pool-min-host-free=2G": "say --yes",
		"--log-level=debug": "say --yes", "--log-format=json": "say --yes", "--runtime-cgroup-parent=x": "say --yes",
		"--pool-max-size=little": "pool.max_size", "--listen=127.0.0.1:1": "has no flag --listen", "--delete-data": "deletes all that is in it",
	} {
		code, _, errs := runOwn(t, "uninstall", "--data-dir", dir, flag)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %q, want %q in it", flag, code, errs, want)
		}
	}
}

func TestOwnErrorsAreInWords(t *testing.T) {
	code, _, errs := runOwn(t, "uninstall", "--data-dir", "/srv/x")
	if want := "shoal: this ends all sandboxes under /srv/x: say --yes if you mean it\n"; code != 125 || errs != want {
		t.Errorf("exit code %d, %q, want %q", code, errs, want)
	}
}

// TestOwnCommandsAreDocumented holds the same of these commands as cli's tests do of theirs.
func TestOwnCommandsAreDocumented(t *testing.T) {
	var visit func(list []*cobra.Command)
	visit = func(list []*cobra.Command) {
		for _, c := range list {
			if c.Short == "" || c.Long == "" || c.RunE == nil || !strings.Contains(c.Example, "shoal ") {
				t.Errorf("%s lacks a part of its help", c.CommandPath())
			}
			visit(c.Commands())
		}
	}
	visit(ownCommands())
}
