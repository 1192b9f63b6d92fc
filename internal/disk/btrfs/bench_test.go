package btrfs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/internal/disk"
	"shoal/internal/disk/btrfs"
)

// BenchmarkTree tells how long the making and removing of trees takes with none, 200 and 1000 clones there: it should
// not depend on it. Each clone writes a little, as a sandbox does.
func BenchmarkTree(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root: mounts a pool image")
	}
	ctx := context.Background()
	d, err := btrfs.Open(ctx, btrfs.Config{Dir: filepath.Join(b.TempDir(), "pool"), GrowStep: 4 << 30})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Unmount(ctx); err != nil {
			b.Error(err)
		}
	})
	p := &bench{b: b, d: d, from: disk.Ref{Kind: disk.KindTemplate, ID: "abc"}}
	p.makeTemplate(2000)
	for _, existing := range []int{0, 200, 1000} {
		for p.clones < existing {
			p.clone(ctx)
		}
		b.Run(fmt.Sprintf("clones=%d", existing), func(b *testing.B) { p.measure(b) })
	}
}

type bench struct {
	b      *testing.B
	d      *btrfs.Driver
	from   disk.Ref
	clones int
}

func (p *bench) must(err error) {
	p.b.Helper()
	if err != nil {
		p.b.Fatal(err)
	}
}

func (p *bench) makeTemplate(files int) {
	root, err := p.d.Create(context.Background(), p.from)
	p.must(err)
	for i := range files {
		path := filepath.Join(root, fmt.Sprintf("d%d/f%d", i%50, i))
		p.must(os.MkdirAll(filepath.Dir(path), 0o755))
		p.must(os.WriteFile(path, []byte(strings.Repeat("x", 1+i*7)), 0o644))
	}
	p.must(p.d.Freeze(context.Background(), p.from))
}

func (p *bench) clone(ctx context.Context) disk.Ref {
	ref := disk.Ref{Kind: disk.KindSandbox, ID: fmt.Sprintf("s%d", p.clones)}
	p.clones++
	path, err := p.d.Clone(ctx, p.from, ref, disk.CloneOptions{LimitBytes: 1 << 30})
	p.must(err)
	p.must(os.WriteFile(filepath.Join(path, "d1/new"), []byte(ref.ID), 0o644))
	return ref
}

func (p *bench) measure(b *testing.B) {
	b.Helper()
	ctx := context.Background()
	times := map[string][]time.Duration{}
	timed := func(name string, act func() error) {
		start := time.Now()
		p.must(act())
		times[name] = append(times[name], time.Since(start))
	}
	for b.Loop() {
		made := disk.Ref{Kind: disk.KindTemplate, ID: "made"}
		var ref disk.Ref
		timed("clone", func() error { ref = p.clone(ctx); return nil })
		timed("delete", func() error { return p.d.Delete(ctx, ref) })
		p.clones--
		timed("create", func() error { _, err := p.d.Create(ctx, made); return err })
		timed("freeze", func() error { return p.d.Freeze(ctx, made) })
		p.must(p.d.Delete(ctx, made))
	}
	for name, list := range times {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(list[len(list)*99/100].Microseconds())/1000, name+"-p99-ms")
	}
}
