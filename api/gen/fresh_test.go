package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"shoal/api"
)

const root = "../.."

// TestOutputsAreFresh generates everything in memory and compares it with what is checked in.
func TestOutputsAreFresh(t *testing.T) {
	files, err := outputs(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Errorf("read %s: %v", name, err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what its sources say: run go generate ./api", name)
		}
	}
}

// TestDigests shows that the checked-in types were there when the table of operations was made, and that neither the
// document nor the registry has changed since.
func TestDigests(t *testing.T) {
	for file, want := range map[string]string{
		"openapi.yaml": api.DocumentDigest, "openapi_gen.go": api.TypesDigest, "errors.json": api.RegistryDigest,
	} {
		got, err := digest(filepath.Join(root, "api", file))
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("api/%s has changed since the rest was generated: run go generate ./api", file)
		}
	}
}
