package generated_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProtosAreFresh runs the generator of what .proto files say, where it can be had without a network.
func TestProtosAreFresh(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "protos")
	goTool := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(context.Background(), "go", args...)
		cmd.Dir = filepath.Join(root, "tools")
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly")
		return cmd.CombinedOutput()
	}
	if out, err := goTool("build", "-o", tool, "./protos"); err != nil {
		t.Skipf("needs protocompile in the module cache: %v\n%s", err, out)
	}
	sources := protoFiles(t)
	if len(sources) == 0 {
		t.Fatal("there are no .proto files")
	}
	out := t.TempDir()
	run := exec.CommandContext(context.Background(), tool, append([]string{"-root", "..", "-out", out}, sources...)...)
	run.Dir = filepath.Join(root, "tools")
	run.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly")
	if text, err := run.CombinedOutput(); err != nil {
		t.Fatalf("protos: %v\n%s", err, text)
	}
	made := 0
	err := filepath.WalkDir(out, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		made++
		rel, err := filepath.Rel(out, name)
		if err != nil {
			return err
		}
		want, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if got, err := os.ReadFile(filepath.Join(root, rel)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what its .proto file says: run make generate (%v)", rel, err)
		}
		return nil
	})
	if err != nil || made != 2*len(sources) {
		t.Errorf("%d files made of %d, %v", made, len(sources), err)
	}
}

// protoFiles lists the .proto files below internal, relative to the root.
func protoFiles(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".proto") {
			var rel string
			rel, err = filepath.Rel(root, name)
			list = append(list, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
