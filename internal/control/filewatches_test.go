package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/control"
	"shoal/internal/core"
)

// toldWatch tells what a test makes happen.
type toldWatch struct {
	ctx    context.Context
	end    context.CancelFunc
	events chan core.FileEvent
}

func (w *toldWatch) Recv() (core.FileEvent, error) {
	select {
	case e, ok := <-w.events:
		if !ok {
			return e, io.EOF
		}
		return e, nil
	case <-w.ctx.Done():
		return core.FileEvent{}, core.Errorf(core.CodeCanceled, "the call was canceled")
	}
}

func (w *toldWatch) Close() error {
	w.end()
	return nil
}

func (g *guest) Watch(ctx context.Context, path string, _ core.WatchOptions) (core.FileWatch, error) {
	if path == "/no" {
		return nil, core.Errorf(core.CodeNotFound, "no such file")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	w := &toldWatch{events: make(chan core.FileEvent, 10_000)}
	w.ctx, w.end = context.WithCancel(ctx)
	g.watches = append(g.watches, w)
	return w, nil
}

func (w *world) keepWatch(sb core.Sandbox) (id string, told *toldWatch) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	id, err := w.svc.KeepWatch(ctx, alice, string(sb.ID), "/d", core.WatchOptions{})
	cancel() // the watch goes on
	if err != nil {
		w.t.Fatal(err)
	}
	g := w.node.guest(sb.ID)
	g.mu.Lock()
	defer g.mu.Unlock()
	return id, g.watches[len(g.watches)-1]
}

// TestKeptWatch: what happens is kept until it is asked for, told once, and only to whom the sandbox belongs.
func TestKeptWatch(t *testing.T) {
	inTime(t, func(w *world) {
		sb, other := w.create(core.SandboxSpec{}), w.create(core.SandboxSpec{})
		id, told := w.keepWatch(sb)
		ask := func() []core.FileEvent {
			synctest.Wait()
			list, err := w.events(alice, sb, id)
			if err != nil {
				w.t.Fatal(err)
			}
			return list
		}
		if list := ask(); len(list) != 0 {
			w.t.Errorf("told %v", list)
		}
		want := []core.FileEvent{{Kind: core.FileCreated, Path: "/d/a"}, {Kind: core.FileRenamed, Path: "/d/a", To: "/d/b"}}
		for _, e := range want {
			told.events <- e
		}
		if diff := cmp.Diff(want, ask()); diff != "" {
			w.t.Error(diff)
		}
		if list := ask(); len(list) != 0 {
			w.t.Errorf("told again: %v", list)
		}
		_, err := w.events(alice, other, id)
		wantCode(w.t, err, core.CodeNotFound)
		_, err = w.events(bob, sb, id)
		wantCode(w.t, err, core.CodeNotFound)
		wantCode(w.t, w.svc.EndWatch(w.t.Context(), bob, string(sb.ID), id), core.CodeNotFound)
		_, err = w.svc.KeepWatch(w.t.Context(), alice, string(sb.ID), "/no", core.WatchOptions{})
		wantCode(w.t, err, core.CodeNotFound)
		if err := w.svc.EndWatch(w.t.Context(), alice, string(sb.ID), id); err != nil {
			w.t.Error(err)
		}
		synctest.Wait()
		if told.ctx.Err() == nil {
			w.t.Error("it goes on")
		}
		_, err = w.events(alice, sb, id)
		wantCode(w.t, err, core.CodeNotFound)
	})
}

// TestKeptWatchIsBounded: what there is no room for is said, and what comes then is told.
func TestKeptWatchIsBounded(t *testing.T) {
	inTime(t, func(w *world) {
		sb := w.create(core.SandboxSpec{})
		id, told := w.keepWatch(sb)
		for i := range 1000 {
			told.events <- core.FileEvent{Kind: core.FileWritten, Path: fmt.Sprintf("/d/%01000d", i)}
		}
		synctest.Wait()
		list, err := w.events(alice, sb, id)
		if err != nil || len(list) < 2 || len(list) > 300 || list[0].Kind != core.FileOverflow || list[0].Path != "/d" || !strings.HasSuffix(list[len(list)-1].Path, "999") {
			w.t.Errorf("%d events, %v", len(list), err)
		}
	})
}

// TestKeptWatchEnds: who asks hears of all that was told and then why it has ended; one that nobody asks for doesn't go on.
func TestKeptWatchEnds(t *testing.T) {
	inTime(t, func(w *world) {
		sb := w.create(core.SandboxSpec{Persistent: true})
		id, told := w.keepWatch(sb)
		told.events <- core.FileEvent{Kind: core.FileGone, Path: "/d"}
		close(told.events)
		synctest.Wait()
		list, err := w.events(alice, sb, id)
		if err != nil || len(list) != 1 {
			w.t.Errorf("%v, %v", list, err)
		}
		if _, err := w.events(alice, sb, id); !errors.Is(err, io.EOF) {
			w.t.Errorf("after gone: %v", err)
		}
		_, err = w.events(alice, sb, id)
		wantCode(w.t, err, core.CodeNotFound)

		id, told = w.keepWatch(sb)
		for range 5 {
			w.pass(50 * time.Minute)
			if _, err := w.events(alice, sb, id); err != nil {
				w.t.Fatalf("while it is asked for: %v", err)
			}
		}
		w.pass(2 * time.Hour)
		if told.ctx.Err() == nil {
			w.t.Error("it goes on though nobody asks")
		}
		_, err = w.events(alice, sb, id)
		wantCode(w.t, err, core.CodeNotFound)
	})
}

// events asks for what was kept.
func (w *world) events(p control.Principal, sb core.Sandbox, id string) (list []core.FileEvent, err error) {
	err = w.svc.WatchEvents(w.t.Context(), p, string(sb.ID), id, func(told []core.FileEvent) error { list = told; return nil })
	return list, err
}

// TestKeptEventsAreToldAgain: what could not be told comes again, before what has come since, and what there is no room for is said.
func TestKeptEventsAreToldAgain(t *testing.T) {
	inTime(t, func(w *world) {
		sb := w.create(core.SandboxSpec{})
		id, told := w.keepWatch(sb)
		happen := func(n, size int) {
			for i := range n {
				told.events <- core.FileEvent{Kind: core.FileWritten, Path: fmt.Sprintf("/d/%0*d", size, i)}
			}
			synctest.Wait()
		}
		refused := core.Errorf(core.CodeTimeout, "no answer")
		refuse := func(then func()) {
			err := w.svc.WatchEvents(w.t.Context(), alice, string(sb.ID), id, func([]core.FileEvent) error { then(); return refused })
			if !errors.Is(err, refused) {
				w.t.Fatal(err)
			}
		}
		happen(2, 1)
		_, before := w.svc.KeptWatches()
		refuse(func() {})
		if _, after := w.svc.KeptWatches(); after != before {
			w.t.Errorf("%d bytes are kept, want %d", after, before)
		}
		refuse(func() { happen(1, 3) })
		if list, err := w.events(alice, sb, id); err != nil || len(list) != 3 || list[0].Path != "/d/0" || list[2].Path != "/d/000" {
			w.t.Errorf("told %v, %v", list, err)
		}
		happen(100, 1000)
		refuse(func() { happen(200, 1000) })
		if list, err := w.events(alice, sb, id); err != nil || len(list) != 1 || list[0].Kind != core.FileOverflow {
			w.t.Errorf("told %d, %v", len(list), err)
		}
		happen(1, 1)
		refuse(func() {
			if err := w.svc.EndWatch(w.t.Context(), alice, string(sb.ID), id); err != nil {
				w.t.Error(err)
			}
		})
		if n, bytes := w.svc.KeptWatches(); n != 0 || bytes != 0 {
			w.t.Errorf("%d watches of %d bytes are kept", n, bytes)
		}
	})
}
