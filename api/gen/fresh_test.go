package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
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

// TestTypesAreFresh runs the generator of the Go types, where it can be had without a network.
func TestTypesAreFresh(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "oapi-codegen")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", tool, "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen")
	build.Dir = filepath.Join(root, "tools")
	build.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("needs oapi-codegen in the module cache: %v\n%s", err, out)
	}
	config, err := os.ReadFile(filepath.Join(root, "api", "oapi-codegen.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	document, err := filepath.Abs(filepath.Join(root, "api", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(context.Background(), tool, "-config", "config.yaml", document)
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("oapi-codegen: %v\n%s", err, out)
	}
	want, err := os.ReadFile(filepath.Join(dir, "openapi_gen.go"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "api", "openapi_gen.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("api/openapi_gen.go is not what openapi.yaml says: run go generate ./api")
	}
}
