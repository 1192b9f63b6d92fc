package disktest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/disk"
)

// Child says that this process is one that the suite started in order to kill it: what it makes is the parent's to remove.
func Child() bool { return os.Getenv(crashDirEnv) != "" }

// crashDirEnv makes the suite, in a child process, work on the directory until it is killed.
const crashDirEnv = "SHOAL_DISKTEST_CRASH_DIR"

const killedFiles = 40

// killed kills a process that makes and removes trees, a few times at different moments, and looks at what is left: every
// tree is there whole or not at all, and only a tree under Create may be incomplete.
func (s *suite) killed(t *testing.T, e *env) {
	t.Helper()
	files := map[string]string{}
	for i := range killedFiles {
		files[fmt.Sprintf("d%d/f", i)] = strings.Repeat("x", i)
	}
	ref := e.template("abc", files)
	e.ok(e.d.Close())
	for round := range 5 {
		killAfter(t, e.dir, 3+7*round)
		e.d = e.open(t, e.dir)
		trees, err := e.d.List(t.Context())
		e.ok(err)
		for _, tree := range trees {
			switch {
			case tree.Ref.Kind == disk.KindSandbox:
				if !tree.Complete || tree.Frozen {
					t.Errorf("a clone is listed as %+v", tree)
				}
				e.wantFiles(e.path(tree.Ref), files)
			case tree.Ref == ref:
				e.wantFiles(e.path(ref), files)
			case tree.Complete:
				e.wantFiles(e.path(tree.Ref), map[string]string{"f": "x"})
			}
			if tree.Ref != ref {
				e.ok(e.d.Delete(t.Context(), tree.Ref))
			}
		}
		e.wantList(frozen(ref))
		e.ok(e.d.Close())
	}
	e.d = e.open(t, e.dir)
}

// killAfter runs this test in another process and kills it after it has reported n acts, most likely in the midst of one.
func killAfter(t *testing.T, dir string, n int) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), crashDirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acts, lines := 0, bufio.NewScanner(out)
	var seen []string
	for acts < n && lines.Scan() {
		seen = append(seen, lines.Text())
		if strings.HasPrefix(lines.Text(), "act ") {
			acts++
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if acts < n {
		t.Fatalf("the process ended by itself:\n%s", strings.Join(seen, "\n"))
	}
}

// churnUntilKilled is what the child does.
func churnUntilKilled(t *testing.T, open Open, dir string) {
	t.Helper()
	d := open(t, dir)
	ctx := t.Context()
	for i := 0; ; i++ {
		clone, made := sandbox(fmt.Sprintf("s%d", i)), template(fmt.Sprintf("t%d", i))
		acts := []func() error{
			func() error { _, err := d.Clone(ctx, template("abc"), clone, disk.CloneOptions{}); return err },
			func() error {
				path, err := d.Create(ctx, made)
				if err != nil {
					return err
				}
				return os.WriteFile(filepath.Join(path, "f"), []byte("x"), 0o644)
			},
			func() error { return d.Freeze(ctx, made) },
			func() error { _, err := d.Replace(ctx, template("abc"), clone, disk.CloneOptions{}); return err },
			func() error { return d.Delete(ctx, clone) },
			func() error { return d.Quarantine(ctx, made) },
			func() error { _, err := d.PurgeQuarantine(ctx, 0); return err },
		}
		for _, act := range acts {
			if err := act(); err != nil {
				t.Fatalf("act: %v", err)
			}
			fmt.Printf("act %d\n", i)
		}
	}
}
