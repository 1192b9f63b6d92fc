package diff

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"

	"shoal/internal/core"
	"shoal/internal/diff/credential"
	"shoal/internal/diff/software"
	"shoal/internal/files/hostfiles"
)

const (
	// maxText is how much of a file's beginning is looked through for credentials.
	maxText = 1 << 20
	// maxPrograms is how many programs are looked into, and minProgram the size of the smallest that may be written in Go.
	maxPrograms = 2000
	minProgram  = 512 << 10
	anyExecute  = 0o111
)

// packageKey names a package in a place.
type packageKey struct {
	manager     core.PackageManager
	place, name string
}

// look looks into a file whose content is not the same, or that is on one side only, for packages and credentials.
func (c *comparer) look(name string, p pair) {
	if !c.first {
		return
	}
	for i, e := range p {
		if e != nil && e.Type == core.FileRegular {
			c.lookForPackages(name, e, i)
		}
	}
	if e := p[after]; e != nil && e.Type == core.FileRegular && e.Size > 0 {
		c.lookForCredentials(name, p)
	}
}

// lookForPackages takes in what a file says is installed on its side.
func (c *comparer) lookForPackages(name string, e *hostfiles.Entry, i int) {
	m, manifest := software.Find(name)
	program := !manifest && e.Mode&anyExecute != 0 && e.Size >= minProgram && e.Size <= software.MaxProgram
	if !manifest && !program {
		return
	}
	if program {
		if c.found.programs++; c.found.programs > maxPrograms {
			if c.found.programs == maxPrograms+1 {
				c.note(name, "too many programs: what this one and later ones were built of was not looked at")
			}
			return
		}
	}
	f, err := c.sides[i].scan.Open(name)
	if err != nil {
		c.note(name, unread(err)+": what it says of packages is not known")
		return
	}
	defer func() { _ = f.Close() }()
	if manifest {
		for _, pkg := range m.Parse(f) {
			c.found.add(packageKey{m.Manager, m.Place, pkg.Name}, pkg.Version, i)
		}
		return
	}
	magic := make([]byte, len(software.Magic))
	if readAt(f, magic, 0) != nil || string(magic) != software.Magic {
		return
	}
	if pkg, ok := software.Program(f); ok {
		c.found.add(packageKey{core.PackageGo, name, pkg.Name}, pkg.Version, i)
	}
}

// add takes in that a package is there on one side.
func (f *found) add(key packageKey, version string, i int) {
	d := f.packages[key]
	if d == nil {
		if len(f.packages) >= maxPackages {
			return
		}
		d = &core.PackageDiff{Manager: key.manager, Name: key.name, Path: key.place}
		f.packages[key] = d
	}
	version = cmp.Or(version, "unknown")
	if i == before {
		d.Before = version
	} else {
		d.After = version
	}
}

// maxPackages bounds how many packages are held while both sides are read.
const maxPackages = 300_000

// tell puts what was found into the answer, in order.
func (f *found) tell(out *core.TreeDiff) {
	out.Credentials, out.MoreCredentials = f.credentials, f.more
	for _, d := range f.packages {
		switch {
		case d.Before == d.After:
			continue
		case d.Before == "":
			d.Change = core.DiffAdded
		case d.After == "":
			d.Change = core.DiffRemoved
		default:
			d.Change = core.DiffChanged
		}
		out.Packages = append(out.Packages, *d)
	}
	slices.SortFunc(out.Packages, func(a, b core.PackageDiff) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Name, b.Name))
	})
	if n := len(out.Packages); n > core.MaxDiffPackages {
		out.Packages, out.MorePackages = out.Packages[:core.MaxDiffPackages], int64(n-core.MaxDiffPackages)
	}
}

// lookForCredentials tells where there is likely a credential that was not there before.
func (c *comparer) lookForCredentials(name string, p pair) {
	now, err := c.text(name, p, after)
	if err != nil {
		reason := unread(err)
		if errors.Is(err, errEnough) {
			reason = "too much to read"
		}
		c.note(name, reason+": it was not searched for credentials")
		return
	}
	list := credential.Find(name, now)
	if len(list) > 0 && p[before] != nil && p[before].Type == core.FileRegular {
		// What can't be read had none, as far as anybody knows.
		if was, err := c.text(name, p, before); err == nil {
			list = credential.New(credential.Find(name, was), list)
		}
	}
	c.found.credential(name, list)
}

// text returns the beginning of a regular file; nothing of one that is not text from the start.
func (c *comparer) text(name string, p pair, i int) ([]byte, error) {
	size := min(p[i].Size, maxText)
	if c.unscanned < size {
		return nil, errEnough
	}
	f, err := c.sides[i].scan.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	const first = 8 << 10
	text := make([]byte, min(size, first))
	n, err := io.ReadFull(f, text)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	text = text[:n]
	c.unscanned -= int64(n)
	if size <= first || bytes.IndexByte(text, 0) >= 0 {
		return text, nil
	}
	rest, err := io.ReadAll(io.LimitReader(f, size-int64(n)))
	c.unscanned -= int64(len(rest))
	return slices.Concat(text, rest), err
}
