package dialect_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// prompt is the end of what a shell shows when it waits for a line.
const prompt = "$ "

// typist types a line once it has seen a prompt. It is a command's output.
type typist struct {
	out   io.Writer
	typed string
	input io.Writer
	seen  bytes.Buffer
}

// Write takes what the command shows.
func (w *typist) Write(p []byte) (int, error) {
	if w.typed != "" {
		w.seen.Write(p)
		if strings.Contains(w.seen.String(), prompt) {
			if _, err := io.WriteString(w.input, w.typed); err != nil {
				return 0, err
			}
			w.typed = ""
		}
	}
	return w.out.Write(p)
}

// atTerminal makes a command, which must not have begun and has its output set, run at a terminal of its own, where a line is typed once a
// shell asks for one. Its input stays open until done is called.
func atTerminal(t *testing.T, cmd *exec.Cmd, typed string) (done func()) {
	t.Helper()
	script, err := exec.LookPath("script")
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	words := make([]string, 0, len(cmd.Args))
	for _, a := range append([]string{cmd.Path}, cmd.Args[1:]...) {
		words = append(words, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	cmd.Path, cmd.Args, cmd.Stdin = script, []string{"script", "-qec", strings.Join(words, " "), "/dev/null"}, r
	cmd.Stdout = &typist{out: cmd.Stdout, typed: typed, input: w}
	return func() { _, _ = r.Close(), w.Close() }
}
