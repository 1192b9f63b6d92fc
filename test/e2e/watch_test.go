package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// tree is what there is below a directory: names, and whether they are directories.
func (e env) tree(t *testing.T, sb shoal.Sandbox, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for f, err := range e.Client.Files(sb.ID).Walk(ctx(t), dir, 100) {
		if err != nil {
			t.Fatal(err)
		}
		names[f.PathBytes()] = f.Type == api.FileTypeDirectory
	}
	return names
}

// apply does to a tree what an event says.
func apply(names map[string]bool, e shoal.FileEvent) {
	below := func(p, dir string) (string, bool) {
		rest, ok := strings.CutPrefix(p, dir)
		return rest, ok && (rest == "" || rest[0] == '/')
	}
	forget := func(dir string) {
		for p := range names {
			if _, ok := below(p, dir); ok {
				delete(names, p)
			}
		}
	}
	switch e.Type {
	case api.WatchMessageTypeCreate:
		names[e.PathBytes()] = e.Dir
	case api.WatchMessageTypeRemove:
		forget(e.PathBytes())
	case api.WatchMessageTypeRename:
		moved := map[string]bool{}
		for p, dir := range names {
			if rest, ok := below(p, e.PathBytes()); ok {
				moved[e.ToBytes()+rest] = dir
			}
		}
		forget(e.PathBytes())
		if e.ToBytes() != "" {
			forget(e.ToBytes())
			names[e.ToBytes()] = e.Dir
			for p, dir := range moved {
				names[p] = dir
			}
		}
	default: // Nothing else changes what there is.
	}
}

// stormScript makes, renames and removes files and directories in a tree, by several processes at once.
const stormScript = `
import os, random, shutil, sys, threading
def storm(seed, dir, rounds):
    r = random.Random(seed)
    def pick():
        return dir + ''.join('/d%d' % r.randrange(4) for _ in range(1 + r.randrange(3)))
    for _ in range(rounds):
        k = r.randrange(10)
        try:
            if k < 3: os.makedirs(pick(), exist_ok=True)
            elif k < 5: open('%s/f%d' % (pick(), r.randrange(5)), 'w').write('x')
            elif k < 8: os.rename(pick(), pick())
            elif k < 9: os.rename('%s/f%d' % (pick(), r.randrange(5)), '%s/f%d' % (pick(), r.randrange(5)))
            else: shutil.rmtree(pick(), ignore_errors=True)
        except OSError: pass
many = [threading.Thread(target=storm, args=(int(sys.argv[1])*10+i, '/root/w', 150)) for i in range(3)]
for m in many: m.start()
for m in many: m.join()
open('/root/w/end-' + sys.argv[1], 'w').close()
`

// Named test: a watch across a rename storm. What was told makes the tree that is there, or it was said that something could not be told.
func testRenameStorm(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Out(t, sb.ID, "mkdir /root/w")
	e.write(t, sb, "/root/storm.py", []byte(stormScript), shoal.WriteOptions{})
	w, err := e.Client.Files(sb.ID).Watch(ctx(t), "/root/w", true)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	names, events, overflows := map[string]bool{}, 0, 0
	for round := range 4 {
		e.Out(t, sb.ID, fmt.Sprintf("python3 /root/storm.py %d; touch /root/w/rest-%d", round, round))
		for {
			m, err := w.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if events++; m.Type == api.WatchMessageTypeOverflow {
				overflows++
				names = e.tree(t, sb, "/root/w")
			}
			apply(names, m)
			if _, ok := names[fmt.Sprintf("/root/w/rest-%d", round)]; ok {
				break
			}
		}
		if diff := cmp.Diff(e.tree(t, sb, "/root/w"), names); diff != "" {
			t.Fatalf("round %d, after %d events and %d overflows (-there +told):\n%s", round, events, overflows, diff)
		}
	}
	t.Logf("%d events, %d overflows", events, overflows)
	if events < 500 {
		t.Errorf("only %d events", events)
	}
	e.Out(t, sb.ID, "rm -r /root/w")
	for m := (shoal.FileEvent{}); m.Type != api.WatchMessageTypeGone; {
		if m, err = w.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after gone: %v", err)
	}
}

// testWatchKinds: what gVisor's kernel tells of each kind of change, by processes inside and through the API.
func testWatchKinds(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	files := e.Client.Files(sb.ID)
	e.Out(t, sb.ID, "mkdir -p /root/w/d && printf text >/root/w/old")
	w, err := files.Watch(ctx(t), "/root/w", true)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, tc := range []struct {
		what, script string
		act          func() error
		want         []string
	}{
		{what: "create", script: "touch d/f", want: []string{"create d/f"}},
		{what: "write", script: "printf x >>d/f", want: []string{"write d/f"}},
		{what: "truncate", script: ": >old", want: []string{"write old"}},
		{what: "mode", script: "chmod 600 d/f", want: []string{"chmod d/f"}},
		{what: "owner", script: "chown 7 d/f", want: []string{"chmod d/f"}},
		{what: "times", script: "touch -d @1 d/f", want: []string{"chmod d/f"}},
		{what: "attribute", script: `python3 -c "import os; os.setxattr('d/f', 'user.a', b'x')"`, want: []string{"chmod d/f"}},
		{what: "rename", script: "mv d/f g", want: []string{"rename d/f g"}},
		{what: "rename over", script: "mv g old", want: []string{"rename g old"}},
		{what: "out", script: "mv old /root/out", want: []string{"rename old"}},
		{what: "in", script: "mv /root/out in", want: []string{"create in"}},
		{what: "symlink", script: "ln -s in l", want: []string{"create l"}},
		{what: "hard link", script: "ln in d/h", want: []string{"create d/h"}},
		{what: "unlink", script: "rm d/h l", want: []string{"remove d/h", "remove l"}},
		{what: "tree", script: "mkdir -p n/m && touch n/m/f", want: []string{"create n", "create n/m", "create n/m/f"}},
		{what: "dir rename", script: "mv n d/n && touch d/n/m/g", want: []string{"rename n d/n", "create d/n/m/g"}},
		{what: "rmdir", script: "rm -r d/n", want: []string{"remove d/n/m/f", "remove d/n/m/g", "remove d/n/m", "remove d/n"}},
		{what: "our write", act: func() error {
			_, err := files.Write(ctx(t), "/root/w/our", strings.NewReader("x"), shoal.WriteOptions{})
			return err
		}, want: []string{"create our", "write our"}},
		{what: "our append", act: func() error {
			_, err := files.Write(ctx(t), "/root/w/our", strings.NewReader("x"), shoal.WriteOptions{Append: true})
			return err
		}, want: []string{"write our"}},
	} {
		if tc.act != nil {
			if err := tc.act(); err != nil {
				t.Fatalf("%s: %v", tc.what, err)
			}
		} else {
			e.Out(t, sb.ID, "cd /root/w && "+tc.script)
		}
		e.Out(t, sb.ID, "touch /root/w/mark && rm /root/w/mark")
		got := []string{}
		for {
			m, err := w.Recv()
			if err != nil {
				t.Fatalf("%s: %v", tc.what, err)
			}
			line := strings.ReplaceAll(strings.TrimSpace(string(m.Type)+" "+m.Path+" "+m.To), "/root/w/", "")
			if line == "remove mark" {
				break
			}
			if line != "create mark" && line != "write mark" && line != "chmod mark" {
				got = append(got, line)
			}
		}
		for _, line := range tc.want {
			if !slices.Contains(got, line) {
				t.Errorf("%s: %q is missing among %q", tc.what, line, got)
			}
		}
		for _, line := range got {
			// A write and a change of times belong to more than one act.
			if !slices.Contains(tc.want, line) && !strings.HasPrefix(line, "write ") && !strings.HasPrefix(line, "chmod ") {
				t.Errorf("%s: %q was told, too", tc.what, line)
			}
		}
	}
}

// testFileChanges: what is changed through the API is what programs inside see, and the other way round.
func testFileChanges(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	files := e.Client.Files(sb.ID)
	mode, size, at := uint32(0o4750), int64(3), time.Unix(1_000_000_000, 123_000_000).UTC()
	e.write(t, sb, "/root/f", []byte("12345"), shoal.WriteOptions{})
	_, err := files.Change(ctx(t), "/root/f", shoal.FileChange{
		Mode: &mode, Owner: "daemon", Group: "4321", Size: &size, ModifiedAt: &at, SetXattrs: map[string][]byte{"user.a": {0, 255}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Out(t, sb.ID, "stat -c '%U:%g %a %s %Y' /root/f"); got != "daemon:4321 4750 3 1000000000\n" {
		t.Errorf("inside it is %q", got)
	}
	if got := e.Out(t, sb.ID, `python3 -c "import os; print(os.getxattr('/root/f', 'user.a'))"`); got != "b'\\x00\\xff'\n" {
		t.Errorf("the attribute is %q", got)
	}
	e.Out(t, sb.ID, `python3 -c "import os; os.setxattr('/root/f', 'user.b', b'in')"`)
	attrs, err := files.Xattrs(ctx(t), "/root/f")
	if diff := cmp.Diff(map[string][]byte{"user.a": {0, 255}, "user.b": []byte("in")}, attrs); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := files.Link(ctx(t), "/root/l", "f", shoal.LinkOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := files.Link(ctx(t), "/root/h", "/root/f", shoal.LinkOptions{Hard: true}); err != nil {
		t.Error(err)
	}
	e.write(t, sb, "/root/h", []byte("more"), shoal.WriteOptions{Append: true})
	if got := e.Out(t, sb.ID, "readlink /root/l; cat /root/l; stat -c %h /root/f"); got != "f\n123more2\n" {
		t.Errorf("the links are %q", got)
	}
	e.Out(t, sb.ID, "head -c 5000000 /dev/urandom >/root/big")
	for _, algorithm := range []string{"sha256", "sha512", "sha1", "md5"} {
		sum, err := files.Checksum(ctx(t), "/root/big", algorithm)
		if want := e.Out(t, sb.ID, algorithm+"sum </root/big | cut -d' ' -f1"); err != nil || sum.Digest+"\n" != want || sum.Bytes != 5_000_000 {
			t.Errorf("%s: %+v, %v, want %q", algorithm, sum, err, want)
		}
	}
	e.Out(t, sb.ID, "mkdir -p /root/t/u && touch /root/t/u/f && ln -s /etc/hostname /root/t/l")
	if _, err := files.Change(ctx(t), "/root/t", shoal.FileChange{Owner: "1234", Recursive: true}); err != nil {
		t.Error(err)
	}
	if got := e.Out(t, sb.ID, "stat -c %u /root/t /root/t/u /root/t/u/f /root/t/l /etc/hostname | tr '\\n' ' '"); got != "1234 1234 1234 1234 0 " {
		t.Errorf("owners of the tree: %q", got)
	}
	_, err = files.Change(ctx(t), "/proc/version", shoal.FileChange{SetXattrs: map[string][]byte{"user.a": nil}})
	wantCode(t, err, shoal.CodeUnsupported)
}

// testFilesOfADeadSandbox: its files are there to be read, by the CLI too, without anything being started; nothing that was planted in
// them leads out.
func testFilesOfADeadSandbox(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Persistent: true})
	defer func() { _ = e.Client.Sandboxes().Delete(ctx(t), sb.ID) }()
	bait := filepath.Join(e.Dir, "bait")
	if err := os.WriteFile(bait, []byte("secret of the host"), 0o666); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(bait)
	content := bytes.Repeat([]byte("0123456789abcdef"), 300_000)
	e.write(t, sb, "/root/d/\xff", content, shoal.WriteOptions{Parents: true, Mode: 0o640})
	e.Out(t, sb.ID, "cd /root/d && chown daemon:4321 /root/d/* && echo tmp >/tmp/f && ln -s "+bait+" abs && ln -s ../../../../../../../.."+bait+
		" rel && ln -s /proc/self/environ env && ln -s /etc/shadow sh && python3 -c \"import os; os.setxattr(b'/root/d/\\xff', 'user.a', b'x')\"")
	files := e.Client.Files(sb.ID)
	// The time of a write is the sandbox's kernel's own until it writes it to the tree; one that is set is there at once.
	at := time.Unix(1_000_000_000, 123_000_000).UTC()
	if _, err := files.Change(ctx(t), "/root/d/\xff", shoal.FileChange{ModifiedAt: &at}); err != nil {
		t.Fatal(err)
	}
	sum, err := files.Checksum(ctx(t), "/root/d/\xff", "")
	if err != nil {
		t.Fatal(err)
	}
	before, err := files.Stat(ctx(t), "/root/d/\xff")
	if err != nil {
		t.Fatal(err)
	}
	tree := e.tree(t, sb, "/root")
	e.killSentry(t, sb.ID)
	e.wantFailed(t, sb.ID, "")

	if got := e.read(t, sb, "/root/d/\xff"); !bytes.Equal(got, content) {
		t.Errorf("%d bytes, want %d", len(got), len(content))
	}
	r, err := files.ReadRange(ctx(t), "/root/d/\xff", 16, 4)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "0123" {
		t.Errorf("a range is %q, %v", got, err)
	}
	_ = r.Close()
	after, err := files.Stat(ctx(t), "/root/d/\xff")
	if diff := cmp.Diff(before, after); err != nil || diff != "" || after.Owner != "daemon" {
		t.Errorf("%v\n%s", err, diff)
	}
	if got, err := files.Checksum(ctx(t), "/root/d/\xff", ""); err != nil || got.Digest != sum.Digest {
		t.Errorf("checksum %s, %v", got.Digest, err)
	}
	if attrs, err := files.Xattrs(ctx(t), "/root/d/\xff"); err != nil || string(attrs["user.a"]) != "x" {
		t.Errorf("attributes %q, %v", attrs, err)
	}
	if diff := cmp.Diff(tree, e.tree(t, sb, "/root")); diff != "" {
		t.Errorf("the tree:\n%s", diff)
	}
	if got := e.read(t, sb, "/tmp/f"); string(got) != "tmp\n" {
		t.Errorf("/tmp/f is %q", got)
	}
	for _, path := range []string{"/root/d/abs", "/root/d/rel", "/root/d/env", "/../../.." + bait, "/proc/self/environ"} {
		r, err := files.Read(ctx(t), path)
		if err == nil {
			data, _ := io.ReadAll(r)
			_ = r.Close()
			t.Errorf("%s can be read: %.40q", path, data)
		}
	}
	own, _ := os.ReadFile("/etc/shadow")
	if got := e.read(t, sb, "/root/d/sh"); len(own) > 0 && bytes.Equal(got, own) {
		t.Error("the host's /etc/shadow was read")
	}
	stdout, stderr, code := e.CLI("", "cp", sb.ID+":/tmp/f", "-")
	if code != 0 || stdout != "tmp\n" {
		t.Errorf("cp: %d, %q, %q", code, stdout, stderr)
	}
	_, err = files.Write(ctx(t), "/root/new", strings.NewReader("x"), shoal.WriteOptions{})
	wantCode(t, err, shoal.CodeConflict)
	if err == nil || !strings.Contains(err.Error(), "read and not changed") {
		t.Errorf("a write is refused with %v", err)
	}
	wantCode(t, files.Remove(ctx(t), "/root/d", true), shoal.CodeConflict)
	_, err = files.Watch(ctx(t), "/root", true)
	wantCode(t, err, shoal.CodeConflict)
}
