package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// make makes a template and waits for it.
func (e env) make(t *testing.T, req shoal.CreateTemplateRequest) shoal.Template {
	t.Helper()
	op, err := e.Client.Templates().Create(ctx(t), req)
	if err == nil {
		op, err = e.Client.Operations().Wait(ctx(t), op.ID)
	}
	if err == nil {
		err = shoal.OperationFailure(op)
	}
	if err != nil {
		t.Fatalf("make %s: %v", req.Name, err)
	}
	tmpl, err := e.Client.Templates().Get(ctx(t), op.Result["template"])
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// upload sends the tiny image.
func (e env) upload(t *testing.T) string {
	t.Helper()
	up, err := e.Client.Templates().Upload(ctx(t), bytes.NewReader(harness.TinyImage(t)))
	if err != nil {
		t.Fatal(err)
	}
	return up.ID
}

// noTree waits until the tree of a template is gone from the disk.
func (e env) noTree(t *testing.T, id string) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "the tree is gone", func() error {
		if left, _ := filepath.Glob(filepath.Join(e.Dir, "pool/mnt/template/*", id)); len(left) > 0 {
			return fmt.Errorf("there is %v", left)
		}
		return nil
	})
}

// testImport imports an image of a single program, without a shell and without users.
func testImport(t *testing.T, e env) {
	tmpl := e.make(t, shoal.CreateTemplateRequest{Name: "tiny", FromUpload: e.upload(t), Tags: []string{"stable"}})
	if tmpl.Version != 1 || tmpl.State != shoal.TemplateReady || !strings.HasPrefix(tmpl.Digest, "sha256:") || tmpl.Entrypoint[0] != "/hello" ||
		tmpl.Env["MADE"] != "here" || tmpl.Owner != "tenant" {
		t.Fatalf("imported: %+v", tmpl)
	}
	again := e.make(t, shoal.CreateTemplateRequest{Name: "tiny", FromUpload: e.upload(t)})
	if again.Version != 2 || again.Digest != tmpl.Digest {
		t.Errorf("the same image again: %+v", again)
	}
	if left, _ := filepath.Glob(filepath.Join(e.Dir, "uploads/*/*")); len(left) > 0 {
		t.Errorf("uploads are left: %v", left)
	}
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Template: "tiny:stable"})
	r := e.Run(t, sb.ID, shoal.ExecRequest{Entrypoint: true})
	if *r.Stdout != "hello from nothing\n" || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("its entrypoint: %s", harness.Describe(r))
	}
	if err := e.Client.Templates().Delete(ctx(t), "tiny"); shoal.ErrorCode(err) != shoal.CodeConflict || !strings.Contains(err.Error(), "1 sandbox") {
		t.Errorf("delete of one that is used: %v", err)
	}
	out, stderr, code := e.CLI("", "run", "--template", "tiny")
	if code != 0 || out != "hello from nothing\n" {
		t.Errorf("run without a command: %q, %q, %d", out, stderr, code)
	}
	if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Templates().Delete(ctx(t), "tiny"); err != nil {
		t.Fatal(err)
	}
	e.noTree(t, tmpl.ID)
	e.noTree(t, again.ID)
}

// testTemplateOfSandbox makes a template of what was prepared in a sandbox, while a program in it writes.
func testTemplateOfSandbox(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "prepared"})
	e.Out(t, sb.ID, `mkdir -p /etc/ssh /made && echo key >/etc/ssh/ssh_host_x_key && echo mine >/tmp/scratch &&
		printf 'not flushed' >/made/result && ln -s /tmp /made/link && chown 1234:5678 /made/result && chmod 4711 /made/result`)
	if _, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Shell: counter}); err != nil {
		t.Fatal(err)
	}
	before := e.moved(t, sb, 3)
	user, dir := "nobody", "/made"
	tmpl := e.make(t, shoal.CreateTemplateRequest{Name: "warm", FromSandbox: "prepared", User: &user, Workdir: &dir})
	if tmpl.PackageCount == 0 || tmpl.User != "nobody" || !strings.Contains(tmpl.Source, sb.ID) {
		t.Errorf("made: %+v", tmpl)
	}
	e.moved(t, sb, before)
	child := e.Sandbox(t, shoal.CreateSandboxRequest{Template: "warm", Name: "child"})
	r := e.Run(t, child.ID, shoal.ExecRequest{Shell: `pwd; id -un; cat /etc/hostname; ls /tmp | wc -l; test -e /etc/ssh/ssh_host_x_key && echo leaked`})
	if *r.Stdout != "/made\nnobody\nchild\n0\n" {
		t.Errorf("in a sandbox of it: %s", harness.Describe(r))
	}
	r = e.Run(t, child.ID, shoal.ExecRequest{User: "root", Shell: `stat -c '%u %g %a' result; cat result; readlink link; cat /root/count`})
	want := "1234 5678 4711\nnot flushed/tmp\n"
	if !strings.HasPrefix(*r.Stdout, want) {
		t.Errorf("its files: %s", harness.Describe(r))
	}
	var n int
	if _, err := fmt.Sscan(strings.TrimPrefix(*r.Stdout, want), &n); err != nil || n < before {
		t.Errorf("the count is %d (%v), and it was %d before", n, err, before)
	}
	mine, theirs := e.Out(t, sb.ID, "cat /etc/machine-id"), e.Out(t, child.ID, "cat /etc/machine-id")
	if mine == theirs || len(strings.TrimSpace(theirs)) != 32 {
		t.Errorf("machine ids %q and %q", mine, theirs)
	}
	for _, id := range []string{child.ID, sb.ID} {
		if err := e.Client.Sandboxes().Delete(ctx(t), id); err != nil {
			t.Fatal(err)
		}
	}
	// It needs nothing of the sandbox that it was made of.
	if out := e.Out(t, e.Sandbox(t, shoal.CreateSandboxRequest{Name: "grandchild", Template: "warm"}).ID, "cat result 2>/dev/null; pwd"); !strings.HasSuffix(out, "/made\n") {
		t.Errorf("%q", out)
	}
	if err := e.Client.Sandboxes().Delete(ctx(t), "grandchild"); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Templates().Delete(ctx(t), "warm@1"); err != nil {
		t.Fatal(err)
	}
	e.noTree(t, tmpl.ID)
}

// testCLIImport imports from a file with the command line.
func testCLIImport(t *testing.T, e env) {
	file := filepath.Join(t.TempDir(), "tiny.tar")
	if err := os.WriteFile(file, harness.TinyImage(t), 0o600); err != nil {
		t.Fatal(err)
	}
	out, stderr, code := e.CLI("", "template", "import", "typed", file)
	if code != 0 || out != "typed@1\n" {
		t.Fatalf("import: %q, %q, %d", out, stderr, code)
	}
	if out, stderr, code = e.CLI("", "template", "import", "typed", "/etc/hostname"); code == 0 {
		t.Errorf("what is no image was imported: %q, %q", out, stderr)
	}
	if out, stderr, code = e.CLI("", "template", "rm", "typed"); code != 0 {
		t.Errorf("rm: %q, %q, %d", out, stderr, code)
	}
}
