package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// planted is a token that no log, event or answer may show. It is put together here so that this file holds none.
var planted = "ghp_" + "q7Zk2VxN9bRt4WmPc8LdYs6HjFg3TnAe5UyKw"

// diff returns all pages in one.
func (e env) diff(t *testing.T, ref string, o shoal.DiffOptions) (all shoal.SandboxDiff) {
	t.Helper()
	for page, err := range e.Client.Sandboxes().DiffPages(ctx(t), ref, o) {
		if err != nil {
			t.Fatalf("diff: %v", err)
		}
		if all.SandboxID == "" {
			all = page
		} else {
			all.Files = append(all.Files, page.Files...)
		}
	}
	if views, _ := filepath.Glob(filepath.Join(e.Dir, "pool/mnt/view/*/*")); len(views) > 0 {
		t.Errorf("views are left: %v", views)
	}
	return all
}

// changes says each file in a few words.
func changes(d shoal.SandboxDiff) (out []string) {
	for _, f := range d.Files {
		line := string(f.Change[:1]) + " " + f.PathBytes()
		for _, a := range f.Aspects {
			line += " " + string(a)
		}
		if f.Below.Files > 0 {
			line += fmt.Sprintf(" +%d", f.Below.Files)
		}
		out = append(out, line)
	}
	return out
}

// makeWheel writes a wheel as tools build one, and puts its files where an installer puts them.
const makeWheel = `
import sysconfig, zipfile
with zipfile.ZipFile("/root/demo-1.0-py3-none-any.whl", "w") as w:
    w.writestr("demo/__init__.py", "x = 1\n")
    w.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: Demo_Pkg\nVersion: 1.0\n\n")
    w.writestr("demo-1.0.dist-info/RECORD", "")
try:
    import pip
except ImportError:
    zipfile.ZipFile("/root/demo-1.0-py3-none-any.whl").extractall(sysconfig.get_path("purelib"))
else:
    import subprocess, sys
    subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--break-system-packages", "/root/demo-1.0-py3-none-any.whl"], check=True)
`

// testDiff: a new sandbox is as its template, and all that is done in it is told.
func testDiff(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "drifter", Persistent: true})
	if d := e.diff(t, sb.ID, shoal.DiffOptions{}); len(d.Files)+len(d.Packages)+len(d.Credentials)+len(d.Processes)+len(d.Listeners)+len(d.Notes) > 0 || d.NotRunning != "" {
		t.Errorf("a new sandbox differs from its template: %v, %+v", changes(d), d)
	}
	fresh := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Out(t, sb.ID, `set -e
mkdir -p /srv/app/lib && echo one > /srv/app/lib/a && echo two > /srv/app/b
echo hello >> /etc/motd && chmod 0600 /etc/debian_version && chown 7:8 /etc/issue && rm /etc/issue.net
ln -s app /srv/link && rm -rf /usr/share/base-files && ln -s /tmp /usr/share/base-files
printf 'PORT=1\nAPI_TOKEN=u7Hk2VxN9bRt\n' > /srv/app/.env
echo 'machine m login l password p' > /root/.netrc
echo 'token `+planted+`' > /root/notes
python3 -c 'import os; os.setxattr("/etc/hostname", "user.x", b"1"); os.setxattr("/etc/passwd", "user.x", b"1")'`)
	e.Out(t, sb.ID, "python3 - <<'E'\n"+makeWheel+"E\nrm -rf /root/.cache")
	saved, err := e.Client.Checkpoints().Create(ctx(t), sb.ID, shoal.CreateCheckpointRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Cmd: []string{"python3", "-m", "http.server", "8123", "--bind", "127.0.0.1"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Cmd: []string{"sh", "-c", "sleep 1000", planted}}); err != nil {
		t.Fatal(err)
	}
	var d shoal.SandboxDiff
	harness.Eventually(t, 30*time.Second, "the listener is told", func() error {
		if d = e.diff(t, sb.ID, shoal.DiffOptions{Content: true}); len(d.Listeners) == 0 {
			return fmt.Errorf("processes: %+v, %s", d.Processes, d.NotRunning)
		}
		return nil
	})
	got := changes(d)
	for _, want := range []string{
		"c /etc/debian_version mode", "c /etc/issue owner", "r /etc/issue.net", "c /etc/motd content", "c /etc/passwd xattrs", "a /root/.netrc", "a /root/notes",
		"a /srv/app +4", "a /srv/link",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("missing: %s in %q", want, got)
		}
	}
	if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "c /usr/share/base-files type") }) {
		t.Errorf("a directory that is a link now is not told: %q", got)
	}
	if len(d.Packages) != 1 || d.Packages[0].Manager != "pip" || d.Packages[0].Name != "demo-pkg" || d.Packages[0].After != "1.0" {
		t.Errorf("packages: %+v", d.Packages)
	}
	kinds := map[string]int{}
	for _, c := range d.Credentials {
		kinds[fmt.Sprintf("%s %s:%d", c.Kind, c.PathBytes(), c.Line)]++
		if c.PID != 0 {
			kinds[c.Kind+" of a process"]++
		}
	}
	for _, want := range []string{"netrc /root/.netrc:1", "github_token /root/notes:1", "secret_assignment /srv/app/.env:2", "github_token of a process"} {
		if kinds[want] == 0 {
			t.Errorf("missing: %s in %v", want, kinds)
		}
	}
	for _, f := range d.Files {
		switch f.PathBytes() {
		case "/etc/motd":
			if !strings.Contains(f.Hunks, "\n+hello\n") {
				t.Errorf("the hunks of motd: %q", f.Hunks)
			}
		case "/root/notes", "/root/.netrc":
			if f.Hunks != "" || f.NoHunks != "credential" {
				t.Errorf("%s: %q %s", f.PathBytes(), f.Hunks, f.NoHunks)
			}
		}
	}
	if l := d.Listeners[0]; len(d.Listeners) != 1 || l.Proto != "tcp" || l.Address != "127.0.0.1" || l.Port != 8123 || l.PID == 0 {
		t.Errorf("listeners: %+v", d.Listeners)
	}
	server := slices.IndexFunc(d.Processes, func(p shoal.SandboxProcess) bool { return p.PID == d.Listeners[0].PID })
	if server < 0 || d.Processes[server].Command != "python3 -m http.server 8123 --bind 127.0.0.1" || d.Processes[server].User != "root" ||
		time.Since(d.Processes[server].StartedAt).Abs() > 5*time.Minute {
		t.Errorf("processes: %+v", d.Processes)
	}
	if all := fmt.Sprintf("%+v", d); strings.Contains(all, planted) || strings.Contains(all, "u7Hk2VxN9bRt") {
		t.Error("a credential's value is told")
	}
	if got := changes(e.diff(t, sb.ID, shoal.DiffOptions{Path: "/srv/app", Expand: true})); !slices.Equal(got, []string{"a /srv/app", "a /srv/app/.env", "a /srv/app/b", "a /srv/app/lib", "a /srv/app/lib/a"}) {
		t.Errorf("expanded: %q", got)
	}
	testDiffOthers(t, e, sb, fresh, saved)
	if log := e.Log(1 << 20); strings.Contains(log, planted) || strings.Contains(log, "u7Hk2VxN9bRt") {
		t.Error("a credential's value is in the log")
	}
}

// testDiffOthers holds a sandbox against a checkpoint and another sandbox, also once it is stopped.
func testDiffOthers(t *testing.T, e env, sb, fresh shoal.Sandbox, saved shoal.Checkpoint) {
	if d := e.diff(t, sb.ID, shoal.DiffOptions{Against: saved.ID}); len(d.Files) > 0 || d.Against.Kind != "checkpoint" {
		t.Errorf("against its checkpoint: %q", changes(d))
	}
	e.Out(t, sb.ID, "echo three > /srv/app/b")
	e.stop(t, sb)
	d := e.diff(t, sb.ID, shoal.DiffOptions{Against: saved.ID})
	if got := changes(d); !slices.Equal(got, []string{"c /srv/app/b content"}) || d.NotRunning != "the sandbox is stopped" || d.Processes != nil {
		t.Errorf("stopped, against its checkpoint: %q, %q", got, d.NotRunning)
	}
	back := e.diff(t, fresh.ID, shoal.DiffOptions{Against: "drifter", Path: "/srv"})
	if got := changes(back); !slices.Equal(got, []string{"r /srv/app +4", "r /srv/link"}) {
		t.Errorf("a new one, against it: %q", got)
	}
	out, stderr, code := e.CLI("", "diff", "drifter", "/srv", "--exit-code")
	if code != 1 || !strings.Contains(out, "A  /srv/app/  4 files, ") || strings.Contains(out, "\x1b") || strings.Contains(out, planted) {
		t.Errorf("typed: %d %q %q", code, out, stderr)
	}
	if err := e.Client.Checkpoints().Delete(ctx(t), saved.ID); err != nil {
		t.Error(err)
	}
}

// testDiffHostile: whatever code makes of its tree, the server tells of it in bounded time, reads nothing outside, and other calls go on.
func testDiffHostile(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	bait := filepath.Join(e.Dir, "bait-of-diff")
	if err := os.WriteFile(bait, []byte(planted), 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(bait)
	levels := strings.TrimSpace(e.Out(t, sb.ID, `set -e; mkdir /root/h; cd /root/h
ln -s `+bait+` abs; ln -s ../../../../../../../../..`+bait+` rel; ln -s / top; ln -s loop loop
mkfifo fifo; truncate -s 1T sparse; printf x | dd of=sparse bs=1 seek=1000000000000 conv=notrunc 2>/dev/null
python3 - <<'E'
import os, socket
open(b"name-\xff\xfe", "w").write("x")
open(b"esc-\x1b[31m", "w").write("x")
s = socket.socket(socket.AF_UNIX); s.bind("socket")
os.mkdir("deep"); os.chdir("deep")
n = 0
try:
    while n < 20000:
        os.mkdir("d"); os.chdir("d"); n += 1
except OSError: # gVisor keeps each level open, up to a bound of its own
    pass
print(n)
E`))
	t.Logf("directories nest %s deep", levels)
	deep, err := strconv.Atoi(levels)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{
		Shell: "while :; do for i in 1 2 3 4 5; do echo $i > /root/h/f$i; mv /root/h/f$i /root/h/g$i; done; rm -f /root/h/g*; done",
	}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []shoal.DiffOptions{{Content: true}, {Path: "/root", Expand: true, Content: true}} {
		began := time.Now()
		d, err := e.Client.Sandboxes().Diff(ctx(t), sb.ID, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("compared in %s", time.Since(began))
		if len(d.Credentials) > 0 || strings.Contains(fmt.Sprintf("%+v", d), planted) {
			t.Errorf("it read outside: %+v", d.Credentials)
		}
		if noted := len(d.Notes) > 0 && strings.HasPrefix(d.Notes[0].PathBytes(), "/root/h/deep/d/"); noted != (deep > 1100) {
			t.Errorf("%d levels, and %d notes", deep, len(d.Notes))
		}
		if d.Summary.Added.Files < int64(min(deep, 1000)) || d.Summary.Added.Bytes < 1<<40 {
			t.Errorf("counted: %+v", d.Summary.Added)
		}
	}
	e.Out(t, sb.ID, "rm -rf /root/h/f* /root/h/g*; echo")
	if got := e.Out(t, sb.ID, "echo alive"); got != "alive\n" {
		t.Errorf("the sandbox says %q", got)
	}
}
