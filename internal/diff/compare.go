package diff

import (
	"context"
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/diff/credential"
	"shoal/internal/files"
	"shoal/internal/files/hostfiles"
)

// The bounds of a comparison.
const (
	// maxDepth is how deep directories may nest, maxPath how long a path may be.
	maxDepth = 1024
	maxPath  = 4095
	// maxNames is how many names a directory may have, maxVisited how many entries are looked at in all.
	maxNames   = 250_000
	maxVisited = 3_000_000
	// maxHeld bounds what is held of a tree's directories at a time, from the top to where the walk is.
	maxHeld   = 48 << 20
	entrySize = 256
	// maxRead bounds what is read of files to compare them, maxScanned what is read to find credentials and packages.
	maxRead    = 16 << 30
	maxScanned = 512 << 20
	// maxPageBytes bounds what the paths and hunks of a page come to.
	maxPageBytes = 3 << 20
)

// The two sides.
const (
	before = 0
	after  = 1
)

// Compare tells what is different in the tree now from the tree that was before. It is invalid if the query can't be answered, and
// not_found if the path is on neither side.
func Compare(ctx context.Context, was, now *hostfiles.Tree, q core.TreeDiffQuery) (core.TreeDiff, error) {
	if err := check(&q); err != nil {
		return core.TreeDiff{}, err
	}
	c := &comparer{ctx: ctx, q: q, first: q.After == "", after: order(q.After), unread: maxRead, unscanned: maxScanned, found: newFound()}
	for i, t := range []*hostfiles.Tree{was, now} {
		scan, err := t.Scan()
		if err != nil {
			return core.TreeDiff{}, err
		}
		defer func() { _ = scan.Close() }()
		c.sides[i].scan = scan
	}
	if err := c.top(); err != nil {
		return core.TreeDiff{}, err
	}
	c.found.tell(&c.out)
	return c.out, nil
}

func check(q *core.TreeDiffQuery) error {
	switch {
	case !strings.HasPrefix(q.Path, "/"):
		return core.Invalid("path", "a path must be absolute, it begins with a slash: %s", files.Quote(q.Path))
	case strings.ContainsRune(q.Path, 0), len(q.Path) > maxPath:
		return core.Invalid("path", "a path has at most %d bytes and no zero byte", maxPath)
	case q.Limit < 1 || q.Limit > core.MaxDiffFiles:
		return core.Invalid("limit", "a limit is 1 to %d", core.MaxDiffFiles)
	}
	q.Path = path.Clean(q.Path)
	if q.After != "" && q.After != q.Path && !strings.HasPrefix(q.After, strings.TrimSuffix(q.Path, "/")+"/") {
		return core.Invalid("cursor", "the cursor is not one of a page of this path")
	}
	return nil
}

// order makes paths sort as a walk goes: by the bytes of names, each directory right before what is in it.
func order(p string) string { return strings.ReplaceAll(p, "/", "\x00") }

// side is one of the two trees.
type side struct {
	scan *hostfiles.Scan
	held int
}

// comparer makes one page. It is for one goroutine.
type comparer struct {
	ctx   context.Context // It lives for one call of Compare.
	q     core.TreeDiffQuery
	sides [2]side
	// first says that this is the first page, which counts everything; after is the order of what the page before ended with.
	first bool
	after string
	out   core.TreeDiff
	// size is what the page comes to, hunks the part of it that are hunks.
	size, hunks int
	// full says that nothing more goes on the page, stop that the walk is over.
	full, stop bool
	visited    int
	// unread and unscanned are what may still be read.
	unread, unscanned int64
	buffers           [2][]byte
	found             *found
	// below counts what is in the directory that is told of as a whole; nil where each file is told.
	below *core.DiffCount
}

// pair is what is at one path on both sides; nil where nothing is.
type pair [2]*hostfiles.Entry

// top looks at where the query points, and then goes on below.
func (c *comparer) top() error {
	var p pair
	for i := range c.sides {
		e, err := c.sides[i].scan.Stat(c.q.Path)
		switch {
		case err == nil:
			p[i] = &e
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		case errors.Is(err, unix.ELOOP):
			return core.Invalid("path", "a part of the path is a symbolic link: name where it leads: %s", files.Quote(c.q.Path))
		default:
			return files.Failure(err, "path", c.q.Path)
		}
	}
	if p == (pair{}) {
		return &core.Error{Code: core.CodeNotFound, Field: "path", Message: "no such file on either side: " + files.Quote(c.q.Path)}
	}
	return c.entry(c.q.Path, p, 0)
}

// note tells of what could not be looked at.
func (c *comparer) note(name, reason string) {
	if !c.first {
		return // The first page has told.
	}
	if len(c.out.Notes) < core.MaxDiffNotes {
		c.out.Notes = append(c.out.Notes, core.DiffNote{Path: name, Reason: reason})
		return
	}
	c.out.MoreNotes++
}

// canceled says so when the caller has gone.
func (c *comparer) canceled() error {
	err := c.ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return core.Wrap(core.CodeTimeout, err, "comparing took too long: ask for a directory alone, by path")
	}
	if err != nil {
		return core.Wrap(core.CodeCanceled, err, "the call was canceled")
	}
	return nil
}

// state describes one side of a pair; nil if nothing is there.
func (c *comparer) state(name string, p pair, i int) *core.FileState {
	e := p[i]
	if e == nil {
		return nil
	}
	s := &core.FileState{Type: e.Type, Size: e.Size, Mode: e.Mode, UID: e.UID, GID: e.GID}
	if e.Type == core.FileSymlink {
		if target, err := c.sides[i].scan.Readlink(name); err == nil {
			s.Target = target
		}
	}
	return s
}

// add counts a file that is not the same, and puts it on the page. It returns where it is there; -1 if it is not.
func (c *comparer) add(f core.FileDiff) int {
	var size int64
	count := &c.out.Summary.Changed
	switch f.Change {
	case core.DiffAdded:
		count = &c.out.Summary.Added
	case core.DiffRemoved:
		count = &c.out.Summary.Removed
	case core.DiffChanged:
	}
	state := f.After
	if state == nil {
		state = f.Before
	}
	if state.Type == core.FileRegular {
		size = state.Size
	}
	count.Files++
	count.Bytes += size
	if c.below != nil {
		c.below.Files++
		c.below.Bytes += size
		return -1
	}
	if c.full {
		return -1
	}
	bytes := len(f.Path)
	for _, s := range []*core.FileState{f.Before, f.After} {
		if s != nil {
			bytes += len(s.Target)
		}
	}
	if len(c.out.Files) >= c.q.Limit || len(c.out.Files) > 0 && c.size+bytes > maxPageBytes {
		c.full, c.out.More = true, true
		c.stop = !c.first
		return -1
	}
	c.size += bytes
	c.out.Files = append(c.out.Files, f)
	return len(c.out.Files) - 1
}

// found is what is found beside files.
type found struct {
	packages    map[packageKey]*core.PackageDiff
	credentials []core.CredentialFinding
	more        int64
	programs    int
}

func newFound() *found { return &found{packages: map[packageKey]*core.PackageDiff{}} }

// credential adds what is likely a credential.
func (f *found) credential(name string, list []credential.Finding) {
	for _, x := range list {
		if len(f.credentials) >= core.MaxDiffCredentials {
			f.more++
			continue
		}
		f.credentials = append(f.credentials, core.CredentialFinding{Kind: x.Kind, Path: name, Line: x.Line})
	}
}
