package shoal

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"shoal/api"
)

// The answers about what is different in a sandbox.
type (
	// SandboxDiff is what is different in a sandbox.
	SandboxDiff = api.SandboxDiff
	// FileDiff is one file that is not the same.
	FileDiff = api.FileDiff
	// PackageDiff is a package that is installed on one side only, or in two versions.
	PackageDiff = api.PackageDiff
	// SandboxProcess is a process inside a sandbox.
	SandboxProcess = api.SandboxProcess
	// SandboxListener is a socket inside a sandbox that waits for others.
	SandboxListener = api.SandboxListener
	// CredentialFinding is a place where there is likely a credential.
	CredentialFinding = api.CredentialFinding
)

// What became of a file.
const (
	DiffAdded   = api.FileDiffChangeAdded
	DiffRemoved = api.FileDiffChangeRemoved
	DiffChanged = api.FileDiffChangeChanged
)

// DiffOptions say what a sandbox is held against.
type DiffOptions struct {
	// Against is what was before: a checkpoint's id, or another sandbox's id or name; empty means the sandbox's template.
	Against string
	// Path is the file or directory to compare; empty means all.
	Path string
	// Expand tells each file in a directory that is new or gone, which is counted otherwise.
	Expand bool
	// Content adds the lines of text that are different.
	Content bool
	// Cursor is the NextCursor of the page before.
	Cursor string
}

// Diff returns a page of what is different in a sandbox: files with each page, all else with the first. A sandbox that runs goes on, and each
// page is of the moment of its call.
func (s Sandboxes) Diff(ctx context.Context, ref string, o DiffOptions) (SandboxDiff, error) {
	p, err := path("v1", "sandboxes", ref)
	if err != nil {
		return SandboxDiff{}, err
	}
	q := url.Values{}
	if o.Path != "" {
		q = pathQuery(o.Path)
	}
	if o.Against != "" {
		q.Set("against", o.Against)
	}
	for name, on := range map[string]bool{"expand": o.Expand, "content": o.Content} {
		if on {
			q.Set(name, "true")
		}
	}
	q.Set("limit", "1000")
	var out SandboxDiff
	return out, s.c.do(ctx, call{method: http.MethodGet, path: p + "/diff", query: withCursor(q, o.Cursor)}, &out)
}

// DiffPages returns all pages of what is different in a sandbox, and fetches them as they are needed. After an error it ends.
func (s Sandboxes) DiffPages(ctx context.Context, ref string, o DiffOptions) iter.Seq2[SandboxDiff, error] {
	return func(yield func(SandboxDiff, error) bool) {
		for {
			page, err := s.Diff(ctx, ref, o)
			if !yield(page, err) || err != nil || page.NextCursor == "" {
				return
			}
			o.Cursor = page.NextCursor
		}
	}
}
