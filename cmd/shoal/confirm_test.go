package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"shoal/internal/core"
)

func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, " yes": true, "\n": false, "": false, "n\n": false, "yess\n": false} {
		in, ours, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ours.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		_ = ours.Close()
		var out bytes.Buffer
		if err := confirm(t.Context(), in, &out, "this ends it"); (err == nil) != want {
			t.Errorf("%q: %v, want yes %t", answer, err, want)
		}
		if got := out.String(); got != "This ends it. Go on? [y/N] " {
			t.Errorf("asks %q", got)
		}
		_ = in.Close()
	}
}

// TestConfirmIsInterrupted holds that Ctrl-C is no answer and needs none.
func TestConfirmIsInterrupted(t *testing.T) {
	in, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer ours.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := confirm(ctx, in, &bytes.Buffer{}, "this ends it"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it canceled", err)
	}
}

// TestUninstallWantsYes holds that where nobody can be asked, nothing is taken for granted.
func TestUninstallWantsYes(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, in := range []*os.File{null, nil} {
		cmd := uninstallCommand()
		cmd.SetContext(t.Context())
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs([]string{"--data-dir", t.TempDir(), "--delete-data"})
		if in != nil {
			cmd.SetIn(in)
		} else {
			cmd.SetIn(&bytes.Buffer{})
		}
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "say --yes if you mean it") {
			t.Errorf("%v, want it refused", err)
		}
	}
}

// TestUninstallNamesTheRunningServer holds that a server that still has the directory is what is said to be in the way.
func TestUninstallNamesTheRunningServer(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("SHOAL_REQUIRE_ROOT") == "1" {
			t.Fatal("needs root")
		}
		t.Skip("needs root: uninstall refuses others before it looks at the directory")
	}
	path := t.TempDir()
	if err := os.Chmod(path, 0o711); err != nil {
		t.Fatal(err)
	}
	d, err := openDataDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := os.WriteFile(d.join(storeFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := uninstallCommand()
	cmd.SetContext(t.Context())
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--data-dir", path, "--yes"})
	if err := cmd.Execute(); !core.IsCode(err, core.CodeConflict) || !strings.Contains(err.Error(), "the server of "+path+" still runs: stop it first") {
		t.Errorf("%v, want the server named", err)
	}
}
