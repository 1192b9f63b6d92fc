package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/image/jail"
)

// testOwner is a range that no sandbox of this machine uses.
const testOwner = 1_900_000_000

// needRoot skips a test as an ordinary user, or fails it where root is required.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("SHOAL_REQUIRE_ROOT") == "1" {
		t.Fatal("needs root: it makes user and mount namespaces")
	}
	t.Skip("needs root: it makes user and mount namespaces")
}

func shell(script string) []string { return []string{"/bin/sh", "-euc", script} }

// ownDir returns a directory that the jail's root owns, below one that only the host's root may enter.
func ownDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o700), os.Chown(dir, testOwner, testOwner)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestJailShiftsOwners(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := ownDir(t)
	var out bytes.Buffer
	j := jail.Jail{OwnerUID: testOwner, Binds: map[string]string{"target": dir}, Files: map[string][]byte{"note": []byte("hello")}}
	err := j.Run(t.Context(), shell(`cd /tmp/target
		cat /tmp/note; id -u; echo $$
		touch file; chown 1000:50 file; chmod 6755 file
		ln file hard; ln -s /etc/passwd soft; chown -h 65535:65535 soft
		mkdir -m 1777 dir
		if mknod node c 1 3 2>/dev/null; then echo "made a device"; fi
		if cat /etc/shadow >/dev/null 2>&1; then echo "reads what is root's"; fi
		if mount -o remount,rw,bind /usr 2>/dev/null; touch /usr/shoal-test 2>/dev/null; then echo "writes what is root's"; fi
		mount -t tmpfs none dir`), environmentFor(os.Getenv), &out)
	if err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if want := "hello0\n1\n"; out.String() != want {
		t.Errorf("the jail says %q, want %q", out.String(), want)
	}
	var file, hard, soft unix.Stat_t
	if err := errors.Join(unix.Lstat(dir+"/file", &file), unix.Lstat(dir+"/hard", &hard), unix.Lstat(dir+"/soft", &soft)); err != nil {
		t.Fatal(err)
	}
	if file.Uid != testOwner+1000 || file.Gid != testOwner+50 || file.Mode&0o7777 != 0o6755 || file.Ino != hard.Ino {
		t.Errorf("file is %d:%d %o, inode %d and %d", file.Uid, file.Gid, file.Mode, file.Ino, hard.Ino)
	}
	if soft.Uid != testOwner+65535 || soft.Mode&unix.S_IFMT != unix.S_IFLNK {
		t.Errorf("link is %d %o", soft.Uid, soft.Mode)
	}
	if _, err := os.Stat("/tmp/note"); err == nil {
		t.Error("a file of the jail shows outside")
	}
	noMounts(t, dir)
}

// noMounts fails the test if this process sees a mount at or below dir.
func noMounts(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), dir) {
		t.Errorf("a mount is left at %s", dir)
	}
}

// processesOf returns the host's processes that belong to the test's range.
func processesOf(owner int) []string {
	var out []string
	names, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // It has ended.
		}
		for line := range strings.SplitSeq(string(data), "\n") {
			fields := strings.Fields(line)
			if len(fields) > 1 && fields[0] == "Uid:" {
				if uid, _ := strconv.Atoi(fields[1]); uid >= owner && uid < owner+jail.IDs {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// signalWriter closes seen when the text has been written.
type signalWriter struct {
	text string
	seen chan struct{}
	all  []byte
}

func (w *signalWriter) Write(p []byte) (int, error) {
	had := bytes.Contains(w.all, []byte(w.text))
	w.all = append(w.all, p...)
	if !had && bytes.Contains(w.all, []byte(w.text)) {
		close(w.seen)
	}
	return len(p), nil
}

func TestJailCancelLeavesNothing(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const owner = testOwner + jail.IDs
	dir := ownDir(t)
	if err := os.Chown(dir, owner, owner); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &signalWriter{text: "ready", seen: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		j := jail.Jail{OwnerUID: owner, Binds: map[string]string{"target": dir}}
		// A daemon that has left its session and ignores what it can, with its own output on the pipe.
		ended <- j.Run(ctx, shell(`trap '' TERM HUP INT; mount -t tmpfs none /tmp/target
			setsid sh -c 'trap "" TERM HUP; while :; do sleep 1000; done' & echo ready; wait`), environmentFor(os.Getenv), w)
	}()
	<-w.seen
	if len(processesOf(owner)) == 0 {
		t.Fatal("the jail's processes are not found, so the test can't tell that they end")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if left := processesOf(owner); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	noMounts(t, dir)
}

// TestJailDiesWithItsMaker kills the process that runs a jail: a copy of this test's program.
func TestJailDiesWithItsMaker(t *testing.T) {
	needRoot(t)
	const owner = testOwner + 2*jail.IDs
	if dir := os.Getenv("SHOAL_TEST_JAIL"); dir != "" {
		j := jail.Jail{OwnerUID: owner, Binds: map[string]string{"target": dir}}
		fmt.Println(j.Run(t.Context(), shell(`setsid sleep 1000 & echo ready; wait`), environmentFor(os.Getenv), os.Stdout))
		return
	}
	dir := ownDir(t)
	if err := os.Chown(dir, owner, owner); err != nil {
		t.Fatal(err)
	}
	w := &signalWriter{text: "ready", seen: make(chan struct{})}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJailDiesWithItsMaker$")
	cmd.Env = append(os.Environ(), "SHOAL_TEST_JAIL="+dir)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-w.seen
	if len(processesOf(owner)) == 0 {
		t.Fatal("the jail's processes are not found, so the test can't tell that they end")
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The pipe's last writers are the jail's processes: Wait returns once they are gone.
	_ = cmd.Wait()
	timeout := time.After(10 * time.Second)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for len(processesOf(owner)) > 0 {
		select {
		case <-timeout:
			t.Fatalf("processes are left: %v", processesOf(owner))
		case <-look.C:
		}
	}
	noMounts(t, dir)
}
