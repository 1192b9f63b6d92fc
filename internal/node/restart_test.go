package node_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
	diskfake "shoal/internal/disk/fake"
	"shoal/internal/runtime"
	runtimefake "shoal/internal/runtime/fake"
)

// known says that there are records of some sandboxes, and of the template.
func known(ids ...core.SandboxID) core.Known {
	k := core.Known{Sandboxes: map[core.SandboxID]bool{}, Templates: map[core.TemplateID]bool{template: true}}
	for _, id := range ids {
		k.Sandboxes[id] = true
	}
	return k
}

func (s *server) sweep(t *testing.T, known core.Known) {
	t.Helper()
	if err := s.Sweep(t.Context(), known); err != nil {
		t.Errorf("sweep: %v", err)
	}
}

// listed returns what the node says of one sandbox.
func (s *server) listed(t *testing.T, id core.SandboxID) (core.NodeSandbox, bool) {
	t.Helper()
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(x core.NodeSandbox) bool { return x.Sandbox == id })
	if i < 0 {
		return core.NodeSandbox{}, false
	}
	return list[i], true
}

// TestRestartSaysWhatItTookOver holds that a start says how many sandboxes it has taken over, and warns of one that it has lost,
// but not of one that had ended before.
func TestRestartSaysWhatItTookOver(t *testing.T) {
	s := start(t)
	failed, lost, fine := s.create(t), s.create(t), s.create(t)
	all := known(failed.Sandbox, lost.Sandbox, fine.Sandbox)
	if err := s.host.world.Crash(failed.Sandbox, "test"); err != nil {
		t.Fatal(err)
	}
	s.exit(t)
	s = s.restart()
	s.sweep(t, all)
	if err := s.network.Detach(t.Context(), lost.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.host.log.take()
	s = s.host.open()
	said := s.host.log.take()
	if !strings.Contains(said, "taken_over=1 not_taken_over=2 ended_before=1 lost_network=1\n") {
		t.Errorf("it says:\n%s", said)
	}
	if strings.Count(said, "level=WARN") != 1 || strings.Contains(said, string(failed.Sandbox)) || !strings.Contains(said, string(lost.Sandbox)) {
		t.Errorf("it warns:\n%s", said)
	}
}

func TestRestartAdopts(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	before := s.trace(t)
	s = s.restart()
	s.sweep(t, known(spec.Sandbox))
	if got := s.trace(t); got != before {
		t.Errorf("after the restart %+v, before it %+v", got, before)
	}
	want := core.NodeSandbox{Sandbox: spec.Sandbox, Incarnation: spec.Incarnation, Epoch: spec.Epoch, Running: true}
	if got, ok := s.listed(t, spec.Sandbox); !ok || got != want {
		t.Errorf("listed as %+v, want %+v", got, want)
	}
	if !s.reachable(t, spec.Sandbox) {
		t.Error("not reachable after the restart")
	}
	if err := s.Create(t.Context(), spec); err != nil {
		t.Errorf("its create again: %v", err)
	}
	if err := s.host.world.Crash(spec.Sandbox, "test"); err != nil {
		t.Fatal(err)
	}
	if e := s.exit(t); e.Sandbox != spec.Sandbox || e.Incarnation != spec.Incarnation || e.Reason != "test" {
		t.Errorf("exit %+v", e)
	}
	s = s.restart()
	s.sweep(t, known(spec.Sandbox))
	if got, ok := s.listed(t, spec.Sandbox); !ok || got.Running {
		t.Errorf("a dead sandbox is listed as %+v, %v", got, ok)
	}
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.wantNothing(t)
}

// TestRestartCutOff: what was being removed when the server died is gone after the sweep, whatever there was of it.
func TestRestartCutOff(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		s := start(t)
		spec := s.create(t)
		s.host.setPhase(t, spec.Sandbox, "deleting")
		s = s.restart()
		if got := s.trace(t); got.reserved != 1 {
			t.Errorf("what it holds is not reserved: %+v", got)
		}
		ids := known()
		if recorded {
			ids = known(spec.Sandbox)
		}
		s.sweep(t, ids)
		s.wantNothing(t)
		if n := s.host.aside(t, disk.KindSandbox, string(spec.Sandbox)); n != 0 {
			t.Error("its tree was set aside")
		}
	}
}

// TestRestartDuringCreate: an entry that says creating may be older than the truth. The machine goes, and the tree stays until
// the store's owner deletes the sandbox, or is set aside if the store does not know it.
func TestRestartDuringCreate(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.host.setPhase(t, spec.Sandbox, "creating")
	s = s.restart()
	s.sweep(t, known(spec.Sandbox))
	if got := s.trace(t); got.machines+got.slots+got.runDirs != "" || got.trees != string(spec.Sandbox) || got.reserved != 0 {
		t.Errorf("after the sweep: %+v", got)
	}
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.wantNothing(t)

	spec = s.create(t)
	s.host.setPhase(t, spec.Sandbox, "creating")
	s = s.restart()
	s.sweep(t, known())
	if got := s.trace(t); got.machines != "" || got.reserved != 0 {
		t.Errorf("after the sweep: %+v", got)
	}
	if n := s.host.aside(t, disk.KindSandbox, string(spec.Sandbox)); n != 1 {
		t.Errorf("%d trees were set aside, want 1", n)
	}
}

// TestRestartUnreachable: a machine that can't be taken over is ended, said not to run, and its tree stays.
func TestRestartUnreachable(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *server, core.SandboxID){
		"network lost": func(t *testing.T, s *server, id core.SandboxID) {
			t.Helper()
			if err := s.network.Detach(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		"machine does not answer": func(_ *testing.T, s *server, _ core.SandboxID) {
			s.host.world.SetFault(runtimefake.MethodAdopt, func(context.Context, core.SandboxID) error {
				return core.Errorf(core.CodeUnavailable, "no answer")
			})
		},
		"damaged entry": func(t *testing.T, s *server, id core.SandboxID) {
			t.Helper()
			if err := os.WriteFile(s.host.journalPath(id), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			spec := s.create(t)
			spoil(t, s, spec.Sandbox)
			s = s.restart()
			s.sweep(t, known(spec.Sandbox))
			want := trace{trees: string(spec.Sandbox), journal: string(spec.Sandbox)}
			if got := s.trace(t); got != want {
				t.Errorf("left %+v, want %+v", got, want)
			}
			if got, ok := s.listed(t, spec.Sandbox); !ok || got.Running {
				t.Errorf("listed as %+v, %v", got, ok)
			}
			if s.reachable(t, spec.Sandbox) {
				t.Error("reachable")
			}
			if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
				t.Fatal(err)
			}
			s.wantNothing(t)
		})
	}
}

// TestSweepUnknown: a sandbox that the store does not know is ended; its tree and entry are kept for a day.
func TestSweepUnknown(t *testing.T) {
	s := start(t)
	spec, bystander := s.create(t), s.create(t)
	s = s.restart()
	s.sweep(t, known(bystander.Sandbox))
	if s.reachable(t, spec.Sandbox) || !s.reachable(t, bystander.Sandbox) {
		t.Error("the wrong one was ended")
	}
	if got := s.trace(t); got.journal != string(bystander.Sandbox) || got.machines != string(bystander.Sandbox) || got.reserved != 1 {
		t.Errorf("left %+v", got)
	}
	if n := s.host.aside(t, disk.KindSandbox, string(spec.Sandbox)); n != 1 {
		t.Errorf("%d trees set aside", n)
	}
	entry := string(spec.Sandbox) + ".json"
	if got := s.host.names(t, "journal/aside"); !slices.Equal(got, []string{entry}) {
		t.Errorf("entries set aside: %v", got)
	}
	// It is set aside as of now, however long ago it was made.
	s.host.clock.advance(t, 23*time.Hour)
	s.sweep(t, known(bystander.Sandbox))
	if got := s.host.names(t, "journal/aside"); len(got) != 1 {
		t.Errorf("entries set aside after 23 hours: %v", got)
	}
	purged := make(chan struct{}, 100)
	s.disk.SetHook(func(_ context.Context, c diskfake.Call) error {
		if c.Op == diskfake.OpPurgeQuarantine {
			purged <- struct{}{}
		}
		return nil
	})
	s.host.clock.advance(t, 2*time.Hour)
	select {
	case <-purged: // by itself, without a sweep
	case <-time.After(patience):
		t.Fatal("nothing was purged")
	}
	deadline := time.After(patience)
	for len(s.host.names(t, "journal/aside")) > 0 {
		select {
		case <-deadline:
			t.Fatal("the entry is kept for ever")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestDamagedEntries: whatever is in an entry, no tree is destroyed for it, and no process goes on.
func TestDamagedEntries(t *testing.T) {
	for name, damage := range map[string]func(string) string{
		"garbage":       func(string) string { return "\x00\xff" },
		"empty":         func(string) string { return "" },
		"null":          func(string) string { return "null" },
		"other version": func(s string) string { return strings.Replace(s, `"version":1`, `"version":2`, 1) },
		"no version":    func(s string) string { return strings.Replace(s, `"version":1,`, ``, 1) },
		"other sandbox": func(s string) string { return strings.Replace(s, `"sandbox":"`, `"sandbox":"x`, 1) },
		"unknown phase": func(s string) string { return strings.Replace(s, `"running"`, `"standby"`, 1) },
		"cut off":       func(s string) string { return s[:len(s)/2] },
		"deleting, newer": func(s string) string {
			return strings.NewReplacer(`"version":1`, `"version":9`, "running", "deleting").Replace(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			recorded, unknown := s.create(t), s.create(t)
			for _, id := range []core.SandboxID{recorded.Sandbox, unknown.Sandbox} {
				data, err := os.ReadFile(s.host.journalPath(id))
				if err != nil {
					t.Fatal(err)
				}
				spoiled := damage(string(data))
				if spoiled == string(data) {
					t.Fatal("the test damages nothing")
				}
				if err := os.WriteFile(s.host.journalPath(id), []byte(spoiled), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s = s.restart()
			s.sweep(t, known(recorded.Sandbox))
			want := trace{trees: string(recorded.Sandbox), journal: string(recorded.Sandbox)}
			if got := s.trace(t); got != want {
				t.Errorf("left %+v, want %+v", got, want)
			}
			if n := s.host.aside(t, disk.KindSandbox, string(unknown.Sandbox)); n != 1 {
				t.Errorf("the unknown one's tree was set aside %d times", n)
			}
		})
	}
}

// TestUnfinishedEntry: an entry that was being written when the server died changes nothing.
func TestUnfinishedEntry(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	other := s.host.journalPath(core.SandboxID(core.NewID())) + ".new"
	for _, path := range []string{s.host.journalPath(spec.Sandbox) + ".new", other} {
		if err := os.WriteFile(path, []byte(`{"phase":"deleting"`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := core.NodeSandbox{Sandbox: spec.Sandbox, Incarnation: 1, Epoch: 3, Running: true}
	s = s.restart()
	s.sweep(t, known(spec.Sandbox))
	if got, _ := s.listed(t, spec.Sandbox); got != before {
		t.Errorf("listed as %+v, want %+v", got, before)
	}
	if got := s.trace(t); got.journal != string(spec.Sandbox) {
		t.Errorf("the journal holds %q", got.journal)
	}
}

// TestSweepStrays: what no entry stands for is reclaimed, but for trees.
func TestSweepStrays(t *testing.T) {
	s := start(t)
	bystander := s.create(t)
	machine, slot, dir := core.SandboxID(core.NewID()), core.SandboxID(core.NewID()), core.SandboxID(core.NewID())
	tree, recorded := core.SandboxID(core.NewID()), core.SandboxID(core.NewID())
	cutOff := core.TemplateID(core.NewID())
	spec := runtime.Spec{ID: machine, Incarnation: 1, RootFS: "/tree", RunDir: "/run", NetNS: "/ns"}
	if err := s.runtime.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, err := s.network.Attach(t.Context(), slot, "deny"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.host.dir, "node", "run", string(dir)), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []disk.Ref{
		{Kind: disk.KindSandbox, ID: string(tree)}, {Kind: disk.KindSandbox, ID: string(recorded)}, {Kind: disk.KindTemplate, ID: string(cutOff)},
	} {
		if _, err := s.disk.Create(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	s.sweep(t, known(bystander.Sandbox, recorded))
	got := s.trace(t)
	if got.machines != string(bystander.Sandbox) || got.slots != got.machines || got.runDirs != got.machines {
		t.Errorf("left %+v", got)
	}
	if strings.Contains(got.trees, string(tree)) || s.host.aside(t, disk.KindSandbox, string(tree)) != 1 {
		t.Error("the tree without a record was not set aside")
	}
	if !strings.Contains(got.trees, string(recorded)) {
		t.Error("a tree whose sandbox is recorded was taken away")
	}
	trees, err := s.disk.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var templates []string
	for _, tr := range trees {
		if tr.Ref.Kind == disk.KindTemplate {
			templates = append(templates, tr.Ref.ID)
		}
	}
	if !slices.Equal(templates, []string{string(template)}) {
		t.Errorf("templates left: %v", templates)
	}
	if !s.reachable(t, bystander.Sandbox) {
		t.Error("another sandbox suffered")
	}
}

// TestSweepGoesOn: what is broken in one sandbox, or in one driver's list, does not keep the rest from being reclaimed.
func TestSweepGoesOn(t *testing.T) {
	s := start(t)
	var specs []core.NodeSpec
	for range 4 {
		specs = append(specs, s.create(t))
	}
	broken := specs[1].Sandbox
	s.host.setPhase(t, specs[0].Sandbox, "deleting")
	s.host.setPhase(t, broken, "deleting")
	s.host.setPhase(t, specs[2].Sandbox, "creating")
	s = s.restart()
	slot := core.SandboxID(core.NewID())
	if _, err := s.network.Attach(t.Context(), slot, "deny"); err != nil {
		t.Fatal(err)
	}
	s.host.world.SetFault(runtimefake.MethodKill, func(_ context.Context, id core.SandboxID) error {
		if id == broken {
			return core.Errorf(core.CodeUnavailable, "can't be killed")
		}
		return nil
	})
	s.host.world.SetFault(runtimefake.MethodList, func(context.Context, core.SandboxID) error { return errBroken })
	err := s.Sweep(t.Context(), known())
	if err == nil || !strings.Contains(err.Error(), string(broken)) {
		t.Errorf("sweep: %v, want an error that names %s", err, broken)
	}
	want := trace{
		machines: string(broken), slots: string(broken), trees: string(broken), runDirs: string(broken), journal: string(broken),
		reserved: 1, memory: 64 * mib,
	}
	if got := s.trace(t); got != want {
		t.Errorf("left %+v, want %+v", got, want)
	}
	if n := s.host.aside(t, disk.KindSandbox, string(specs[3].Sandbox)); n != 1 {
		t.Errorf("the unknown one's tree was set aside %d times", n)
	}
	s.host.world.SetFault(runtimefake.MethodKill, nil)
	s.host.world.SetFault(runtimefake.MethodList, nil)
	s.sweep(t, known())
	s.wantNothing(t)
}

// TestSweepKeepsWhatCantBeSetAside: an entry stays as long as its tree is where it was.
func TestSweepKeepsWhatCantBeSetAside(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s = s.restart()
	s.disk.Fail(diskfake.OpQuarantine, errBroken)
	if err := s.Sweep(t.Context(), known()); err == nil {
		t.Error("sweep succeeded")
	}
	if got := s.trace(t); got.trees != string(spec.Sandbox) || got.journal != string(spec.Sandbox) || got.machines != "" {
		t.Errorf("left %+v", got)
	}
	s.disk.Fail(diskfake.OpQuarantine, nil)
	s.sweep(t, known())
	s.wantNothing(t)
	if n := s.host.aside(t, disk.KindSandbox, string(spec.Sandbox)); n != 1 {
		t.Errorf("set aside %d times", n)
	}
}

func TestAgentIsInstalledAnew(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	list := s.host.names(t, "agent")
	if len(list) != 1 {
		t.Fatalf("agents: %v", list)
	}
	path := filepath.Join(s.host.dir, "node", "agent", list[0], "agent")
	old := filepath.Join(s.host.dir, "node", "agent", strings.Repeat("0", 64))
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	// What a power loss may leave: the right name and size, and nothing in it.
	s.stop()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, 5), 0o600); err != nil {
		t.Fatal(err)
	}
	s = s.host.open()
	if got, err := os.ReadFile(path); err != nil || string(got) != "agent" {
		t.Errorf("the agent is %q, %v", got, err)
	}
	if got := s.host.names(t, "agent"); !slices.Equal(got, list) {
		t.Errorf("agents %v, want %v", got, list)
	}
	if got, err := os.ReadFile(filepath.Join(s.host.dir, "node", "run", string(spec.Sandbox), "agent")); err != nil || string(got) != "agent" {
		t.Errorf("the running sandbox's agent is %q, %v", got, err)
	}
}
