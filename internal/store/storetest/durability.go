package storetest

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/store"
)

// The environment of the child process that a durability test kills.
const (
	childDir  = "SHOAL_STORETEST_DIR"
	childMode = "SHOAL_STORETEST_MODE"

	modeFull    = "full"
	modeRelaxed = "relaxed"
	modeMixed   = "mixed"
)

// acknowledged marks a line of the child that names an id: what else the test binary prints is passed over.
const acknowledged = "acknowledged "

// testDurability kills a process in the middle of its writes, several times over on one directory, and looks for each
// record that it was told is kept.
func testDurability(t *testing.T, open Open) {
	t.Helper()
	t.Run("close and reopen", func(t *testing.T) {
		dir := t.TempDir()
		b, e := newSandbox(alice), core.Event{Tenant: alice, Type: core.EventSandboxRunning}
		s := &suite{T: t, Store: open(t, dir)}
		s.put(b)
		s.update(func(tx store.Tx) error { _, err := tx.AppendEvent(e); return err })
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s.Store = open(t, dir)
		defer func() { _ = s.Close() }()
		got, err := s.sandbox(alice, string(b.ID))
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, got, b)
		s.update(func(tx store.Tx) error {
			got, err := tx.AppendEvent(e)
			if got.Seq != 2 {
				t.Fatalf("after a restart the next event has number %d, want 2", got.Seq)
			}
			return err
		})
	})
	for _, mode := range []string{modeFull, modeRelaxed, modeMixed} {
		t.Run("kill -9 during writes, "+mode, func(t *testing.T) {
			dir := t.TempDir()
			var kept []string
			for _, lines := range []int{1, 40, 150} {
				kept = append(kept, killAfter(t, dir, mode, lines)...)
			}
			s := &suite{T: t, Store: open(t, dir)}
			defer func() { _ = s.Close() }()
			for _, id := range kept {
				if _, err := s.sandbox(alice, id); err != nil {
					t.Fatalf("a sandbox of %d that were acknowledged before the kill: %v", len(kept), err)
				}
			}
			list, _ := s.events(alice, "", 0, 1000)
			for i, e := range list {
				if e.Seq != int64(i+1) {
					t.Fatalf("event %d has number %d", i+1, e.Seq)
				}
			}
			if len(list) < len(kept) {
				t.Fatalf("%d events for %d sandboxes", len(list), len(kept))
			}
		})
	}
}

// killAfter starts the driver's test in a child process, kills it when it has acknowledged some records, and returns all
// that it acknowledged.
func killAfter(t *testing.T, dir, mode string, lines int) []string {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	top, _, _ := strings.Cut(t.Name(), "/")
	child, err := os.StartProcess(os.Args[0], []string{os.Args[0], "-test.run=^" + top + "$", "-test.count=1"}, &os.ProcAttr{
		Env:   append(os.Environ(), childDir+"="+dir, childMode+"="+mode),
		Files: []*os.File{nil, in, os.Stderr},
	})
	if err != nil {
		_ = in.Close()
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for scan := bufio.NewScanner(out); scan.Scan(); {
		id, ok := strings.CutPrefix(scan.Text(), acknowledged)
		if !ok {
			continue
		}
		if ids = append(ids, id); len(ids) == lines {
			if err := child.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(ids) < lines {
		t.Fatalf("the child ended by itself after %d records", len(ids))
	}
	return ids
}

// writeUntilKilled is the child: it says each id once the store has acknowledged it.
func writeUntilKilled(t *testing.T, s store.Store, mode string) {
	t.Helper()
	for i := 0; ; i++ {
		b := newSandbox(alice)
		write := s.Update
		if mode == modeRelaxed || mode == modeMixed && i%2 == 1 {
			write = s.UpdateRelaxed
		}
		err := write(t.Context(), func(tx store.Tx) error {
			if _, err := tx.AppendEvent(core.Event{Tenant: alice, Sandbox: b.ID, Type: core.EventSandboxCreating}); err != nil {
				return err
			}
			return tx.PutSandbox(b)
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Println(acknowledged + string(b.ID)); err != nil {
			t.Fatal(err)
		}
	}
}
