package client

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// Processes tells what runs; see core.Guest. An agent of before version 6 answers unsupported.
func (f fileCalls) Processes(ctx context.Context) (core.ProcessList, error) {
	var reply wire.ProcessesReply
	if err := f.c.do(ctx, call{op: wire.OpProcesses, args: wire.Empty{}, reply: &reply, again: true}); err != nil {
		return core.ProcessList{}, err
	}
	list, err := processList(reply)
	if err != nil {
		return core.ProcessList{}, unreachable(ctx, err)
	}
	return list, nil
}

// processList checks what a guest says of its processes.
func processList(r wire.ProcessesReply) (core.ProcessList, error) {
	out := core.ProcessList{MoreProcesses: r.MoreProcesses, MoreListeners: r.MoreListeners}
	if len(r.Processes) > core.MaxProcesses || len(r.Listeners) > core.MaxListeners || r.MoreProcesses < 0 || r.MoreListeners < 0 {
		return out, fmt.Errorf("%w: %d processes and %d listeners", wire.ErrMalformed, len(r.Processes), len(r.Listeners))
	}
	for _, p := range r.Processes {
		if p.PID <= 0 || p.Parent < 0 || p.UID < 0 || len(p.Command) > core.MaxCommandBytes+64 || strings.ContainsRune(string(p.Command), 0) {
			return out, fmt.Errorf("%w: an impossible process", wire.ErrMalformed)
		}
		out.Processes = append(out.Processes, core.Process{
			PID: p.PID, Parent: p.Parent, UID: p.UID, User: nameOf(p.User), Command: string(p.Command), Cut: p.Cut, StartedAt: p.StartedAt.UTC(),
		})
	}
	for _, l := range r.Listeners {
		addr, err := netip.ParseAddr(l.Address)
		if err != nil || addr.Zone() != "" || l.Port == 0 || l.PID < 0 || l.Proto != "tcp" && l.Proto != "udp" {
			return out, fmt.Errorf("%w: an impossible listener", wire.ErrMalformed)
		}
		out.Listeners = append(out.Listeners, core.Listener{Proto: l.Proto, Address: addr.String(), Port: l.Port, PID: l.PID})
	}
	return out, nil
}
