// Command gen makes what follows from openapi.yaml and errors.json besides the Go types: the table of operations, the
// error codes of core, server and SDK, and the reference documents. It knows nothing of the server's code.
//
// Run it by `go generate ./api`; start reading at outputs.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"shoal/api"
)

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1) //nolint:forbidigo // This is main.
	}
}

// run writes every output below root, the top of the module.
func run(root string) error {
	files, err := outputs(root)
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

// outputs returns the content of every generated file by its path below root.
func outputs(root string) (map[string][]byte, error) {
	doc, err := load(root)
	if err != nil {
		return nil, err
	}
	codes, err := api.ErrorCodes()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, render := range map[string]func() ([]byte, error){
		"api/operations_gen.go":          func() ([]byte, error) { return operations(root, doc) },
		"internal/core/code_gen.go":      func() ([]byte, error) { return coreCodes(codes) },
		"internal/httpapi/status_gen.go": func() ([]byte, error) { return statusTable(codes) },
		"sdk/go/code_gen.go":             func() ([]byte, error) { return sdkCodes(codes) },
		"docs/reference/errors.md":       errorReference,
		"docs/reference/api.md":          func() ([]byte, error) { return apiReference(doc), nil },
	} {
		content, err := render()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = content
	}
	return files, nil
}
