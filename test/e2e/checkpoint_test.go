package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// save makes a checkpoint.
func (e env) save(t *testing.T, sandbox string, req shoal.CreateCheckpointRequest) shoal.Checkpoint {
	t.Helper()
	c, err := e.Client.Checkpoints().Create(ctx(t), sandbox, req)
	if err != nil {
		t.Fatalf("checkpoint: %v", err)
	}
	return c
}

// treeOf is where the files of a checkpoint lie on the host.
func (e env) treeOf(t *testing.T, id string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(e.Dir, "pool/mnt/checkpoint/*", id))
	if err != nil || len(found) != 1 {
		t.Fatalf("the tree of checkpoint %s: %v, %v", id, found, err)
	}
	return found[0]
}

// noCheckpoint waits until the tree of a checkpoint is gone from the disk.
func (e env) noCheckpoint(t *testing.T, id string) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "the tree is gone", func() error {
		if left, _ := filepath.Glob(filepath.Join(e.Dir, "pool/mnt/checkpoint/*", id)); len(left) > 0 {
			return fmt.Errorf("there is %v", left)
		}
		return nil
	})
}

func readTree(t *testing.T, tree, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tree, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pair is a program that counts: first in one file, then in another, by all the ways there are to write. At no moment is the second ahead
// of the first, and the first never more than one ahead. Nothing is ever flushed.
const pair = `python3 -c '
import mmap, os
os.makedirs("/pair", exist_ok=True)
fds = [os.open("/pair/" + n, os.O_RDWR | os.O_CREAT) for n in "ab"]
maps = []
for n in "cd":
    f = open("/pair/" + n, "w+b"); f.write(b"0" * 4096); f.flush(); maps.append(mmap.mmap(f.fileno(), 4096))
fds.append(os.open("/pair/e", os.O_WRONLY | os.O_CREAT)) # nobody inside ever reads it
n = 0
while True:
    n += 1
    for fd in fds[:2]: os.pwrite(fd, b"%020d" % n, 0)
    for m in maps: m[0:20] = b"%020d" % n
    os.pwrite(fds[2], b"%020d" % n, 0)
    # Many small files come and go beside it.
    d = "/pair/s%d" % (n % 64)
    open(d, "w").write(str(n))
'`

// testCheckpointWrites: what was written right before a checkpoint, and flushed by nobody, is in it, and what is in it is of one moment.
func testCheckpointWrites(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Out(t, sb.ID, "mkdir /pair && touch /pair/a")
	if _, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Shell: pair}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 20*time.Second, "it counts", func() error {
		if out := e.Out(t, sb.ID, "cat /pair/d 2>/dev/null | head -c 20"); len(out) < 20 || out == strings.Repeat("0", 20) {
			return fmt.Errorf("it is at %q", out)
		}
		return nil
	})
	var last [5]int
	for i := range 20 {
		word := fmt.Sprintf("round %d", i)
		e.Out(t, sb.ID, "printf '"+word+"' >/root/sentinel")
		c := e.save(t, sb.ID, shoal.CreateCheckpointRequest{})
		tree := e.treeOf(t, c.ID)
		if got := readTree(t, tree, "root/sentinel"); got != word {
			t.Errorf("it has %q, and %q was written before", got, word)
		}
		var n [5]int
		for j, name := range []string{"a", "b", "c", "d", "e"} {
			var err error
			if n[j], err = strconv.Atoi(readTree(t, tree, "pair/"+name)[:20]); err != nil || n[j] <= last[j] {
				t.Errorf("round %d: %s is %d, after %d: %v", i, name, n[j], last[j], err)
			}
		}
		if n[0]-n[4] > 1 || n[0] < n[1] || n[1] < n[2] || n[2] < n[3] || n[3] < n[4] {
			t.Errorf("round %d: the files are of several moments: %v", i, n)
		}
		last = n
	}
	// The program goes on as if nothing had been.
	before := e.Out(t, sb.ID, "head -c 20 /pair/a")
	harness.Eventually(t, 20*time.Second, "it goes on counting", func() error {
		if now := e.Out(t, sb.ID, "head -c 20 /pair/a"); now <= before {
			return fmt.Errorf("it is at %s", now)
		}
		return nil
	})
	if err := e.Client.Sandboxes().DeleteWithCheckpoints(ctx(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	e.noCheckpoint(t, "*")
}

// ledger moves money between accounts of a SQLite database, and says how many transfers are acknowledged.
const ledger = `python3 -c '
import sqlite3, random, sys, os
mode = sys.argv[1]
os.makedirs("/ledger", exist_ok=True)
db = sqlite3.connect("/ledger/db", isolation_level=None)
db.execute("pragma journal_mode=" + mode); db.execute("pragma synchronous=normal")
db.execute("create table account (id integer primary key, money integer)"); db.execute("create table done (n integer)")
db.executemany("insert into account values (?, 1000)", [(i,) for i in range(200)]); db.execute("insert into done values (0)")
said = os.open("/ledger/said", os.O_WRONLY | os.O_CREAT)
n = 0
while True:
    n += 1
    db.execute("begin immediate")
    for _ in range(5):
        a, b, m = random.randrange(200), random.randrange(200), random.randrange(50)
        db.execute("update account set money = money - ? where id = ?", (m, a)); db.execute("update account set money = money + ? where id = ?", (m, b))
    db.execute("update done set n = ?", (n,))
    db.execute("commit")
    os.pwrite(said, b"%020d" % n, 0)
' MODE`

// audit opens each copy of the database as after a crash, and prints what is wrong.
const auditor = `python3 -c '
import sqlite3, os
for name in sorted(os.listdir("/copies"), key=int):
    d = "/copies/" + name
    db = sqlite3.connect(d + "/db")
    check = db.execute("pragma integrity_check").fetchone()[0]
    money = db.execute("select sum(money) from account").fetchone()[0]
    n = db.execute("select n from done").fetchone()[0]
    said = int(open(d + "/said").read() or 0)
    if check != "ok" or money != 200000 or n < said or n > said + 1: print(name, check, money, n, said)
print("looked at", len(os.listdir("/copies")))
'`

// testCheckpointSQLite: a database under load is consistent in each of 50 checkpoints, and has all that it had acknowledged.
func testCheckpointSQLite(t *testing.T, e env) {
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
			if _, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Shell: strings.Replace(ledger, "MODE", mode, 1)}); err != nil {
				t.Fatal(err)
			}
			harness.Eventually(t, 20*time.Second, "it works", func() error {
				if out := e.Out(t, sb.ID, "cat /ledger/said 2>/dev/null; true"); len(out) < 20 {
					return fmt.Errorf("it has said %q", out)
				}
				return nil
			})
			e.Out(t, sb.ID, "mkdir /copies")
			said := map[string]bool{}
			for i := range 50 {
				c := e.save(t, sb.ID, shoal.CreateCheckpointRequest{})
				tree := e.treeOf(t, c.ID)
				said[readTree(t, tree, "ledger/said")] = true
				dir := fmt.Sprintf("/copies/%d", i)
				for _, name := range []string{"db", "db-wal", "db-shm", "db-journal", "said"} {
					data, err := os.ReadFile(filepath.Join(tree, "ledger", name))
					if os.IsNotExist(err) {
						continue
					}
					if err == nil {
						_, err = e.Client.Files(sb.ID).Write(ctx(t), dir+"/"+name, bytes.NewReader(data), shoal.WriteOptions{Parents: true})
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if err := e.Client.Checkpoints().Delete(ctx(t), c.ID); err != nil {
					t.Fatal(err)
				}
			}
			if len(said) < 25 {
				t.Errorf("it worked at %d moments only", len(said))
			}
			if out := e.Out(t, sb.ID, auditor); out != "looked at 50\n" {
				t.Errorf("not consistent:\n%s", out)
			}
			if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
				t.Fatal(err)
			}
		})
	}
	e.noCheckpoint(t, "*")
}

// testCheckpointChain: dropping links of a chain, its sandbox and its template never takes a byte away from the others.
func testCheckpointChain(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "chained"})
	var list []shoal.Checkpoint
	const links = 6
	for i := range links {
		e.Out(t, sb.ID, fmt.Sprintf("mkdir -p /chain && head -c 300000 /dev/urandom >/chain/%d && printf %d >/chain/last && rm -f /chain/%d", i, i, i-3))
		list = append(list, e.save(t, sb.ID, shoal.CreateCheckpointRequest{Comment: strconv.Itoa(i)}))
	}
	sums := func(c shoal.Checkpoint) string {
		t.Helper()
		var out strings.Builder
		files, err := filepath.Glob(filepath.Join(e.treeOf(t, c.ID), "chain/*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("checkpoint %s has %v, %v", c.Comment, files, err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s %x\n", filepath.Base(f), sha256.Sum256(data))
		}
		return out.String()
	}
	want := map[string]string{}
	for i, c := range list {
		want[c.ID] = sums(c)
		if i > 0 && c.Parent != list[i-1].ID {
			t.Errorf("the parent of %d is %s", i, c.Parent)
		}
	}
	tree, _, _ := e.CLI("", "checkpoint", "ls", "chained")
	if n := strings.Count(tree, "\n└ "); n != links-1 {
		t.Errorf("drawn as\n%s", tree)
	}
	gone := map[string]bool{}
	for _, i := range []int{2, 3, 0} {
		if err := e.Client.Checkpoints().Delete(ctx(t), list[i].ID); err != nil {
			t.Fatal(err)
		}
		e.noCheckpoint(t, list[i].ID)
		gone[list[i].ID] = true
	}
	if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	e.Stop() // and what has gone is reclaimed
	e.Restart(harness.Options{})
	for _, c := range list {
		if !gone[c.ID] && sums(c) != want[c.ID] {
			t.Errorf("checkpoint %s has changed", c.Comment)
		}
	}
	if got, err := e.Client.Checkpoints().Get(ctx(t), list[4].ID); err != nil || got.Parent != list[1].ID || got.SandboxID != sb.ID {
		t.Errorf("the one behind the gap: %+v, %v", got, err)
	}
	// A template of one has its files, and goes on without it.
	e.make(t, shoal.CreateTemplateRequest{Name: "ofcheckpoint", FromCheckpoint: list[1].ID})
	for c := range want {
		if !gone[c] {
			if err := e.Client.Checkpoints().Delete(ctx(t), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	child := e.Sandbox(t, shoal.CreateSandboxRequest{Template: "ofcheckpoint"})
	if out := e.Out(t, child.ID, "cat /chain/last"); out != "1" {
		t.Errorf("in a sandbox of it: %q", out)
	}
	if err := e.Client.Sandboxes().Delete(ctx(t), child.ID); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Templates().Delete(ctx(t), "ofcheckpoint"); err != nil {
		t.Fatal(err)
	}
	e.noCheckpoint(t, "*")
}

// testCheckpointStates: in every state with files one can be made, and of a deleted sandbox none.
func testCheckpointStates(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Out(t, sb.ID, "printf here >/root/f")
	if _, err := e.Client.Sandboxes().Stop(ctx(t), sb.ID, shoal.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	stopped := e.save(t, sb.ID, shoal.CreateCheckpointRequest{})
	if _, err := e.Client.Sandboxes().Wake(ctx(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	e.Out(t, sb.ID, "printf later >/root/f")
	e.killSentry(t, sb.ID)
	e.wantFailed(t, sb.ID, "")
	failed := e.save(t, sb.ID, shoal.CreateCheckpointRequest{})
	for id, want := range map[string]string{stopped.ID: "here", failed.ID: "later"} {
		if got := readTree(t, e.treeOf(t, id), "root/f"); got != want {
			t.Errorf("it has %q, want %q", got, want)
		}
	}
	if failed.Parent != stopped.ID {
		t.Errorf("its parent is %s", failed.Parent)
	}
	if err := e.Client.Sandboxes().DeleteWithCheckpoints(ctx(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	_, err := e.Client.Checkpoints().Create(ctx(t), sb.ID, shoal.CreateCheckpointRequest{})
	if shoal.ErrorCode(err) != shoal.CodeNotFound {
		t.Errorf("of a deleted sandbox: %v", err)
	}
	e.noCheckpoint(t, "*")
}

// TestCheckpointOnAFullDisk makes checkpoints while there is no room at all: each is whole or isn't there, and the sandbox goes on.
func TestCheckpointOnAFullDisk(t *testing.T) {
	e := env{harness.Start(t, harness.Options{Env: []string{"SHOAL_POOL_MAX_SIZE=1G"}})}
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Out(t, sb.ID, "printf kept >/root/kept; head -c 20000000 /dev/urandom >/root/room; sync")
	res := e.Run(t, sb.ID, shoal.ExecRequest{Shell: "cat /dev/urandom >/root/fill; echo full"})
	if !strings.Contains(*res.Stdout, "full") {
		t.Fatalf("fill the disk: %s", harness.Describe(res))
	}
	made := 0
	for i := range 10 {
		c, err := e.Client.Checkpoints().Create(ctx(t), sb.ID, shoal.CreateCheckpointRequest{Comment: strconv.Itoa(i)})
		switch {
		case err == nil:
			made++
			if got := readTree(t, e.treeOf(t, c.ID), "root/kept"); got != "kept" {
				t.Errorf("it has %q", got)
			}
		case shoal.ErrorCode(err) != shoal.CodeExhausted:
			t.Errorf("on a full disk: %v", err)
		}
		if out := e.Out(t, sb.ID, "cat /root/kept"); out != "kept" {
			t.Errorf("the sandbox says %q", out)
		}
	}
	listed := 0
	for _, err := range e.Client.Checkpoints().List(ctx(t), shoal.CheckpointsOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed++
	}
	trees, _ := filepath.Glob(filepath.Join(e.Dir, "pool/mnt/checkpoint/*/*"))
	if listed != made || len(trees) != made {
		t.Errorf("%d were made, %d are listed, and there are %d trees", made, listed, len(trees))
	}
	t.Logf("%d of 10 could be made", made)
	if got, err := e.Client.Sandboxes().Get(ctx(t), sb.ID); err != nil || got.State != shoal.StateRunning || got.Operation != "" {
		t.Errorf("the sandbox is %+v, %v", got, err)
	}
	// Deleting makes room again.
	if err := e.Client.Sandboxes().DeleteWithCheckpoints(ctx(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	e.noCheckpoint(t, "*")
	harness.Eventually(t, 60*time.Second, "there is room again", func() error {
		next, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
		if err != nil {
			return err
		}
		_, err = e.Client.Checkpoints().Create(ctx(t), next.ID, shoal.CreateCheckpointRequest{})
		if derr := e.Client.Sandboxes().DeleteWithCheckpoints(ctx(t), next.ID); err == nil {
			err = derr
		}
		return err
	})
}
