package soak_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// TestStorm kills one process after another while clients create, run and delete.
func TestStorm(t *testing.T) {
	needFull(t)
	e := env{harness.Start(t, harness.Options{})}
	for _, victim := range []string{"sentry", "gofer", "any", "server"} {
		t.Run(victim, func(t *testing.T) { storm(t, e, victim) })
	}
}

const (
	stormLength  = 20 * time.Second
	stormClients = 4
)

func storm(t *testing.T, e env, victim string) {
	end := time.Now().Add(stormLength)
	var clients sync.WaitGroup
	for range stormClients {
		client := e.Client
		clients.Go(func() {
			for time.Now().Before(end) {
				if err := oneRound(client, victim); err != nil {
					t.Error(err)
				}
			}
		})
	}
	kills := 0
	for time.Now().Before(end) {
		<-time.After(time.Duration(rand.IntN(300)) * time.Millisecond)
		if victim == "server" {
			e.Kill()
			e.Restart(harness.Options{})
			kills++
			continue
		}
		if pid := pick(harness.Processes(e.Dir), victim); pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
			kills++
		}
	}
	clients.Wait()
	t.Logf("%d kills", kills)
	if kills == 0 {
		t.Error("nothing was killed")
	}
	for _, sb := range e.Sandboxes(t) {
		if sb.State == shoal.StateCreating {
			continue // its caller is gone and the undo is under way
		}
		res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"true"}})
		answers := err == nil && res.Outcome == shoal.OutcomeExited
		if now, gerr := e.Client.Sandboxes().Get(ctx(t), sb.ID); gerr == nil && now.State == shoal.StateRunning && !answers {
			t.Errorf("a sandbox that is listed as running does not answer: %v %s", err, res.Outcome)
		}
	}
	e.deleteAll(t)
	if log := e.Log(100000); strings.Contains(log, "panic: ") {
		t.Error("the server panicked")
	}
}

// pick returns a random process of a kind, zero if there is none.
func pick(list []harness.Process, kind string) int {
	var pids []int
	for _, p := range list {
		if kind == "any" || strings.HasPrefix(p.Command, map[string]string{"sentry": "runsc-sandbox", "gofer": "runsc-gofer"}[kind]) {
			pids = append(pids, p.PID)
		}
	}
	if len(pids) == 0 {
		return 0
	}
	return pids[rand.IntN(len(pids))]
}

// oneRound creates, runs and deletes. Everything may fail; nothing may be invented.
func oneRound(client *shoal.Client, victim string) error {
	c, cancel := context.WithTimeout(context.Background(), harness.CallLimit)
	defer cancel()
	sb, err := client.Sandboxes().Create(c, shoal.CreateSandboxRequest{})
	if err != nil {
		if c.Err() != nil {
			return errors.New("a create hung")
		}
		return nil
	}
	res, err := client.Execs(sb.ID).Run(c, shoal.ExecRequest{Shell: "sleep 0.2; echo done; exit 3"})
	switch {
	case c.Err() != nil:
		return errors.New("an exec hung")
	case err == nil && res.Outcome == shoal.OutcomeExited && (*res.ExitCode != 3 || string(res.StdoutBytes()) != "done\n"):
		return errors.New("an outcome was invented: " + string(res.StdoutBytes()))
	case err == nil && res.Outcome == shoal.OutcomeSignaled && victim == "any": // one of the host's processes stood for it
	case err == nil && res.Outcome != shoal.OutcomeExited && res.Outcome != shoal.OutcomeLost:
		return errors.New("an outcome was invented: " + string(res.Outcome))
	}
	if r, err := client.Files(sb.ID).Read(c, "/bin/sh"); err == nil {
		_, _ = io.Copy(io.Discard, r)
		_ = r.Close()
	}
	_ = client.Sandboxes().Delete(c, sb.ID)
	return nil
}
