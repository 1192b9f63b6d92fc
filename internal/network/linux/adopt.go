package linux

import (
	"context"
	"fmt"

	"shoal/internal/core"
	"shoal/internal/network"
)

// Adopt returns the slot of a sandbox, whether this process attached it or found it in the kernel at Open. The latter
// has no NetNS: the namespace is kept by the runtime that has taken it over, and serves no second start.
func (d *Driver) Adopt(_ context.Context, id core.SandboxID) (network.Slot, error) {
	if err := d.begin(); err != nil {
		return network.Slot{}, err
	}
	defer d.end()
	s := d.find(id)
	if s == nil {
		return network.Slot{}, notFound()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return network.Slot{}, notFound()
	}
	live, err := d.router.look(s)
	if err != nil {
		return network.Slot{}, edge(fmt.Errorf("adopt network: %w", err), "can't find the sandbox's network")
	}
	if !live {
		return network.Slot{}, notFound()
	}
	return s.view(), nil
}

// List returns the slots that are attached whole and whose namespace is alive.
func (d *Driver) List(context.Context) ([]network.Slot, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.end()
	links, err := d.router.listLinks()
	if err != nil {
		return nil, edge(err, "can't list networks")
	}
	live := make(map[int]bool, len(links))
	for _, link := range links {
		live[link.Attrs().Index] = alive(link.Attrs())
	}
	slots := []network.Slot{}
	for _, s := range d.all() {
		if !s.ready.Load() || !live[s.index] {
			continue
		}
		s.mu.Lock()
		if !s.gone {
			slots = append(slots, s.view())
		}
		s.mu.Unlock()
	}
	return slots, nil
}
