package envd_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd/filesystempb"
)

// kept are the watches of a fake control: one slice of events each, which a test may change.
type kept struct {
	mu     sync.Mutex
	events map[string][]core.FileEvent
	ended  map[string]error
	cancel map[string]context.CancelFunc
}

func (f *fakeControl) KeepWatch(_ context.Context, p control.Principal, ref, path string, opts core.WatchOptions) (string, error) {
	if err := f.must("KeepWatch", p, ref); err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := f.Watch(ctx, path, opts)
	if err != nil {
		cancel()
		return "", err
	}
	id := core.NewID()
	f.kept.mu.Lock()
	defer f.kept.mu.Unlock()
	if f.kept.events == nil {
		f.kept.events, f.kept.ended, f.kept.cancel = map[string][]core.FileEvent{}, map[string]error{}, map[string]context.CancelFunc{}
	}
	f.kept.events[id], f.kept.cancel[id] = nil, cancel
	go func() {
		for {
			e, err := w.Recv()
			f.kept.mu.Lock()
			if err != nil {
				f.kept.ended[id] = err
				f.kept.mu.Unlock()
				return
			}
			f.kept.events[id] = append(f.kept.events[id], e)
			f.kept.mu.Unlock()
		}
	}()
	return id, nil
}

func (f *fakeControl) WatchEvents(_ context.Context, p control.Principal, ref, id string, tell func([]core.FileEvent) error) error {
	if err := f.must("WatchEvents", p, ref); err != nil {
		return err
	}
	f.kept.mu.Lock()
	defer f.kept.mu.Unlock()
	list, ok := f.kept.events[id]
	if !ok {
		return core.Errorf(core.CodeNotFound, "no such watch")
	}
	if len(list) == 0 {
		return f.kept.ended[id]
	}
	err := tell(list)
	if err == nil {
		f.kept.events[id] = nil
	}
	return err
}

func (f *fakeControl) EndWatch(_ context.Context, p control.Principal, ref, id string) error {
	if err := f.must("EndWatch", p, ref); err != nil {
		return err
	}
	f.kept.mu.Lock()
	defer f.kept.mu.Unlock()
	if _, ok := f.kept.events[id]; !ok {
		return core.Errorf(core.CodeNotFound, "no such watch")
	}
	f.kept.cancel[id]()
	delete(f.kept.events, id)
	return nil
}

// told is an event in short.
func told(e *filesystempb.FilesystemEvent) string {
	s := strings.TrimPrefix(e.GetType().String(), "EVENT_TYPE_") + " " + e.GetName()
	if e.Entry != nil {
		s += " (" + e.GetEntry().GetPermissions() + ")"
	}
	return s
}

func act(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestWatchDir: what happens is told with names from the directory on, a rename by two events, and files are described if that is wanted.
func TestWatchDir(t *testing.T) {
	b := newBench(t)
	b.plant(t, "d/sub/")
	in := func(name string) string { return b.home + "/d/" + name }
	for _, entries := range []bool{false, true} {
		s, err := b.filesystem().WatchDir(t.Context(), connect.NewRequest(&filesystempb.WatchDirRequest{Path: "d", Recursive: true, IncludeEntry: entries}))
		act(t, err)
		if !s.Receive() || s.Msg().GetStart() == nil {
			t.Fatalf("begins with %v, %v", s.Msg(), s.Err())
		}
		act(t, os.WriteFile(in("sub/f"), nil, 0o600), os.WriteFile(in("sub/f"), []byte("x"), 0o600), os.Chmod(in("sub/f"), 0o640), os.Rename(in("sub/f"), in("g")), os.Remove(in("g")), os.Mkdir(in("end"), 0o700))
		want := []string{"CREATE sub/f", "WRITE sub/f", "CHMOD sub/f", "RENAME sub/f", "CREATE g", "REMOVE g", "CREATE end"}
		if entries {
			want[len(want)-1] += " (drwx------)"
		}
		var got []string
		for len(got) < len(want) && s.Receive() {
			if e := s.Msg().GetFilesystem(); e != nil {
				got = append(got, told(e))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("entries: %v, %v\n%s", entries, s.Err(), diff)
		}
		act(t, s.Close(), os.Remove(in("end")))
	}
	s, err := b.filesystem().WatchDir(t.Context(), connect.NewRequest(&filesystempb.WatchDirRequest{Path: b.home + "/d"}))
	act(t, err)
	if !s.Receive() {
		t.Fatal(s.Err())
	}
	act(t, os.RemoveAll(in("")))
	for s.Receive() {
	}
	if err := s.Err(); connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "nothing left to watch") {
		t.Errorf("when the directory goes: %v", err)
	}
	b.plant(t, "file")
	for path, code := range map[string]connect.Code{"no": connect.CodeNotFound, "file": connect.CodeInvalidArgument} {
		s, err := b.filesystem().WatchDir(t.Context(), connect.NewRequest(&filesystempb.WatchDirRequest{Path: path}))
		act(t, err)
		if s.Receive() || connect.CodeOf(s.Err()) != code {
			t.Errorf("%s: %v", path, s.Err())
		}
		_, err = b.filesystem().CreateWatcher(t.Context(), connect.NewRequest(&filesystempb.CreateWatcherRequest{Path: path}))
		if connect.CodeOf(err) != code {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestWatchDirEndsWithTheServer: its client hears of it.
func TestWatchDirEndsWithTheServer(t *testing.T) {
	b := newBench(t)
	s, err := b.filesystem().WatchDir(t.Context(), connect.NewRequest(&filesystempb.WatchDirRequest{Path: "/"}))
	act(t, err)
	if !s.Receive() {
		t.Fatal(s.Err())
	}
	b.closing()
	for s.Receive() {
	}
	if connect.CodeOf(s.Err()) != connect.CodeUnavailable {
		t.Errorf("ended with %v", s.Err())
	}
}

// TestWatchers: events are kept until they are asked for, and lost ones are said.
func TestWatchers(t *testing.T) {
	b := newBench(t)
	c := b.filesystem()
	b.plant(t, "d/")
	made, err := c.CreateWatcher(t.Context(), connect.NewRequest(&filesystempb.CreateWatcherRequest{Path: "d", IncludeEntry: true}))
	act(t, err)
	id := made.Msg.GetWatcherId()
	ask := func() ([]string, error) {
		r, err := c.GetWatcherEvents(t.Context(), connect.NewRequest(&filesystempb.GetWatcherEventsRequest{WatcherId: id}))
		if err != nil {
			return nil, err
		}
		got := []string{}
		for _, e := range r.Msg.GetEvents() {
			got = append(got, told(e))
		}
		return got, nil
	}
	if got, err := ask(); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	act(t, os.WriteFile(b.home+"/d/f", nil, 0o600))
	deadline := time.Now().Add(20 * time.Second)
	for {
		got, err := ask()
		act(t, err)
		if len(got) == 1 && got[0] == "CREATE f (-rw-------)" {
			break
		}
		if len(got) > 0 || time.Now().After(deadline) {
			t.Fatalf("told %v", got)
		}
	}
	b.kept.mu.Lock()
	for id := range b.kept.events {
		b.kept.events[id] = []core.FileEvent{{Kind: core.FileOverflow, Path: b.home + "/d"}, {Kind: core.FileCreated, Path: b.home + "/d/x"}}
	}
	b.kept.mu.Unlock()
	if _, err := ask(); connect.CodeOf(err) != connect.CodeDataLoss || !strings.Contains(err.Error(), "list the directory again") {
		t.Errorf("lost events: %v", err)
	}
	b.kept.mu.Lock()
	for id := range b.kept.events {
		b.kept.events[id] = []core.FileEvent{{Kind: core.FileRemoved, Path: b.home + "/d/x"}, {Kind: core.FileGone, Path: b.home + "/d"}}
		b.kept.ended[id] = io.EOF
	}
	b.kept.mu.Unlock()
	if got, err := ask(); err != nil || len(got) != 1 || got[0] != "REMOVE x" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ask(); connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "nothing left") {
		t.Errorf("gone: %v", err)
	}
	_, err = c.RemoveWatcher(t.Context(), connect.NewRequest(&filesystempb.RemoveWatcherRequest{WatcherId: id}))
	act(t, err)
	for _, id := range []string{id, "", "x", "e.", "w" + core.NewID() + ".%zz", strings.Repeat("x", 20_000)} {
		_, err := c.RemoveWatcher(t.Context(), connect.NewRequest(&filesystempb.RemoveWatcherRequest{WatcherId: id}))
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("remove %.30q: %v", id, err)
		}
		_, err = c.GetWatcherEvents(t.Context(), connect.NewRequest(&filesystempb.GetWatcherEventsRequest{WatcherId: id}))
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("ask %.30q: %v", id, err)
		}
	}
}

// TestWatcherTellsAgain: an answer that can't be given, since a file can't be described now, loses nothing.
func TestWatcherTellsAgain(t *testing.T) {
	b := newBench(t)
	c := b.filesystem()
	b.plant(t, "d/")
	made, err := c.CreateWatcher(t.Context(), connect.NewRequest(&filesystempb.CreateWatcherRequest{Path: "d", IncludeEntry: true}))
	act(t, err)
	b.kept.mu.Lock()
	for id := range b.kept.events {
		b.kept.events[id] = []core.FileEvent{{Kind: core.FileRemoved, Path: b.home + "/d/x"}, {Kind: core.FileCreated, Path: b.home + "/d/y"}}
	}
	b.kept.mu.Unlock()
	ask := func() (*connect.Response[filesystempb.GetWatcherEventsResponse], error) {
		return c.GetWatcherEvents(t.Context(), connect.NewRequest(&filesystempb.GetWatcherEventsRequest{WatcherId: made.Msg.GetWatcherId()}))
	}
	b.failWalk(core.Errorf(core.CodeUnavailable, "the guest agent can't be reached"))
	if _, err := ask(); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Fatalf("answered %v", err)
	}
	b.failWalk(nil)
	got, err := ask()
	act(t, err)
	if e := got.Msg.GetEvents(); len(e) != 2 || told(e[0]) != "REMOVE x" || e[1].GetName() != "y" {
		t.Errorf("told %v", e)
	}
}
