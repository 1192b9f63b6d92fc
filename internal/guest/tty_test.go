package guest_test

import (
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

// readUntil receives output until it holds text.
func readUntil(t *testing.T, s core.ExecStream, text string) string {
	t.Helper()
	var got strings.Builder
	for !strings.Contains(got.String(), text) {
		m, err := s.Recv()
		if err != nil {
			t.Fatalf("recv: %v after %q", err, got.String())
		}
		if m.Kind == core.ExecEnded {
			t.Fatalf("ended %+v after %q", m.Exec, got.String())
		}
		if m.Kind == core.ExecStderr {
			t.Errorf("a terminal has no stderr: %q", m.Data)
		}
		got.Write(m.Data)
	}
	return got.String()
}

func TestTerminal(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	s, err := a.client.Exec(t.Context(), newID(), core.ExecSpec{
		Cmd: []string{"/bin/sh"}, Env: map[string]string{"PS1": "$ "}, TTY: true, Stdin: true, Rows: 33, Cols: 77,
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(text string) {
		t.Helper()
		if err := s.SendStdin([]byte(text)); err != nil {
			t.Fatalf("send %q: %v", text, err)
		}
	}
	send("stty size; test -t 0 && test -t 1 && test -t 2 && echo all-t''ty; echo to-err >&2; tty\n")
	out := readUntil(t, s, "/dev/pts/")
	for _, want := range []string{"33 77", "all-tty", "to-err"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
	if err := s.Resize(44, 99); err != nil {
		t.Errorf("resize: %v", err)
	}
	send("stty size\n")
	readUntil(t, s, "44 99")
	// Ctrl-C reaches the foreground job and not the shell.
	// The job itself says that it has begun: the shell would say so before its child is the one that Ctrl-C reaches.
	send("sh -c 'echo be\"\"gin; exec sleep 1000'\n")
	readUntil(t, s, "begin")
	send("\x03")
	send("echo go''es-on\n")
	readUntil(t, s, "goes-on")
	if err := s.CloseStdin(); err != nil {
		t.Errorf("close: %v", err)
	}
	for {
		m, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == core.ExecEnded {
			if m.Exec.Outcome != core.OutcomeExited {
				t.Errorf("ended as %+v", m.Exec)
			}
			break
		}
	}
	if err := s.Resize(1, 1); !core.IsCode(err, core.CodeCanceled) && !core.IsCode(err, core.CodeConflict) {
		t.Errorf("resize after the end: %v", err)
	}
}

// TestTerminalErasesCharacters: a backspace takes away a character, however many bytes it has.
func TestTerminalErasesCharacters(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	s, err := a.client.Exec(t.Context(), newID(), core.ExecSpec{Shell: `read -r x; printf '<%s>' "$x"`, TTY: true, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendStdin([]byte("aé\x7f€\x7fb\n")); err != nil {
		t.Fatal(err)
	}
	readUntil(t, s, "<ab>")
}

// TestTerminalLastOutput: what is printed right before the end is not lost.
func TestTerminalLastOutput(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	for range 20 {
		r := a.run(t, core.ExecSpec{Shell: "seq 500; printf last", TTY: true})
		if !strings.HasSuffix(string(r.stdout), "500\r\nlast") {
			t.Fatalf("ends with %q", r.stdout[max(0, len(r.stdout)-30):])
		}
	}
	if err := a.client.Resize(t.Context(), a.run(t, shell("true")).exec.ID, 1, 1); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("resize without a terminal: %v", err)
	}
}
