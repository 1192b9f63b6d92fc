package httpapi_test

import (
	"net/http"
	"testing"

	shoal "shoal/sdk/go"
)

func TestClientRestore(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	keep, drop := true, false
	for name, tc := range map[string]struct {
		save  *bool
		saved bool
	}{"default": {nil, true}, "saved": {&keep, true}, "discarded": {&drop, false}} {
		res, err := c.Sandboxes().Restore(t.Context(), "x", shoal.RestoreSandboxRequest{CheckpointID: fakeCheckpointID, Save: tc.save})
		if err != nil || res.Sandbox.State != shoal.StateRunning || (res.SavedCheckpointID != "") != tc.saved {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		if res, err = c.Sandboxes().Reset(t.Context(), "x", shoal.ResetSandboxRequest{Save: tc.save}); err != nil || (res.SavedCheckpointID != "") != tc.saved {
			t.Errorf("%s: reset: %+v, %v", name, res, err)
		}
	}
	first, err := c.Sandboxes().WithKey("k").Restore(t.Context(), "x", shoal.RestoreSandboxRequest{CheckpointID: fakeCheckpointID})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Sandboxes().WithKey("k").Restore(t.Context(), "x", shoal.RestoreSandboxRequest{CheckpointID: fakeCheckpointID})
	if err != nil || again.SavedCheckpointID != first.SavedCheckpointID {
		t.Errorf("the repeat: %+v, %v", again, err)
	}
	_, err = c.Sandboxes().WithKey("k").Reset(t.Context(), "x", shoal.ResetSandboxRequest{})
	wantCode(t, err, shoal.CodeConflict)
	_, err = c.Sandboxes().Restore(t.Context(), "nobody", shoal.RestoreSandboxRequest{CheckpointID: fakeCheckpointID})
	wantCode(t, err, shoal.CodeNotFound)
}

// fakeCheckpointID is the checkpoint that every sandbox has.
var fakeCheckpointID = string(fakeCheckpoint().ID)

// TestRestoreBody: what to go back to must be said, and a reset may say nothing.
func TestRestoreBody(t *testing.T) {
	a, _ := newAPI(t, nil)
	for path, bodies := range map[string]map[string]int{
		"restore": {"": http.StatusUnsupportedMediaType, "{}": http.StatusNotFound, `{"checkpoint_id":"c1","saved":true}`: http.StatusBadRequest, `{"checkpoint_id":1}`: http.StatusBadRequest},
		"reset":   {`{"save":1}`: http.StatusBadRequest, `{"checkpoint_id":"c1"}`: http.StatusBadRequest, "": http.StatusNotFound, "{}": http.StatusNotFound},
	} {
		for body, want := range bodies {
			if got := post(t, a, "/v1/sandboxes/nobody/"+path, body); got.Code != want {
				t.Errorf("%s %q: %d, want %d: %s", path, body, got.Code, want, got.Body)
			}
		}
	}
}
