// Package soak_test pulls the cables of real servers: it kills sentries, gofers, makers and the server itself at random
// moments, fills the host's disk, damages files and unmounts what a server relies on.
//
// It asserts what must hold afterwards, and knows nothing of how the server recovers. It runs for minutes and only with
// SHOAL_TEST_FULL=1. Start with TestStorm and TestCables.
package soak_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// env is one server.
type env struct {
	*harness.Server
}

func needFull(t *testing.T) {
	t.Helper()
	if os.Getenv("SHOAL_TEST_FULL") == "" {
		t.Skip("takes minutes: set SHOAL_TEST_FULL=1")
	}
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	return harness.Context(t)
}

// wantState asserts a sandbox's state.
func (e env) wantState(t *testing.T, id string, want shoal.SandboxState) {
	t.Helper()
	if sb, err := e.Client.Sandboxes().Get(ctx(t), id); err != nil || sb.State != want {
		t.Errorf("sandbox %s is %s, want %s (%v)", id, sb.State, want, err)
	}
}

// processesOf returns how many processes of a sandbox there are on the host.
func (e env) processesOf(id string) (pids []int) {
	for _, p := range harness.Processes(e.Dir) {
		if strings.Contains(p.Command, id) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// deleteAll deletes every sandbox and waits until nothing of any is left.
func (e env) deleteAll(t *testing.T) {
	t.Helper()
	for _, sb := range e.Sandboxes(t) {
		if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil && shoal.ErrorCode(err) != "not_found" {
			t.Errorf("delete: %v", err)
		}
	}
	harness.Eventually(t, time.Minute, "nothing is left", func() error {
		if p := harness.Processes(e.Dir); len(p) > 0 {
			return fmt.Errorf("processes: %v", p)
		}
		for _, pattern := range []string{"node/journal/*.json*", "node/run/*", "runtime/*.json", "runtime/*.state", "pool/mnt/sandbox/*/*", "pool/mnt/checkpoint/*/*"} {
			left, _ := filepath.Glob(filepath.Join(e.Dir, pattern))
			if len(left) > 0 {
				return fmt.Errorf("files: %v", left)
			}
		}
		links, err := harness.RouterLinks(e.Dir)
		for _, l := range links {
			if l != "lo" {
				err = errors.Join(err, fmt.Errorf("interface %s", l))
			}
		}
		return err
	})
}
