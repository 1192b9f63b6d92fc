package main

import (
	"context"
	"fmt"
	"net/netip"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/image/layer"
	"shoal/internal/image/oci"
	"shoal/internal/outbound"
)

// imageImporter returns what makes a tree of a container image.
func (s *server) imageImporter() (control.ImageImporter, error) {
	allow, err := s.cfg.Outbound.Prefixes()
	if err != nil {
		return nil, err
	}
	proxy, err := s.cfg.Outbound.ProxyURL()
	if err != nil {
		return nil, err
	}
	guard := outbound.New(outbound.Config{Allow: allow, Own: s.at.all, Proxy: proxy})
	return func(ctx context.Context, src core.ImageSource, dir string, progress func(core.OperationProgress)) (control.BuiltTemplate, error) {
		res, err := oci.Import(ctx, oci.Config{
			Source: src, Dir: dir, OwnerUID: s.cfg.Runtime.OwnerUID, WorkDir: s.dir.join("cache"),
			Guard: guard, PlainHTTP: s.cfg.Templates.HTTPRegistries,
			Limits:   layer.Limits{Bytes: int64(s.cfg.Templates.MaxImage), Entries: oci.DefaultEntries, MinFree: oci.DefaultMinFree},
			Progress: progress, Logger: s.log,
		})
		if err != nil {
			return control.BuiltTemplate{}, fmt.Errorf("import image: %w", err)
		}
		return control.BuiltTemplate{Source: res.Source, Config: res.Config}, nil
	}, nil
}

// all returns every address that the server listens at.
func (a addresses) all() []netip.AddrPort {
	var list []netip.AddrPort
	add := func(at *address) {
		if at == nil {
			return
		}
		if ap, err := netip.ParseAddrPort(at.listener.Addr().String()); err == nil {
			list = append(list, netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()))
		}
	}
	add(a.api)
	add(a.tls)
	for _, at := range a.dialects {
		add(at)
	}
	return list
}
