package guest

import (
	"errors"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

const (
	// maxWatches bounds the directories of one watcher, maxScan the entries that are told of one which was filled before it was watched.
	maxWatches = 8192
	maxScan    = 10_000
	// maxTold bounds, in bytes, what is told of all of them together, and maxRest how many events wait for that to be done.
	maxTold = 4 << 20
	maxRest = 32 << 10
)

// watchNode is a directory that is being watched.
type watchNode struct {
	wd       int32
	parent   *watchNode
	name     string
	children map[string]*watchNode
	// seen are the names that were told of because they were there when the directory began to be watched. What events of the time
	// before say of their creation is no news.
	seen map[string]bool
}

// absent names a directory that was to be watched and was not at its place.
type absent struct {
	parent *watchNode
	name   string
}

// errLost means that what the tree looks like is not known any more.
var errLost = errors.New("events were lost")

// watchTree knows which directory is where, as far as the events that were read so far tell. Directories are found by their paths,
// which are those of now, while events tell of what was: so a directory is only taken for the one of an event if no event that is
// still to come speaks of its path.
type watchTree struct {
	queue *watchQueue
	quota *watchQuota
	root  *watchNode
	base  string
	byWD  map[int32]*watchNode
	// absents are tried again when directories have moved, and when all events have been read.
	absents map[absent]bool
	// rest are the events that have been taken and not read.
	rest []rawEvent
	// fresh are the directories that have seen names, until all events have been read.
	fresh []*watchNode
	// toldBytes is what was told of what they held.
	toldBytes int
	// tell is told of what is found in directories that came with content.
	tell func(path string, dir bool)
}

func (t *watchTree) path(n *watchNode) string {
	if n.parent == nil {
		return t.base
	}
	return join(t.path(n.parent), n.name)
}

// open watches the directory itself, and what is below it if that is wanted. A link to the directory is followed.
func (t *watchTree) open(recursive bool) error {
	if err := t.quota.take(); err != nil {
		return err
	}
	wd, err := t.queue.add(t.base, 0)
	if err != nil {
		t.quota.give(1)
		return err
	}
	t.root = &watchNode{wd: wd}
	t.byWD[wd] = t.root
	if !recursive {
		return nil
	}
	entries, err := entriesOf(t.base+"/.", false)
	if err != nil {
		return err
	}
	return t.fill(t.root, entries, false)
}

// await takes what has happened until now.
func (t *watchTree) await() error {
	var lost bool
	if t.rest, lost = t.queue.take(t.rest); lost || len(t.rest) > maxRest {
		return errLost
	}
	return nil
}

// disputed reports whether an event that is still to come is about a path or a directory above it.
func (t *watchTree) disputed(parent *watchNode, name string) bool {
	for n := parent; ; n = n.parent {
		for i := range t.rest {
			if e := &t.rest[i]; e.wd == n.wd && e.name == name && e.has(unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_FROM|unix.IN_MOVED_TO) {
				return true
			}
		}
		if n.parent == nil {
			return false
		}
		name = n.name
	}
}

// attach watches a directory and everything below it. loud says that its content is told of.
func (t *watchTree) attach(parent *watchNode, name string, loud bool) error {
	if parent.children[name] != nil {
		return nil
	}
	n, entries, err := t.place(parent, name, loud)
	if err != nil || n == nil {
		return err
	}
	return t.fill(n, entries, loud)
}

// fill watches the directories that are in one, and tells of what is in it if that is loud.
func (t *watchTree) fill(n *watchNode, entries []os.DirEntry, loud bool) error {
	dir := t.path(n)
	if loud {
		n.seen = map[string]bool{}
		t.fresh = append(t.fresh, n)
		for _, e := range entries {
			if t.toldBytes += len(dir) + 1 + len(e.Name()) + eventCost; t.toldBytes > maxTold {
				return errLost
			}
			n.seen[e.Name()] = true
			t.tell(join(dir, e.Name()), e.IsDir())
		}
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := t.attach(n, e.Name(), loud); err != nil {
				return err
			}
		}
	}
	return nil
}

// place watches one directory and reads what is in it. It returns no node if the directory is not, or not for certain, at its place.
func (t *watchTree) place(parent *watchNode, name string, loud bool) (*watchNode, []os.DirEntry, error) {
	n, err := t.watch(parent, name)
	if err != nil || n == nil {
		return nil, nil, err
	}
	entries, err := entriesOf(t.path(n), loud)
	gone := isGone(err)
	if err != nil && !gone {
		return nil, nil, err
	}
	if err := t.await(); err != nil {
		return nil, nil, err
	}
	if gone || t.disputed(parent, name) {
		t.drop(n)
		return nil, nil, t.miss(parent, name)
	}
	return n, entries, nil
}

// watch watches one directory.
func (t *watchTree) watch(parent *watchNode, name string) (*watchNode, error) {
	if err := t.await(); err != nil {
		return nil, err
	}
	if t.disputed(parent, name) {
		return nil, t.miss(parent, name)
	}
	if err := t.quota.take(); err != nil {
		return nil, err
	}
	wd, err := t.queue.add(join(t.path(parent), name), unix.IN_DONT_FOLLOW)
	if err == nil && t.byWD[wd] == nil {
		delete(t.absents, absent{parent, name})
		n := &watchNode{wd: wd, parent: parent, name: name}
		if parent.children == nil {
			parent.children = map[string]*watchNode{}
		}
		parent.children[name], t.byWD[wd] = n, n
		return n, nil
	}
	t.quota.give(1)
	if isGone(err) {
		return nil, t.miss(parent, name)
	}
	if err != nil {
		return nil, err
	}
	// It is known at another place: so it has been moved, and the event of that comes. Then it is watched where it is.
	if err := t.await(); err != nil {
		return nil, err
	}
	if known := t.byWD[wd]; t.disputed(parent, name) || known.parent != nil && t.disputed(known.parent, known.name) {
		return nil, t.miss(parent, name)
	}
	return nil, errLost
}

// miss remembers a directory that was not at its place.
func (t *watchTree) miss(parent *watchNode, name string) error {
	t.absents[absent{parent, name}] = true
	if len(t.absents) > maxWatches {
		return errLost
	}
	return nil
}

// retry looks again for directories that were not at their places.
func (t *watchTree) retry() error {
	for _, a := range keysOf(t.absents) {
		if !t.absents[a] {
			continue
		}
		if err := t.attach(a.parent, a.name, true); err != nil {
			return err
		}
	}
	return nil
}

// move notes that a directory was renamed.
func (t *watchTree) move(from *watchNode, name string, to *watchNode, newName string) error {
	if old := to.children[newName]; old != nil {
		t.drop(old)
	}
	delete(t.absents, absent{to, newName})
	n := from.children[name]
	if n == nil {
		delete(t.absents, absent{from, name})
		return t.attach(to, newName, true)
	}
	delete(from.children, name)
	delete(from.seen, name)
	n.parent, n.name = to, newName
	if to.children == nil {
		to.children = map[string]*watchNode{}
	}
	to.children[newName] = n
	return t.retry()
}

// exchanged reports whether a rename was one half of two files that took each other's places: then both are there.
func (t *watchTree) exchanged(from *watchNode, name string, to *watchNode, newName string) bool {
	cookie := uint32(0)
	back := slices.ContainsFunc(t.rest, func(e rawEvent) bool {
		if e.has(unix.IN_MOVED_FROM) && e.wd == to.wd && e.name == newName {
			cookie = e.cookie
		}
		return e.has(unix.IN_MOVED_TO) && e.wd == from.wd && e.name == name && e.cookie == cookie
	})
	if !back {
		return false
	}
	_, one := os.Lstat(join(t.path(from), name))
	_, two := os.Lstat(join(t.path(to), newName))
	return one == nil && two == nil
}

// forget notes that a name is gone.
func (t *watchTree) forget(parent *watchNode, name string) {
	delete(t.absents, absent{parent, name})
	delete(parent.seen, name)
	if n := parent.children[name]; n != nil {
		t.drop(n)
	}
}

// drop stops watching a directory and everything below it.
func (t *watchTree) drop(n *watchNode) {
	for _, c := range n.children {
		t.drop(c)
	}
	t.queue.remove(n.wd)
	t.quota.give(1)
	delete(t.byWD, n.wd)
	if n.parent != nil {
		delete(n.parent.children, n.name)
	}
	for a := range t.absents {
		if a.parent == n {
			delete(t.absents, a)
		}
	}
}

// settle is called when all events have been read.
func (t *watchTree) settle() error {
	for _, n := range t.fresh {
		n.seen = nil
	}
	t.fresh, t.toldBytes = nil, 0
	return t.retry()
}

// told reports whether the creation of a name was told of already, because it was there when its directory began to be watched.
func (n *watchNode) told(name string) bool {
	told := n.seen[name]
	delete(n.seen, name)
	return told
}

// entriesOf reads a directory: everything, if it is no more than maxScan entries, or only the directories in it.
func entriesOf(name string, all bool) (list []os.DirEntry, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for {
		page, err := f.ReadDir(1024)
		for _, e := range page {
			if all || e.IsDir() {
				list = append(list, e)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, err
		case all && len(list) > maxScan:
			return nil, errLost
		case len(list) > maxWatches:
			return list, nil // which are too many to be watched
		}
	}
}

// isGone reports whether an error means that there is no such directory, or something else in its place.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func keysOf(m map[absent]bool) []absent {
	list := make([]absent, 0, len(m))
	for a := range m {
		list = append(list, a)
	}
	return slices.Clip(list)
}

// watchQuota counts the directories that all watchers of a sandbox watch.
type watchQuota struct {
	srv *Server
	n   int
}

func (q *watchQuota) take() error {
	if q.n >= maxWatches {
		return core.Errorf(core.CodeExhausted, "more than %d directories can't be watched together: watch a part of the tree", maxWatches)
	}
	if q.srv.watched.Add(1) > maxAllWatches {
		q.srv.watched.Add(-1)
		return core.Errorf(core.CodeExhausted, "%d directories of this sandbox are being watched already, by all watchers together", maxAllWatches)
	}
	q.n++
	return nil
}

func (q *watchQuota) give(n int) {
	q.n -= n
	q.srv.watched.Add(-int64(n))
}
