package seal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/core"
	"shoal/internal/seal"
)

// TestSeal: what was sealed opens with the same bind only, also after a restart, and shows nothing of itself.
func TestSeal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), seal.KeyFile)
	box, secret := seal.New(path), []byte("correct horse battery")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Fatal("a key is made before there is anything to seal")
	}
	sealed, err := box.Seal(secret, "a")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key's file: %v, %v", info, err)
	}
	again, err := box.Seal(secret, "a")
	if err != nil || bytes.Equal(sealed, again) || bytes.Contains(sealed, secret[:8]) {
		t.Fatalf("%x and %x, %v", sealed, again, err)
	}
	for name, b := range map[string]*seal.Box{"the same": box, "restarted": seal.New(path)} {
		if got, err := b.Open(sealed, "a"); err != nil || !bytes.Equal(got, secret) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		for _, bind := range []string{"", "b", "aa"} {
			if got, err := b.Open(sealed, bind); !core.IsCode(err, core.CodeDataLoss) || got != nil {
				t.Errorf("%s, bound to %q: %q, %v", name, bind, got, err)
			}
		}
	}
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		if _, err := box.Open(bad, "a"); !core.IsCode(err, core.CodeDataLoss) {
			t.Fatalf("with byte %d changed: %v", i, err)
		}
		if _, err := box.Open(sealed[:i], "a"); !core.IsCode(err, core.CodeDataLoss) {
			t.Fatalf("cut off after %d bytes: %v", i, err)
		}
	}
}

// TestKeyFile: a key that is gone, another, damaged or open to others is told, and never replaced silently.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), seal.KeyFile)
	sealed, err := seal.New(path).Seal([]byte("x"), "a")
	if err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	opens := func(want core.Code) {
		t.Helper()
		if _, err := seal.New(path).Open(sealed, "a"); core.CodeOf(err) != want {
			t.Errorf("opens with %v, not %s", err, want)
		}
	}
	put := func(text []byte, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	put(good, 0o640)
	opens(core.CodeInternal)
	put(good[:20], 0o600)
	opens(core.CodeInternal)
	if _, err := seal.New(path).Seal([]byte("y"), "a"); err == nil {
		t.Error("a damaged key was replaced")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	opens(core.CodeDataLoss)
	if _, err := seal.New(path).Seal([]byte("y"), "a"); err != nil {
		t.Fatal(err)
	}
	opens(core.CodeDataLoss)
	put(good, 0o600)
	if got, err := seal.New(path).Open(sealed, "a"); err != nil || string(got) != "x" {
		t.Errorf("with its key back: %q, %v", got, err)
	}
}
