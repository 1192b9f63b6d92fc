// Package generated_test shows that generated files are what their generators make, where running one takes more than
// the module itself. Generators that are ours are tested beside their code.
package generated_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const root = "../.."

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
