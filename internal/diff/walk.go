package diff

import (
	"errors"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/files"
	"shoal/internal/files/hostfiles"
)

// entry looks at what is at one path, and below it.
func (c *comparer) entry(name string, p pair, depth int) error {
	if err := c.canceled(); err != nil || c.stop {
		return err
	}
	for i := range p {
		if p[i] != nil && p[i].Type == core.FileRegular && files.Temporary(p[i].Name) {
			p[i] = nil // it is on its way and not there yet
		}
	}
	if p == (pair{}) {
		return nil
	}
	if c.visited++; c.visited > maxVisited {
		c.note(name, "too many files: nothing from here on was looked at")
		c.stop = true
		return nil
	}
	switch {
	case p[before] == nil:
		return c.oneSide(name, p, core.DiffAdded, depth)
	case p[after] == nil:
		return c.oneSide(name, p, core.DiffRemoved, depth)
	}
	return c.bothSides(name, p, depth)
}

// told reports whether a page before has told of a path, and of all that is below it.
func (c *comparer) told(name string) (this, below bool) {
	if c.first {
		return false, false
	}
	this = order(name) <= c.after
	return this, this && !strings.HasPrefix(c.q.After+"/", strings.TrimSuffix(name, "/")+"/")
}

// oneSide tells of what is on one side only.
func (c *comparer) oneSide(name string, p pair, change core.DiffChange, depth int) error {
	this, below := c.told(name)
	if below || c.own(name, p) {
		return nil
	}
	dir := p[before] != nil && p[before].Type == core.FileDirectory || p[after] != nil && p[after].Type == core.FileDirectory
	at := -1
	if !this {
		f := core.FileDiff{Path: name, Change: change, Before: c.state(name, p, before), After: c.state(name, p, after)}
		if at = c.add(f); at >= 0 && !dir {
			c.addHunks(&c.out.Files[at], p)
		}
	} else if dir && name == c.q.After && !c.q.Expand && c.below == nil {
		return nil // it was told as a whole
	}
	if !dir {
		c.look(name, p)
		return nil
	}
	return c.whole(name, p, at, depth)
}

// whole goes through a directory that is on one side only, whose place on the page is at.
func (c *comparer) whole(name string, p pair, at, depth int) error {
	if c.below != nil || c.q.Expand {
		return c.list(name, p, depth)
	}
	c.below = &core.DiffCount{}
	err := c.list(name, p, depth)
	if at >= 0 {
		c.out.Files[at].Below = c.below
	}
	c.below = nil
	return err
}

// bothSides tells what is different of what is on both sides.
func (c *comparer) bothSides(name string, p pair, depth int) error {
	this, below := c.told(name)
	if below || c.own(name, p) {
		return nil
	}
	if p[before].Kind != p[after].Kind {
		return c.otherType(name, p, this, depth)
	}
	dir := p[after].Type == core.FileDirectory
	if !this && !c.same(p) {
		aspects, unsure, err := c.aspects(name, p)
		if err != nil {
			return err
		}
		if len(aspects) > 0 || unsure {
			f := core.FileDiff{
				Path: name, Change: core.DiffChanged, Aspects: aspects, Unsure: unsure,
				Before: c.state(name, p, before), After: c.state(name, p, after),
			}
			if at := c.add(f); at >= 0 && hasContent(aspects) {
				c.addHunks(&c.out.Files[at], p)
			}
		}
		if !dir && (unsure || hasContent(aspects)) {
			c.look(name, p)
		}
	}
	if dir {
		return c.list(name, p, depth)
	}
	return nil
}

// otherType tells of a file in whose place is one of another type.
func (c *comparer) otherType(name string, p pair, this bool, depth int) error {
	at := -1
	if !this {
		at = c.add(core.FileDiff{
			Path: name, Change: core.DiffChanged, Aspects: []core.DiffAspect{core.AspectType},
			Before: c.state(name, p, before), After: c.state(name, p, after),
		})
	} else if name == c.q.After && !c.q.Expand && c.below == nil {
		return nil
	}
	for i := range p {
		var one pair
		one[i] = p[i]
		if p[i].Type == core.FileDirectory {
			return c.whole(name, one, at, depth) // only one of the two is one
		}
	}
	c.look(name, p)
	return nil
}

// list goes through the entries of a directory, of those sides on which it is one.
func (c *comparer) list(name string, p pair, depth int) error {
	if depth >= maxDepth {
		c.note(name, "directories nest too deep: what is in it was not looked at")
		return nil
	}
	// Both sides at a time: most of it is waiting for the disk, or reading inodes that nobody has read yet.
	var (
		lists [2][]hostfiles.Entry
		errs  [2]error
		both  sync.WaitGroup
	)
	for i := range p {
		if p[i] != nil && p[i].Type == core.FileDirectory {
			both.Go(func() {
				lists[i], errs[i] = c.sides[i].scan.List(name, min(maxNames, (maxHeld-c.sides[i].held)/entrySize))
			})
		}
	}
	both.Wait()
	for i, err := range errs {
		if err != nil {
			if depth == 0 {
				return files.Failure(err, "path", name)
			}
			c.note(name, unread(err)+": what is in it was not looked at")
			return nil
		}
		held := len(lists[i]) * entrySize // with its name
		c.sides[i].held += held
		defer func() { c.sides[i].held -= held }()
	}
	return c.merge(strings.TrimSuffix(name, "/")+"/", lists, depth+1)
}

// merge goes through two sorted lists together.
func (c *comparer) merge(dir string, lists [2][]hostfiles.Entry, depth int) error {
	was, now := lists[before], lists[after]
	for (len(was) > 0 || len(now) > 0) && !c.stop {
		var p pair
		switch {
		case len(now) == 0 || len(was) > 0 && was[0].Name < now[0].Name:
			p[before], was = &was[0], was[1:]
		case len(was) == 0 || now[0].Name < was[0].Name:
			p[after], now = &now[0], now[1:]
		default:
			p[before], p[after] = &was[0], &now[0]
			was, now = was[1:], now[1:]
		}
		name := ""
		for _, e := range p {
			if e != nil {
				name = dir + e.Name
			}
		}
		if len(name) > maxPath {
			c.note(name[:maxPath], "its path is too long: it was not looked at")
			continue
		}
		if err := c.entry(name, p, depth); err != nil {
			return err
		}
	}
	return nil
}

// unread says why something could not be looked at.
func unread(err error) string {
	switch {
	case errors.Is(err, hostfiles.ErrTooMany):
		return "it has too many names"
	case errors.Is(err, unix.ENAMETOOLONG):
		return "its path is too long"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR), errors.Is(err, errChanged):
		return "it changed while it was read"
	}
	return "it can't be read"
}
