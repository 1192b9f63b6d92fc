package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestSecretIsHidden holds that no usual way to show a value shows a secret.
func TestSecretIsHidden(t *testing.T) {
	src := ImageSource{Ref: "alpine", Username: "u", Password: "open sesame"}
	encoded, err := json.Marshal(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{
		fmt.Sprint(src), fmt.Sprintf("%+v", src), fmt.Sprintf("%#v", src), fmt.Sprintf("%s %q %v", src.Password, src.Password, &src),
		fmt.Sprintf("%x", src.Password), string(encoded),
	} {
		if strings.Contains(shown, "sesame") || strings.Contains(shown, fmt.Sprintf("%x", "sesame")) {
			t.Errorf("shown: %s", shown)
		}
	}
	if src.Password.Reveal() != "open sesame" || Secret("").String() != "" {
		t.Error("a secret is revealed to whoever asks, and an empty one is empty")
	}
}
