package e2e_test

import (
	"sync"
	"testing"

	shoal "shoal/sdk/go"
)

// testRestore goes back and forth between states of a sandbox's files, from each state of its own, and to the beginning.
func testRestore(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "again", Env: map[string]string{"KEPT": "env"}})
	identity := "hostname; cat /etc/machine-id; echo $KEPT"
	who := e.Out(t, sb.ID, identity)
	e.Out(t, sb.ID, "mkdir /w && printf one >/w/f && ln /w/f /w/hard && chown 1000:1000 /w/f && chmod 4750 /w/f && printf x >/w/one")
	first := e.save(t, sb.ID, shoal.CreateCheckpointRequest{Comment: "one"})
	e.Out(t, sb.ID, "rm /w/one && printf two >/w/f && chmod 600 /w/f && printf y >/w/two; sleep 1000 & echo started")
	look := "cat /w/f; stat -c ' %a %u:%g %h' /w/f; ls /w; pgrep -x sleep || true"
	const one, two = "one 4750 1000:1000 2\nf\nhard\none\n", "two 600 1000:1000 2\nf\nhard\ntwo\n"
	restore := func(id, want string) string {
		t.Helper()
		res, err := e.Client.Sandboxes().Restore(ctx(t), sb.ID, shoal.RestoreSandboxRequest{CheckpointID: id})
		if err != nil || res.Sandbox.State != shoal.StateRunning || res.Sandbox.ID != sb.ID || !res.Sandbox.ExpiresAt.Equal(sb.ExpiresAt) {
			t.Fatalf("restored: %+v, %v", res, err)
		}
		if got := e.Out(t, sb.ID, look); got != want {
			t.Errorf("it has\n%s\nwant\n%s", got, want)
		}
		if got := e.Out(t, sb.ID, identity); got != who {
			t.Errorf("it is\n%s\nwas\n%s", got, who)
		}
		return res.SavedCheckpointID
	}
	second := restore(first.ID, one) // and with that the process of before is gone
	restore(second, two)
	e.stop(t, sb)
	restore(first.ID, one)
	// What a script does in a loop: a restore, work, and again; the tenth is as the first.
	for range 10 {
		e.Out(t, sb.ID, "printf more >>/w/f && rm -rf /w/hard")
		res, err := e.Client.Sandboxes().Restore(ctx(t), sb.ID, shoal.RestoreSandboxRequest{CheckpointID: first.ID, Save: new(bool)})
		if err != nil || res.SavedCheckpointID != "" {
			t.Fatalf("%+v, %v", res, err)
		}
		if got := e.Out(t, sb.ID, look); got != one {
			t.Fatalf("it has\n%s\nwant\n%s", got, one)
		}
	}
	if res, err := e.Client.Sandboxes().Reset(ctx(t), sb.ID, shoal.ResetSandboxRequest{}); err != nil || res.SavedCheckpointID == "" {
		t.Errorf("reset: %+v, %v", res, err)
	}
	if got := e.Out(t, sb.ID, "ls /w 2>&1 || true; "+identity); got != "ls: cannot access '/w': No such file or directory\n"+who {
		t.Errorf("after a reset it has\n%s", got)
	}
	if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
		t.Error(err)
	}
	if err := e.Client.Checkpoints().Delete(ctx(t), first.ID); err != nil {
		t.Error(err)
	}
}

// testTwoRestores: of two at once one wins, and the files are those of the one.
func testTwoRestores(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	var ids []string
	for _, name := range []string{"a", "b"} {
		e.Out(t, sb.ID, "rm -rf /w && mkdir /w && for i in $(seq 50); do printf "+name+" >/w/$i; done")
		c := e.save(t, sb.ID, shoal.CreateCheckpointRequest{Comment: name})
		ids = append(ids, c.ID)
	}
	for range 3 {
		var wg sync.WaitGroup
		errs := make([]error, len(ids))
		for i, id := range ids {
			wg.Go(func() {
				_, errs[i] = e.Client.Sandboxes().Restore(ctx(t), sb.ID, shoal.RestoreSandboxRequest{CheckpointID: id, Save: new(bool)})
			})
		}
		wg.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil:
				won = i // if both did, one after the other, both are right
			case shoal.ErrorCode(err) != shoal.CodeConflict:
				t.Errorf("number %d: %v", i, err)
			}
		}
		if won < 0 {
			t.Fatalf("none wins: %v", errs)
		}
		got := e.Out(t, sb.ID, "cat /w/* | fold -w1 | sort -u | tr -d '\\n'; ls /w | wc -l")
		want := []string{"a50\n", "b50\n"}
		if both := errs[0] == nil && errs[1] == nil; got != want[won] && !(both && (got == want[0] || got == want[1])) {
			t.Errorf("it has %q, and %d won: %v", got, won, errs)
		}
	}
	if err := e.Client.Sandboxes().DeleteWithCheckpoints(ctx(t), sb.ID); err != nil {
		t.Error(err)
	}
}
