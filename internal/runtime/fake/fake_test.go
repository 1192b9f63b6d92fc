package fake_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/runtime"
	"shoal/internal/runtime/fake"
	"shoal/internal/runtime/runtimetest"
)

// lineAgent speaks the suite's lines.
func lineAgent(crash func(id core.SandboxID, reason string) error) fake.AgentFunc {
	return func(_ context.Context, spec runtime.Spec, conn net.Conn) {
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			verb, rest, _ := strings.Cut(lines.Text(), " ")
			switch verb {
			case "echo":
				fmt.Fprintln(conn, rest)
			case "exit":
				if err := crash(spec.ID, "the guest agent ended with status "+rest); err != nil {
					fmt.Fprintln(conn, err)
				}
				return
			default:
				fmt.Fprintln(conn, "error no such verb")
			}
		}
	}
}

// newWorld returns a World with a line agent that is closed at the end.
func newWorld(tb testing.TB) *fake.World {
	tb.Helper()
	var w *fake.World
	w = fake.NewWorld(fake.Config{Agent: lineAgent(func(id core.SandboxID, reason string) error { return w.Crash(id, reason) })})
	tb.Cleanup(w.Close)
	return w
}

// newSpec returns a spec that a fake takes.
func newSpec() runtime.Spec {
	return runtime.Spec{ID: core.SandboxID(core.NewID()), Incarnation: 1, RootFS: "/tree", RunDir: "/run", NetNS: "/ns"}
}

func TestContract(t *testing.T) {
	w := newWorld(t)
	const broken = "/broken"
	runtimetest.Run(t, func(testing.TB) runtime.Driver { return fake.Open(w) }, runtimetest.Options{
		Spec: func(_ testing.TB, id core.SandboxID, incarnation int64) runtime.Spec {
			spec := newSpec()
			spec.ID, spec.Incarnation = id, incarnation
			return spec
		},
		Crash: func(tb testing.TB, _ runtime.Driver, id core.SandboxID) {
			tb.Helper()
			if err := w.Crash(id, "test"); err != nil {
				tb.Fatal(err)
			}
		},
		BreakSpec: func(spec runtime.Spec) runtime.Spec {
			spec.RootFS = broken
			w.SetFault(fake.MethodCreate, func(_ context.Context, id core.SandboxID) error {
				if id == spec.ID {
					return core.Errorf(core.CodeInternal, "broken")
				}
				return nil
			})
			return spec
		},
	})
}

func TestFaults(t *testing.T) {
	w := newWorld(t)
	d := fake.Open(w)
	t.Cleanup(func() { d.Close() })
	want := core.Errorf(core.CodeExhausted, "no room")
	w.SetFault(fake.MethodStart, func(context.Context, core.SandboxID) error { return want })
	spec := newSpec()
	if err := d.Create(t.Context(), spec); err != nil {
		t.Fatalf("Create: %v", err)
	}
	if err := d.Start(t.Context(), spec.ID); !errors.Is(err, want) {
		t.Errorf("Start: %v, want the fault", err)
	}
	w.SetFault(fake.MethodStart, nil)
	if err := d.Start(t.Context(), spec.ID); err != nil {
		t.Errorf("Start without fault: %v", err)
	}
	if got := w.Calls(fake.MethodStart); got != 2 {
		t.Errorf("Calls: %d, want 2", got)
	}
}

func TestKillEndsABlockedCreate(t *testing.T) {
	w := newWorld(t)
	d := fake.Open(w)
	t.Cleanup(func() { d.Close() })
	entered := make(chan struct{})
	w.SetFault(fake.MethodCreate, func(ctx context.Context, _ core.SandboxID) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	})
	spec := newSpec()
	done := make(chan error, 1)
	go func() { done <- d.Create(t.Context(), spec) }()
	<-entered
	if err := d.Kill(t.Context(), spec.ID); err != nil {
		t.Fatalf("Kill: %v", err)
	}
	if err := <-done; !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("Create: %v, want canceled", err)
	}
	if got := w.Specs(); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

func TestDialWithoutAgent(t *testing.T) {
	w := fake.NewWorld(fake.Config{})
	t.Cleanup(w.Close)
	d := fake.Open(w)
	t.Cleanup(func() { d.Close() })
	spec := newSpec()
	if err := errors.Join(d.Create(t.Context(), spec), d.Start(t.Context(), spec.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.DialGuest(t.Context(), spec.ID); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("DialGuest: %v, want unavailable", err)
	}
}
