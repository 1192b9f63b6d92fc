package control

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/httpserve"
	"shoal/internal/store"
)

const (
	// maxKeptEvents bounds the bytes of what one kept watch has to tell, maxKeptAll those of all; eventCost is what an event takes
	// without its names.
	maxKeptEvents = 256 << 10
	maxKeptAll    = 64 << 20
	eventCost     = 64
	// unasked is for how long a kept watch goes on though nobody asks for its events.
	unasked = time.Hour
	// maxWatches bounds the kept watches of a sandbox, those that have ended with them. Its guest agent has a bound too, but that is a guest's.
	maxWatches = 64
	// lookForUse is how often a watch that tells nothing is looked at.
	lookForUse = time.Minute
)

// fileWatches keeps what happens to files for callers who come back for it. It is process-only: a restart of the server ends them all, and
// who asks for one then hears that there is none.
type fileWatches struct {
	*deps
	*finder

	mu   sync.Mutex
	kept map[string]*keptWatch
	size int
}

// keptWatch is one watch. All but its first fields are under fileWatches.mu.
type keptWatch struct {
	id      string
	sandbox core.SandboxID
	path    string
	cancel  context.CancelFunc

	events []core.FileEvent
	size   int
	asked  time.Time
	// err is why it has ended.
	err error
}

// KeepWatch begins to keep what happens to files, and returns the watch's id.
func (w *fileWatches) KeepWatch(ctx context.Context, p Principal, ref, path string, opts core.WatchOptions) (string, error) { //nolint:contextcheck // as below
	if err := p.may("KeepWatch"); err != nil {
		return "", err
	}
	sb, g, err := w.running(ctx, p, ref)
	if err == nil {
		err = w.activity.touch(ctx, sb.ID)
	}
	if err != nil {
		return "", err
	}
	k := &keptWatch{id: core.NewID(), sandbox: sb.ID, path: path, asked: w.clock.Now()}
	if err := w.enter(k); err != nil {
		return "", err
	}
	// It outlives the call, but for its beginning.
	life, cancel := context.WithCancel(w.tasks.stop)
	begun := context.AfterFunc(ctx, cancel)
	watch, err := g.Watch(life, path, opts) //nolint:contextcheck // The watch outlives the call.
	if !begun() || err != nil {
		cancel()
		w.leave(k)
		if err == nil {
			_ = watch.Close()
			err = core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
		}
		return "", err
	}
	w.mu.Lock()
	k.cancel = cancel
	w.mu.Unlock()
	w.tasks.run(func(context.Context) {
		defer cancel()
		err := httpserve.FollowFiles(life, watch, lookForUse, func(list []core.FileEvent) error { return w.keep(k, list) }, func() error { return w.keep(k, nil) })
		w.end(k, err, w.gone(k.sandbox))
	})
	return k.id, nil
}

// enter makes room for a watch among those of its sandbox: one that has ended makes way, the one first that was not asked for longest.
func (w *fileWatches) enter(k *keptWatch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep()
	var ended *keptWatch
	n := 0
	for _, other := range w.kept {
		if other.sandbox != k.sandbox {
			continue
		}
		n++
		if other.err != nil && (ended == nil || other.asked.Before(ended.asked)) {
			ended = other
		}
	}
	if n >= maxWatches && ended == nil {
		return core.Errorf(core.CodeExhausted, "a sandbox has at most %d watches that are kept: end those that are not needed", maxWatches)
	}
	if n >= maxWatches {
		w.forget(ended)
	}
	w.kept[k.id] = k
	return nil
}

// leave takes out a watch that did not begin.
func (w *fileWatches) leave(k *keptWatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(k)
}

// gone reports whether nobody can ask for a sandbox's watches any more.
func (w *fileWatches) gone(id core.SandboxID) bool {
	var sb core.Sandbox
	err := w.store.View(w.tasks.stop, func(r store.Reader) (err error) {
		sb, err = r.SandboxByID(id)
		return err
	})
	return core.IsCode(err, core.CodeNotFound) || err == nil && sb.State == core.StateDeleted
}

// errUnasked ends a watch that nobody asks for.
var errUnasked = errors.New("nobody asks for the events")

// errWatchOver ends a watch that was forgotten.
var errWatchOver = errors.New("the watch was ended")

// keep adds events to those that are asked for. What there is no room for is made up for by saying so.
func (w *fileWatches) keep(k *keptWatch, list []core.FileEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept[k.id] != k {
		return errWatchOver // what it kept would be kept for nobody, and never be given back
	}
	if w.clock.Now().Sub(k.asked) > unasked {
		return errUnasked
	}
	for _, e := range list {
		size := costOf(e)
		if k.size+size > maxKeptEvents {
			w.overflow(k)
			continue
		}
		if w.size+size > maxKeptAll {
			// Who keeps most makes way: nobody loses because of others who don't come for theirs.
			most := k
			for _, other := range w.kept {
				if other.size > most.size {
					most = other
				}
			}
			w.overflow(most)
			if most == k {
				continue
			}
		}
		w.add(k, e, size)
	}
	return nil
}

// overflow drops what is kept and says so. It is under mu.
func (w *fileWatches) overflow(k *keptWatch) {
	w.empty(k)
	w.add(k, core.FileEvent{Kind: core.FileOverflow, Path: k.path}, eventCost+len(k.path))
}

func (w *fileWatches) add(k *keptWatch, e core.FileEvent, size int) {
	k.events = append(k.events, e)
	k.size += size
	w.size += size
}

// empty drops what is kept. It is under mu.
func (w *fileWatches) empty(k *keptWatch) {
	w.size -= k.size
	k.events, k.size = nil, 0
}

// end notes why a watch has ended. One that nobody asked for, or can ask for, is forgotten at once.
func (w *fileWatches) end(k *keptWatch, err error, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		err = io.EOF
	}
	k.err = err
	if gone || errors.Is(err, errUnasked) || w.clock.Now().Sub(k.asked) > unasked {
		w.forget(k)
	}
}

// sweep forgets what has ended and was not asked for why. It is under mu.
func (w *fileWatches) sweep() {
	for _, k := range w.kept {
		if k.err != nil && w.clock.Now().Sub(k.asked) > unasked {
			w.forget(k)
		}
	}
}

// forget is under mu.
func (w *fileWatches) forget(k *keptWatch) {
	w.empty(k)
	if w.kept[k.id] == k {
		delete(w.kept, k.id)
	}
}

// find returns a kept watch of a sandbox of the caller's.
func (w *fileWatches) find(ctx context.Context, p Principal, ref, id string) (*keptWatch, error) {
	sb, err := w.used(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.kept[id]
	if k == nil || k.sandbox != sb.ID {
		return nil, &core.Error{Code: core.CodeNotFound, Field: "watch", Message: "no such watch: it was ended, not asked for within an hour, or lost when the server was restarted"}
	}
	return k, nil
}

// WatchEvents has tell be told what has happened since it last was; what it can't take, which its error says, is told again the next time.
// The error of the watch itself comes once everything has been told: io.EOF after gone, or why it broke off; the watch is forgotten then.
func (w *fileWatches) WatchEvents(ctx context.Context, p Principal, ref, id string, tell func([]core.FileEvent) error) error {
	if err := p.may("WatchEvents"); err != nil {
		return err
	}
	k, err := w.find(ctx, p, ref, id)
	if err != nil {
		return err
	}
	list, err := w.take(k)
	if err != nil || len(list) == 0 {
		return err
	}
	if err = tell(list); err != nil {
		w.putBack(k, list)
	}
	return err
}

// take takes what is kept, and says why there will be no more.
func (w *fileWatches) take(k *keptWatch) ([]core.FileEvent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k.asked = w.clock.Now()
	list := k.events
	w.empty(k)
	if len(list) == 0 && k.err != nil {
		w.forget(k)
		return nil, k.err
	}
	return list, nil
}

// putBack keeps again what was taken, before what has come since.
func (w *fileWatches) putBack(k *keptWatch, list []core.FileEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept[k.id] != k {
		return // It was ended meanwhile.
	}
	size := 0
	for _, e := range list {
		size += costOf(e)
	}
	if k.size+size > maxKeptEvents || w.size+size > maxKeptAll {
		w.overflow(k)
		return
	}
	k.events = slices.Concat(list, k.events)
	k.size += size
	w.size += size
}

// costOf is what an event is taken to cost.
func costOf(e core.FileEvent) int { return eventCost + len(e.Path) + len(e.To) }

// EndWatch ends a watch.
func (w *fileWatches) EndWatch(ctx context.Context, p Principal, ref, id string) error {
	if err := p.may("EndWatch"); err != nil {
		return err
	}
	k, err := w.find(ctx, p, ref, id)
	if err != nil {
		return err
	}
	k.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(k)
	return nil
}
