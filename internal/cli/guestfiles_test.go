package cli_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"

	"shoal/internal/core"
	"shoal/internal/files/hostfiles"
	realguest "shoal/internal/guest"
	"shoal/internal/guest/client"
)

// Files returns the files of a sandbox that has ended.
func (m *machine) Files(_ context.Context, id core.SandboxID) (core.FileReader, error) {
	return hostfiles.New(filepath.Join(m.dir, string(id)), hostfiles.Owners{Count: 1 << 31}), nil
}

// agent is a real guest agent, for what the fake doesn't do itself. It works on the paths of this machine.
func (g *guest) agent() (*client.Client, func()) {
	srv, err := realguest.New(realguest.Config{})
	if err != nil {
		panic(err)
	}
	c := client.New(client.Config{Dial: func(ctx context.Context) (net.Conn, error) {
		host, inside := net.Pipe()
		go srv.ServeConn(context.WithoutCancel(ctx), inside)
		return host, nil
	}})
	return c, func() {
		c.Close()
		srv.Close()
	}
}

// inside takes the place of this machine off a path.
func (g *guest) inside(path string) string { return strings.TrimPrefix(path, g.root) }

func (g *guest) tree() core.FileReader {
	return hostfiles.New(g.root, hostfiles.Owners{Count: 1 << 31})
}

func (g *guest) Walk(ctx context.Context, path string, o core.WalkOptions) ([]core.FileInfo, bool, error) {
	return g.tree().Walk(ctx, path, o)
}

func (g *guest) Xattrs(ctx context.Context, path string) ([]core.Xattr, error) {
	return g.tree().Xattrs(ctx, path)
}

func (g *guest) Checksum(ctx context.Context, path string, a core.ChecksumAlgorithm) (core.Checksum, error) {
	return g.tree().Checksum(ctx, path, a)
}

func (g *guest) Change(ctx context.Context, path string, ch core.FileChange) (core.FileInfo, error) {
	c, end := g.agent()
	defer end()
	info, err := c.Change(ctx, g.at(path), ch)
	info.Path = g.inside(info.Path)
	return info, err
}

func (g *guest) Link(ctx context.Context, path, target string, o core.LinkOptions) (core.FileInfo, error) {
	c, end := g.agent()
	defer end()
	if o.Hard {
		target = g.at(target)
	}
	info, err := c.Link(ctx, g.at(path), target, o)
	info.Path = g.inside(info.Path)
	return info, err
}

// insideWatch tells paths as inside.
type insideWatch struct {
	core.FileWatch
	g   *guest
	end func()
}

func (w insideWatch) Recv() (core.FileEvent, error) {
	e, err := w.FileWatch.Recv()
	e.Path, e.To = w.g.inside(e.Path), w.g.inside(e.To)
	return e, err
}

func (w insideWatch) Close() error {
	defer w.end()
	return w.FileWatch.Close()
}

func (g *guest) Watch(ctx context.Context, path string, o core.WatchOptions) (core.FileWatch, error) {
	c, end := g.agent()
	w, err := c.Watch(ctx, g.at(path), o)
	if err != nil {
		end()
		return nil, err
	}
	return insideWatch{w, g, end}, nil
}
