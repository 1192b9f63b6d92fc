// Package shoal_test holds the shape of the tree as tests: who may import whom, what stays behind which fence, how
// large a file, function or type may grow, and which words are ours.
//
// It knows nothing of what the program does and reads source text only. Start with the table `places` in
// arch_places_test.go; a refusal says which rule it breaks and what to do instead.
package shoal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exempt lists what may exceed a budget, each with the reason. It may only grow in review.
var exempt = map[string]string{}

// skipDirs are folders that hold no source of ours.
var skipDirs = map[string]bool{".git": true, "bin": true, "build": true, "testdata": true, "node_modules": true}

// loadTree parses every Go file below the current directory.
func loadTree(t *testing.T) []source {
	t.Helper()
	var list []source
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && (skipDirs[d.Name()] || strings.HasPrefix(d.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s, err := parseSource(filepath.ToSlash(path), string(text))
		if err != nil {
			return err
		}
		list = append(list, s)
		return nil
	})
	if err != nil {
		t.Fatalf("read the tree: %v", err)
	}
	if len(list) == 0 {
		t.Fatal("no Go file found: the test must run in the module's root")
	}
	return list
}

// TestArchitecture runs every rule over the tree.
func TestArchitecture(t *testing.T) {
	tree := loadTree(t)
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, problem := range r.check(tree) {
				t.Error(problem)
			}
		})
	}
}

// TestDocumentBudgets keeps the documents that everyone reads short.
func TestDocumentBudgets(t *testing.T) {
	for name, budget := range map[string]int{
		"README.md": 150, "ARCHITECTURE.md": 300, "SCOPE.md": 60, "STYLE.md": 150, "TESTING.md": 120, "AGENTS.md": 79,
		"docs/security/THREAT_MODEL.md": 300,
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if n := strings.Count(string(text), "\n"); n > budget {
			t.Errorf("%s has %d lines, its budget is %d: move detail to where it is used", name, n, budget)
		}
	}
}

// TestExemptions fails for an exemption that is no longer needed.
func TestExemptions(t *testing.T) {
	used := map[string]bool{}
	for _, f := range overBudget(loadTree(t)) {
		used[f.key] = true
	}
	for key, reason := range exempt {
		if !used[key] {
			t.Errorf("exempt has %q, which is within its budget: remove it", key)
		}
		if reason == "" {
			t.Errorf("exempt has %q without a reason", key)
		}
	}
}
