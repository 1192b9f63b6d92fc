package e2e_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// open starts the program in a window.
func (e env) open(t *testing.T, args ...string) *harness.Window {
	t.Helper()
	cmd := exec.Command(harness.Binary(t, false), args...)
	cmd.Env = append(harness.CleanEnvironment(), "SHOAL_URL="+e.URL, "SHOAL_API_KEY="+e.Key, "TERM=xterm")
	return harness.OpenWindow(t, cmd)
}

// testShell uses a shell in a sandbox as one would a local one.
func testShell(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	w := e.open(t, "shell", "--tag", "work", "-e", "PS1=> ", sb.ID)
	w.Type("stty size; echo $TERM\r")
	w.Sees("24 80")
	w.Sees("xterm")
	w.Resize(40, 132)
	w.Type("until stty size | grep '40 1''32'; do :; done\r")
	w.Sees("40 132")

	// Job control: Ctrl-C ends the job in front and not the shell, Ctrl-Z stops it, fg brings it back.
	w.Type("sh -c 'echo run''ning 1; exec sleep 1000'\r")
	w.Sees("running 1")
	w.Type("\x03")
	w.Type("echo ended by $?\r")
	w.Sees("ended by 130")
	w.Type("sh -c 'trap \"echo in fr''ont again\" CONT; echo run''ning 2; while :; do sleep 0.1; done'\r")
	w.Sees("running 2")
	w.Type("\x1a")
	w.Sees("Stopped")
	w.Type("fg\r")
	w.Sees("in front again")
	w.Type("\x03")
	w.Type("jobs; echo no job le''ft\r")
	w.Sees("no job left")
	w.Type("sh -c 'trap \"echo got Q''UIT; exit\" QUIT; echo run''ning 3; while :; do sleep 0.1; done'\r")
	w.Sees("running 3")
	w.Type("\x1c")
	w.Sees("got QUIT")

	// Characters of several bytes, typed, erased and shown.
	w.Type("echo now ty''pe; read -r x; echo \"<$x>\"\r")
	w.Sees("now type")
	w.Type("grüß€\x7f\x7fn 東京\r")
	w.Sees("<grün 東京>")

	// Left, and gone on with from two windows; what is typed in one is seen in both.
	w.Type("\r~.")
	w.Ends(0)
	w.Sees("shoal: left; the process goes on")
	one, two := e.open(t, "attach", "--tag", "work", sb.ID), e.open(t, "attach", "--scrollback", "0", sb.ID)
	one.Sees("<grün 東京>") // from before
	two.Type("echo seen by bo''th\r")
	one.Sees("seen by both")
	two.Sees("seen by both")
	one.Type("exec sh -c 'echo e''nd; exit 7'\r")
	one.Ends(7)
	two.Ends(7)
}

// testTerminalThroughRestart: a server that is killed costs a terminal neither output nor the shell.
func testTerminalThroughRestart(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	w := e.open(t, "shell", sb.ID)
	w.Type("i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo line $i; sleep 0.01; done; echo a''ll\r")
	w.Sees("line 20\r\n")
	e.Kill()
	e.Restart(harness.Options{
		Listen: strings.TrimPrefix(e.URL, "http://"), Env: []string{"SHOAL_E2B_LISTEN=127.0.0.1:0", "SHOAL_PANDA_LISTEN=127.0.0.1:0"},
	})
	w.Sees("all")
	text := w.Text()
	for i := range 400 {
		line := fmt.Sprintf("line %d\r\n", i+1)
		if n := strings.Count(text, line); n != 1 {
			t.Fatalf("%q was shown %d times", line, n)
		}
	}
	w.Type("exit 3\r")
	w.Ends(3)
}

// testTerminalOfDeadSandbox: when a sandbox dies, or is deleted, its terminals end, say so and leave the window usable.
func testTerminalOfDeadSandbox(t *testing.T, e env) {
	for what, tc := range map[string]struct {
		end func(t *testing.T, id string)
		say string
	}{
		"killed": {e.killSentry, "the sandbox failed"},
		"deleted": {func(t *testing.T, id string) {
			if err := e.Client.Sandboxes().Delete(ctx(t), id); err != nil {
				t.Fatal(err)
			}
		}, "the sandbox was deleted"},
	} {
		t.Run(what, func(t *testing.T) {
			sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
			w := e.open(t, "shell", sb.ID)
			w.Type("printf '\\033[?1049h\\033[?25l'; echo full s''creen\r")
			w.Sees("full screen")
			tc.end(t, sb.ID)
			w.Ends(125)
			w.Sees("\x1b[?25h\x1b[?1049l")
			w.Sees(tc.say)
		})
	}
}
