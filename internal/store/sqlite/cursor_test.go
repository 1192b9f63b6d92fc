package sqlite

import (
	"encoding/base64"
	"testing"

	"shoal/internal/core"
)

func TestCursor(t *testing.T) {
	want := position{Kind: "sandboxes", At: 1 << 60, Name: "ü", Number: 7, ID: "a"}
	got, ok, err := parseCursor("sandboxes", want.String())
	if err != nil || !ok || got != want {
		t.Fatalf("got %+v, %v, %v", got, ok, err)
	}
	if _, ok, err := parseCursor("sandboxes", ""); ok || err != nil {
		t.Fatalf("no cursor: %v, %v", ok, err)
	}
	// One flipped bit anywhere is noticed, also where the JSON stays good.
	raw, err := base64.RawURLEncoding.DecodeString(want.String())
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		raw[i] ^= 1
		_, _, err := parseCursor("sandboxes", base64.RawURLEncoding.EncodeToString(raw))
		if !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("byte %d changed: got %v", i, err)
		}
		raw[i] ^= 1
	}
}
