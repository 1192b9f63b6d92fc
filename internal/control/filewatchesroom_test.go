package control_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"shoal/internal/core"
)

// TestKeptWatchGivesBack: a watch that is ended while much happens leaves nothing behind of the room that all share.
func TestKeptWatchGivesBack(t *testing.T) {
	inTime(t, func(w *world) {
		sb := w.create(core.SandboxSpec{})
		for range 50 {
			id, told := w.keepWatch(sb)
			for i := range 2000 {
				told.events <- core.FileEvent{Kind: core.FileWritten, Path: fmt.Sprintf("/d/%d", i)}
			}
			if err := w.svc.EndWatch(w.t.Context(), alice, string(sb.ID), id); err != nil {
				w.t.Fatal(err)
			}
		}
		synctest.Wait()
		if n, bytes := w.svc.KeptWatches(); n != 0 || bytes != 0 {
			w.t.Errorf("%d watches with %d bytes are left", n, bytes)
		}
	})
}

// TestKeptWatchesOfASandboxAreBounded: whatever its guest agent lets begin; those that have ended make way, and go with the sandbox.
func TestKeptWatchesOfASandboxAreBounded(t *testing.T) {
	inTime(t, func(w *world) {
		sb, other := w.create(core.SandboxSpec{}), w.create(core.SandboxSpec{})
		for range 200 { // ended by the guest, and never asked for
			_, told := w.keepWatch(sb)
			told.events <- core.FileEvent{Kind: core.FileGone, Path: "/d"}
			close(told.events)
			synctest.Wait()
		}
		if n, _ := w.svc.KeptWatches(); n > 64 {
			w.t.Errorf("%d that have ended are kept", n)
		}
		for range 64 {
			w.keepWatch(sb)
		}
		_, err := w.svc.KeepWatch(w.t.Context(), alice, string(sb.ID), "/d", core.WatchOptions{})
		wantCode(w.t, err, core.CodeExhausted)
		w.keepWatch(other)
		if err := w.svc.DeleteSandbox(w.t.Context(), alice, string(sb.ID)); err != nil {
			w.t.Fatal(err)
		}
		g := w.node.guest(sb.ID)
		for _, told := range g.watches {
			told.end() // as the sandbox's end does
		}
		synctest.Wait()
		if n, _ := w.svc.KeptWatches(); n != 1 {
			w.t.Errorf("%d are kept, want the other sandbox's", n)
		}
	})
}

// TestKeptWatchesOfOthers: where the room that all share is full, who keeps most loses what he kept, and not who comes for his.
func TestKeptWatchesOfOthers(t *testing.T) {
	inTime(t, func(w *world) {
		mine, hoard := w.create(core.SandboxSpec{}), []core.Sandbox{}
		for i := range 320 {
			if i%60 == 0 {
				hoard = append(hoard, w.create(core.SandboxSpec{}))
			}
			_, told := w.keepWatch(hoard[len(hoard)-1])
			for j := range 55 {
				told.events <- core.FileEvent{Kind: core.FileWritten, Path: fmt.Sprintf("/d/%04000d", j)}
			}
		}
		synctest.Wait()
		id, told := w.keepWatch(mine)
		for i := range 20 {
			told.events <- core.FileEvent{Kind: core.FileWritten, Path: fmt.Sprintf("/d/%03000d", i)}
		}
		synctest.Wait()
		list, err := w.events(alice, mine, id)
		if err != nil || len(list) != 20 {
			w.t.Errorf("%d events, %v", len(list), err)
		}
	})
}
