package node_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"shoal/internal/core"
	diskfake "shoal/internal/disk/fake"
	networkfake "shoal/internal/network/fake"
	runtimefake "shoal/internal/runtime/fake"
)

var errBroken = core.Errorf(core.CodeInternal, "broken on purpose")

func TestCreateRunsAndDeletes(t *testing.T) {
	s := start(t)
	for range 5 {
		spec := s.create(t)
		want := trace{
			machines: string(spec.Sandbox), slots: string(spec.Sandbox), trees: string(spec.Sandbox), runDirs: string(spec.Sandbox),
			journal: string(spec.Sandbox), reserved: 1, memory: spec.Resources.MemoryBytes,
		}
		if got := s.trace(t); got != want {
			t.Errorf("a running sandbox is %+v, want %+v", got, want)
		}
		g, err := s.Guest(spec.Sandbox)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := g.Exec(t.Context(), core.ExecID(core.NewID()), core.ExecSpec{Cmd: []string{"/bin/echo", "up"}})
		if err != nil {
			t.Fatal(err)
		}
		var out []byte
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, m.Data...)
		}
		if string(out) != "up\n" {
			t.Errorf("output %q", out)
		}
		for range 2 {
			if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
				t.Errorf("delete: %v", err)
			}
		}
		s.wantNothing(t)
	}
	if left := s.exitsLeft(); len(left) != 0 {
		t.Errorf("a delete was reported as an exit: %v", left)
	}
}

func TestCreateAgain(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	if err := s.Create(t.Context(), spec); err != nil {
		t.Errorf("the same create again: %v", err)
	}
	if n := s.host.world.Calls(runtimefake.MethodCreate); n != 1 {
		t.Errorf("%d machines were made", n)
	}
	other := spec
	other.Incarnation++
	if err := s.Create(t.Context(), other); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("another incarnation: %v, want conflict", err)
	}
	if !s.reachable(t, spec.Sandbox) {
		t.Error("a refused create has ended the sandbox")
	}
	if err := os.WriteFile(s.host.journalPath(spec.Sandbox), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), spec); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("a damaged entry: %v, want conflict", err)
	}
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Errorf("delete with a damaged entry: %v", err)
	}
	s.wantNothing(t)
}

func TestCreateWithoutReservation(t *testing.T) {
	s := start(t)
	if err := s.Create(t.Context(), newSpec()); !core.IsCode(err, core.CodeInternal) {
		t.Errorf("create: %v", err)
	}
	s.wantNothing(t)
}

// TestCreateFails: whichever step fails, its error comes back and nothing is left.
func TestCreateFails(t *testing.T) {
	fail := func(m runtimefake.Method) func(*testing.T, *server, *core.NodeSpec) {
		return func(_ *testing.T, s *server, _ *core.NodeSpec) {
			s.host.world.SetFault(m, func(context.Context, core.SandboxID) error { return errBroken })
		}
	}
	for name, tc := range map[string]struct {
		arrange func(*testing.T, *server, *core.NodeSpec)
		want    core.Code
	}{
		"journal": {func(t *testing.T, s *server, spec *core.NodeSpec) {
			t.Helper()
			s.host.blockJournal(t, spec.Sandbox)
		}, core.CodeInternal},
		"no template": {func(_ *testing.T, _ *server, spec *core.NodeSpec) {
			spec.Source.Template = core.TemplateID(core.NewID())
		}, core.CodeNotFound},
		"clone": {func(_ *testing.T, s *server, _ *core.NodeSpec) { s.disk.Fail(diskfake.OpClone, errBroken) }, core.CodeInternal},
		"attach": {func(_ *testing.T, s *server, _ *core.NodeSpec) {
			s.network.Inject(networkfake.Fault{Op: networkfake.OpAttach, Err: core.Errorf(core.CodeExhausted, "no slot")})
		}, core.CodeExhausted},
		"run directory": {func(t *testing.T, s *server, _ *core.NodeSpec) {
			t.Helper()
			if err := os.RemoveAll(filepath.Join(s.host.dir, "node", "agent")); err != nil {
				t.Fatal(err)
			}
		}, core.CodeInternal},
		"isolate": {fail(runtimefake.MethodCreate), core.CodeInternal},
		"start":   {fail(runtimefake.MethodStart), core.CodeInternal},
		"dial":    {fail(runtimefake.MethodDial), core.CodeInternal},
		"configure": {func(_ *testing.T, _ *server, spec *core.NodeSpec) {
			spec.Config.Workdir = "relative"
		}, core.CodeInvalid},
		"journal at the end": {func(t *testing.T, s *server, spec *core.NodeSpec) {
			t.Helper()
			s.host.world.SetFault(runtimefake.MethodStart, func(context.Context, core.SandboxID) error {
				s.host.blockJournal(t, spec.Sandbox)
				return nil
			})
		}, core.CodeInternal},
		"dies before it answers": {func(t *testing.T, s *server, spec *core.NodeSpec) {
			t.Helper()
			s.host.world.SetFault(runtimefake.MethodDial, func(_ context.Context, id core.SandboxID) error {
				_ = s.host.world.Crash(id, "test") // the second time there is nothing to crash
				return core.Errorf(core.CodeUnavailable, "gone")
			})
		}, core.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			bystander := s.create(t)
			spec := s.reserve(t)
			tc.arrange(t, s, &spec)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := s.Create(ctx, spec); core.CodeOf(err) != tc.want {
				t.Errorf("create: %v, want %s", err, tc.want)
			}
			s.host.world.SetFault(runtimefake.MethodDial, nil)
			if !s.reachable(t, bystander.Sandbox) {
				t.Error("another sandbox suffered")
			}
			if err := s.Delete(t.Context(), bystander.Sandbox); err != nil {
				t.Fatal(err)
			}
			s.wantNothing(t)
			if left := s.exitsLeft(); len(left) != 0 {
				t.Errorf("a create that failed was reported as an exit: %v", left)
			}
		})
	}
}

// TestCreateCanceled: a create can be canceled at each of its waits, and nothing is left.
func TestCreateCanceled(t *testing.T) {
	hold := func(m runtimefake.Method) func(*server, func()) {
		return func(s *server, entered func()) {
			s.host.world.SetFault(m, func(ctx context.Context, _ core.SandboxID) error {
				entered()
				<-ctx.Done()
				return ctx.Err()
			})
		}
	}
	for name, arrange := range map[string]func(s *server, entered func()){
		"clone": func(s *server, entered func()) {
			s.disk.SetHook(func(ctx context.Context, c diskfake.Call) error {
				if c.Op != diskfake.OpClone {
					return nil
				}
				entered()
				<-ctx.Done()
				return ctx.Err()
			})
		},
		"attach": func(s *server, entered func()) {
			s.network.Inject(networkfake.Fault{Op: networkfake.OpAttach, Wait: make(chan struct{})})
			go func() {
				for s.network.Calls(networkfake.OpAttach) == 0 {
					runtime.Gosched()
				}
				entered()
			}()
		},
		"isolate": hold(runtimefake.MethodCreate),
		"start":   hold(runtimefake.MethodStart),
		"dial":    hold(runtimefake.MethodDial),
		"nothing listens": func(s *server, entered func()) {
			n := 0
			s.host.world.SetFault(runtimefake.MethodDial, func(context.Context, core.SandboxID) error {
				if n++; n == 3 {
					entered()
				}
				return core.Errorf(core.CodeUnavailable, "nothing listens")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			spec := s.reserve(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			arrange(s, cancel)
			if err := s.Create(ctx, spec); !core.IsCode(err, core.CodeCanceled) {
				t.Errorf("create: %v, want canceled", err)
			}
			s.wantNothing(t)
		})
	}
}

func TestCreateTimesOut(t *testing.T) {
	s := start(t)
	s.host.world.SetFault(runtimefake.MethodStart, func(ctx context.Context, _ core.SandboxID) error {
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Create(ctx, s.reserve(t)); !core.IsCode(err, core.CodeTimeout) {
		t.Errorf("create: %v, want timeout", err)
	}
	s.wantNothing(t)
}

// TestDialTriesAreShort: while a machine comes up nobody answers a connection attempt, and waiting for the answer to the first
// would cost a second.
func TestDialTriesAreShort(t *testing.T) {
	s := start(t)
	tries := 0
	s.host.world.SetFault(runtimefake.MethodDial, func(ctx context.Context, _ core.SandboxID) error {
		if tries++; tries > 3 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	spec := s.reserve(t)
	if err := s.Create(ctx, spec); err != nil {
		t.Fatalf("create: %v", err)
	}
	if !s.reachable(t, spec.Sandbox) {
		t.Error("not reachable")
	}
}

// TestCutOffUndo: what the undo of a create can't remove stays known, and a delete removes it.
func TestCutOffUndo(t *testing.T) {
	for name, fail := range map[string]func(s *server, err error){
		"kill": func(s *server, err error) {
			s.host.world.SetFault(runtimefake.MethodKill, func(context.Context, core.SandboxID) error { return err })
		},
		"detach": func(s *server, err error) {
			if err != nil {
				s.network.Inject(networkfake.Fault{Op: networkfake.OpDetach, Times: 1, Err: err})
			}
		},
		"tree": func(s *server, err error) { s.disk.Fail(diskfake.OpDelete, err) },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			spec := s.reserve(t)
			s.host.world.SetFault(runtimefake.MethodStart, func(context.Context, core.SandboxID) error { return errBroken })
			fail(s, core.Errorf(core.CodeUnavailable, "not now"))
			if err := s.Create(t.Context(), spec); !core.IsCode(err, core.CodeInternal) {
				t.Errorf("create: %v, want its own error", err)
			}
			if got := s.trace(t); got.journal != string(spec.Sandbox) || got.reserved != 1 {
				t.Errorf("half undone and forgotten: %+v", got)
			}
			fail(s, nil)
			if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
				t.Errorf("delete: %v", err)
			}
			s.wantNothing(t)
		})
	}
}
