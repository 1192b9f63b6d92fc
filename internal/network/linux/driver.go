package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"sync"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/network"
)

// Config is what a driver needs.
type Config struct {
	// Name tells the router from those of other servers on the host, for an operator who looks at it: it is shown as
	// the alias of the router's lo. 1 to 64 characters of a-z, A-Z, 0-9, dot, dash and underscore.
	Name string
	// StateDir holds nothing but the file that the router is mounted on. One process at a time may use it.
	StateDir string
	Logger   *slog.Logger
}

var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) })

// Driver is the network driver of one state directory.
type Driver struct {
	cfg    Config
	router *router

	// calls are the calls under way that use the router. Close waits for them.
	calls sync.WaitGroup
	// removals is the queue of interfaces to remove, remover done when it has been worked off after Close.
	removals chan removal
	remover  sync.WaitGroup
	closing  sync.Once
	closeErr error

	mu      sync.Mutex
	closed  bool
	numbers numbers
	// slots has every slot that is attached or being attached.
	slots map[core.SandboxID]*slot
}

var _ network.Driver = (*Driver)(nil)

// Open finds the router of cfg.StateDir or makes it, and finds its slots. It may be called again after the process died
// at any instruction: what is there is brought into the state that it must have, while live slots go on.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	if !namePattern().MatchString(cfg.Name) {
		return nil, core.Invalid("name",
			"the network's name has 1 to 64 characters of a-z, A-Z, 0-9, dot, dash and underscore")
	}
	if cfg.StateDir == "" || cfg.Logger == nil {
		return nil, core.Errorf(core.CodeInvalid, "the network driver needs a state directory and a logger")
	}
	d, err := open(ctx, cfg)
	if err != nil {
		return nil, edge(fmt.Errorf("open the router: %w", err), "can't set up the node's network")
	}
	return d, nil
}

func open(ctx context.Context, cfg Config) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, found, err := openRouter(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, router: r, removals: make(chan removal, removalQueue)}
	garbage, err := d.recover()
	if err == nil && !found {
		err = r.persist()
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	d.remover.Go(d.removeAll)
	for index, number := range garbage {
		d.removals <- removal{index: index, number: number}
	}
	cfg.Logger.InfoContext(ctx, "network opened",
		slog.Bool("found", found), slog.Int("slots", len(d.slots)), slog.Int("garbage", len(garbage)))
	return d, nil
}

// recover brings the router and the slots in it into the state that they must have, and returns the interfaces that
// belong to no slot.
func (d *Driver) recover() (garbage map[int]uint32, err error) {
	r := d.router
	slots, garbage, reserved, err := r.scan()
	if err != nil {
		return nil, err
	}
	if err := r.configure(); err != nil {
		return nil, err
	}
	// The rules come before anything that could let a packet through them.
	if err := r.table.rebuild(addrs(slots)); err != nil {
		return nil, err
	}
	d.slots = slots
	d.numbers = numbers{last: reserved, reserved: reserved, used: map[uint32]struct{}{}, reserve: d.reserve}
	for _, number := range garbage {
		d.numbers.used[number] = struct{}{}
	}
	for id, s := range slots {
		d.numbers.used[s.number] = struct{}{}
		if err := r.raise(s); err != nil {
			// It may have died since it was found.
			if live, lookErr := r.look(s); live || lookErr != nil {
				return nil, errors.Join(err, lookErr)
			}
			delete(slots, id)
			garbage[s.index] = s.number
		}
	}
	return garbage, nil
}

// reserve makes the kernel remember that numbers up to n may have been used.
func (d *Driver) reserve(n uint32) error {
	return d.router.links.LinkSetAlias(linkAt(loIndex), routerAlias(d.cfg.Name, n))
}

// Capabilities says that only EgressDeny can be enforced.
func (d *Driver) Capabilities() network.Capabilities { return network.Capabilities{Rules: false} }

// begin is called before a call uses the router; end after it.
func (d *Driver) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return closed()
	}
	d.calls.Add(1)
	return nil
}

func (d *Driver) end() { d.calls.Done() }

// find returns the slot of a sandbox, nil if there is none.
func (d *Driver) find(id core.SandboxID) *slot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.slots[id]
}

// all returns every slot that is attached or being attached.
func (d *Driver) all() []*slot {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]*slot, 0, len(d.slots))
	for _, s := range d.slots {
		list = append(list, s)
	}
	return list
}

// Close waits for calls under way and for the removal of interfaces, and lets go of the process's handles. Slots that a
// runtime has taken over go on; others vanish. Connections that Dial made stay with their owners.
func (d *Driver) Close() error {
	d.closing.Do(func() { d.closeErr = d.shut(nil) })
	return d.closeErr
}

// Destroy removes the router, all slots and the state directory if nothing else is in it, and closes the driver. The
// kernel takes the namespaces down in the background.
func (d *Driver) Destroy(context.Context) error {
	err := closed()
	d.closing.Do(func() {
		err = edge(d.shut(d.tearDown), "can't remove the node's network")
		d.closeErr = nil
	})
	return err
}

// shut closes the driver and does last, if given, when no call is under way any more.
func (d *Driver) shut(last func() error) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.calls.Wait()
	close(d.removals)
	d.remover.Wait()
	var err error
	if last != nil {
		err = last()
	}
	for _, s := range d.all() {
		s.mu.Lock()
		if s.ns >= 0 {
			err = errors.Join(err, unix.Close(s.ns))
			s.ns = -1
		}
		s.mu.Unlock()
	}
	return errors.Join(err, d.router.close())
}

// tearDown removes everything that the driver has put into the kernel and on disk.
func (d *Driver) tearDown() error {
	var err error
	for _, s := range d.all() {
		s.mu.Lock()
		s.gone = true
		s.cut()
		s.mu.Unlock()
	}
	links, listErr := d.router.listLinks()
	err = errors.Join(err, listErr)
	var indexes []int
	for _, link := range links {
		if _, ok := parseLinkName(link.Attrs().Name); ok {
			indexes = append(indexes, link.Attrs().Index)
		}
	}
	err = errors.Join(err, d.router.removeLinks(indexes), d.router.forget())
	if rmErr := os.Remove(d.cfg.StateDir); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) &&
		!errors.Is(rmErr, unix.ENOTEMPTY) && !errors.Is(rmErr, unix.EBUSY) {
		err = errors.Join(err, rmErr)
	}
	return err
}
