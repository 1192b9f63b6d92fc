package guest

import (
	"errors"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/files"
	"shoal/internal/guest/wire"
)

const (
	// maxWatchers and maxAllWatches bound the watchers of a sandbox, and the directories of all of them.
	maxWatchers   = 32
	maxAllWatches = 32 << 10
	// gather is how long events are collected before they are told: what is written in many pieces is then told of once, and both halves
	// of a rename are there.
	gather = 5 * time.Millisecond
	// lookAgain is how often the path itself is looked at: nobody tells when a directory above it is moved.
	lookAgain = 2 * time.Second
	// calm is how long is waited after a loss before everything is watched anew.
	calm = 250 * time.Millisecond
)

// watchFiles tells what happens in a directory until that goes, or the peer does.
func watchFiles(c *session, q wire.WatchRequest) error {
	name, err := c.srv.absolute("path", q.Path)
	if err != nil {
		return err
	}
	if c.srv.watchers.Add(1) > maxWatchers {
		c.srv.watchers.Add(-1)
		return core.Errorf(core.CodeExhausted, "a sandbox has at most %d watchers at a time", maxWatchers)
	}
	defer c.srv.watchers.Add(-1)
	w := &watcher{c: c, base: name, recursive: q.Recursive}
	defer w.close()
	for {
		err = w.start()
		if !errors.Is(err, errLost) {
			break
		}
		if err := w.pause(calm); err != nil { // so much happens that the beginning is lost: nothing has been promised yet
			return err
		}
	}
	if err != nil {
		return watchError(err, name)
	}
	if err := c.reply(wire.Empty{}); err != nil {
		return err
	}
	if err := w.run(); err != nil {
		return watchError(err, name)
	}
	return broken(c.w.Write(wire.FrameEnd))
}

// watchError says what keeps a directory from being watched.
func watchError(err error, name string) error {
	var b *brokenError
	switch {
	case asBroken(err, &b):
		return err
	case errors.Is(err, unix.ENOTDIR):
		return core.Invalid("path", "only a directory can be watched: %s", quote(name))
	case errors.Is(err, unix.ENAMETOOLONG):
		return core.Errorf(core.CodeUnsupported, "a directory below has a path that is too long to be watched: %s", quote(name))
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EMFILE):
		return core.Errorf(core.CodeExhausted, "the sandbox's kernel has no room for more watches")
	}
	return fileError(err, "path", name)
}

// watcher is one watch operation.
type watcher struct {
	c         *session
	base      string
	recursive bool
	id        os.FileInfo
	tree      *watchTree
	out       []wire.FileEvent
	size      int
}

// start watches everything, from nothing.
func (w *watcher) start() error {
	w.close()
	id, err := os.Stat(w.base)
	if err != nil {
		return err
	}
	w.id = id
	queue, err := openWatchQueue()
	if err != nil {
		return err
	}
	w.tree = &watchTree{
		queue: queue, quota: &watchQuota{srv: w.c.srv}, base: w.base, byWD: map[int32]*watchNode{}, absents: map[absent]bool{},
		tell: func(name string, dir bool) {
			w.tell(wire.FileEvent{Kind: string(core.FileCreated), Path: wire.Bytes(name), Dir: dir})
		},
	}
	return w.tree.open(w.recursive)
}

func (w *watcher) close() {
	if w.tree != nil {
		w.tree.queue.close()
		w.tree.quota.give(w.tree.quota.n)
		w.tree = nil
	}
}

// run tells what happens. It returns nil once the directory is gone.
func (w *watcher) run() error {
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		select {
		case <-w.tree.queue.ready:
			if err := w.pause(gather); err != nil {
				return err
			}
		case <-look.C:
			if now, err := os.Stat(w.base); err != nil || !os.SameFile(now, w.id) {
				return w.gone()
			}
			continue
		case <-w.c.ctx.Done():
			return broken(w.c.ctx.Err())
		}
		err := w.read()
		for errors.Is(err, errLost) {
			err = w.overflow()
		}
		if errors.Is(err, errWatchGone) {
			return w.gone()
		}
		if err == nil {
			err = w.flush()
		}
		if err != nil {
			return err
		}
	}
}

func (w *watcher) pause(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-w.c.ctx.Done():
		return broken(w.c.ctx.Err())
	}
}

// errWatchGone means that the directory is not at its path any more.
var errWatchGone = errors.New("the directory is gone")

// gone tells that it is over.
func (w *watcher) gone() error {
	w.tell(wire.FileEvent{Kind: string(core.FileGone), Path: wire.Bytes(w.base), Dir: true})
	return w.flush()
}

// overflow tells that events were lost, once everything is watched again: what is looked at then and what is told from then on make up
// for it.
func (w *watcher) overflow() error {
	w.out, w.size = nil, 0
	if err := w.pause(calm); err != nil {
		return err
	}
	err := w.start()
	if isGone(err) {
		return errWatchGone
	}
	if err == nil {
		w.tell(wire.FileEvent{Kind: string(core.FileOverflow), Path: wire.Bytes(w.base)})
		err = w.flush()
	}
	return err
}

// read goes through everything that has happened.
func (w *watcher) read() error {
	t := w.tree
	if err := t.await(); err != nil {
		return err
	}
	for len(t.rest) > 0 {
		e := t.rest[0]
		t.rest = t.rest[1:]
		if err := w.event(e); err != nil {
			return err
		}
		if len(t.rest) == 0 {
			t.rest = nil
			if err := t.settle(); err != nil {
				return err
			}
		}
		if w.size > wire.MaxPayload/2 {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// event tells of one event, and keeps the tree right.
func (w *watcher) event(e rawEvent) error {
	t := w.tree
	n := t.byWD[e.wd]
	switch {
	case n == nil:
		return nil // of a directory that was dropped
	case n == t.root && e.has(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_IGNORED|unix.IN_UNMOUNT):
		return errWatchGone
	case e.has(unix.IN_IGNORED):
		t.drop(n)
		return nil
	case e.name == "":
		if n == t.root && e.has(unix.IN_ATTRIB) {
			w.tell(wire.FileEvent{Kind: string(core.FileChanged), Path: wire.Bytes(w.base), Dir: true})
		}
		return nil // the directory above tells of others
	}
	dir := e.has(unix.IN_ISDIR)
	full := join(t.path(n), e.name)
	switch {
	case e.has(unix.IN_CREATE):
		if !n.told(e.name) {
			w.say(core.FileCreated, full, dir)
		}
		return w.entered(n, e.name, dir)
	case e.has(unix.IN_MOVED_TO): // from where nobody watches
		w.say(core.FileCreated, full, dir)
		return w.entered(n, e.name, dir)
	case e.has(unix.IN_DELETE):
		w.say(core.FileRemoved, full, dir)
		t.forget(n, e.name)
	case e.has(unix.IN_MOVED_FROM):
		return w.moved(n, e, full)
	case e.has(unix.IN_MODIFY):
		w.say(core.FileWritten, full, dir)
	case e.has(unix.IN_ATTRIB):
		w.say(core.FileChanged, full, dir)
	}
	return nil
}

// entered watches a directory that is new.
func (w *watcher) entered(n *watchNode, name string, dir bool) error {
	if !dir || !w.recursive {
		return nil
	}
	return w.tree.attach(n, name, true)
}

// moved tells of a rename, if both sides of it are seen.
func (w *watcher) moved(n *watchNode, e rawEvent, full string) error {
	t := w.tree
	i, err := w.otherHalf(e)
	if err != nil {
		return err
	}
	dir := e.has(unix.IN_ISDIR)
	var to *watchNode
	if i >= 0 {
		to = t.byWD[t.rest[i].wd]
	}
	if to == nil {
		delete(n.seen, e.name)
		t.forget(n, e.name)
		if !files.Temporary(e.name) {
			w.tell(wire.FileEvent{Kind: string(core.FileRenamed), Path: wire.Bytes(full), Dir: dir})
		}
		return nil
	}
	newName := t.rest[i].name
	if t.exchanged(n, e.name, to, newName) {
		return errLost
	}
	t.rest[i].mask, t.rest[i].wd = 0, -1
	dest := join(t.path(to), newName)
	if files.Temporary(e.name) {
		if strings.HasPrefix(e.name, files.TempNew) {
			w.say(core.FileCreated, dest, dir)
		}
		w.say(core.FileWritten, dest, dir)
		return nil
	}
	w.tell(wire.FileEvent{Kind: string(core.FileRenamed), Path: wire.Bytes(full), To: wire.Bytes(dest), Dir: dir})
	if !dir {
		delete(n.seen, e.name)
		return nil
	}
	if !w.recursive {
		return nil
	}
	return t.move(n, e.name, to, newName)
}

// otherHalf finds the second event of a rename, -1 if there is none. It comes right behind the first.
func (w *watcher) otherHalf(e rawEvent) (int, error) {
	t := w.tree
	for try := 0; ; try++ {
		for i := range t.rest {
			if t.rest[i].cookie == e.cookie && t.rest[i].has(unix.IN_MOVED_TO) {
				return i, nil
			}
		}
		if len(t.rest) > 0 || try > 0 {
			return -1, nil
		}
		if err := w.pause(gather); err != nil {
			return 0, err
		}
		if err := t.await(); err != nil {
			return 0, err
		}
	}
}

// say tells of something that happened to a file, unless that is being written by the host.
func (w *watcher) say(kind core.FileEventKind, name string, dir bool) {
	if !files.Temporary(path.Base(name)) {
		w.tell(wire.FileEvent{Kind: string(kind), Path: wire.Bytes(name), Dir: dir})
	}
}

// tell puts an event behind those that are to be sent. What happens twice in a row to the same file is told once.
func (w *watcher) tell(e wire.FileEvent) {
	if n := len(w.out); n > 0 && w.out[n-1] == e && (e.Kind == string(core.FileWritten) || e.Kind == string(core.FileChanged)) {
		return
	}
	w.out = append(w.out, e)
	w.size += (len(e.Path)+len(e.To))*jsonSwell + eventCost
}

// flush sends what there is to tell, in frames that are small enough.
func (w *watcher) flush() error {
	for len(w.out) > 0 {
		n, size := 0, 0
		for n < len(w.out) && (n == 0 || size < wire.MaxPayload/2) {
			size += (len(w.out[n].Path)+len(w.out[n].To))*jsonSwell + eventCost
			n++
		}
		if err := w.c.send(wire.FrameChanges, wire.FileEvents{Events: w.out[:n]}); err != nil {
			return broken(err)
		}
		w.out = w.out[n:]
	}
	w.out, w.size = nil, 0
	return nil
}
