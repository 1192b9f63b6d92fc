// Command bench measures the built server, and beside it, in the same run and in turns, the bare calls of the libraries below
// it. It prints a table and writes JSON.
//
//	bench -bin bin/shoal -n 50 -json build/bench.json
//
// It needs root. Every figure is a distribution over n runs; what counts are the ratios, since machines differ.
// Start with measure.go; what is measured is in server.go and bare.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"shoal/internal/image/oci"
	"shoal/internal/runtime/gvisor"
	"shoal/test/harness"
)

func main() {
	gvisor.RunFace() // the bare side starts sandboxes from this very program
	oci.RunFace()    // and unpacks images with it
	if err := gvisor.KeepFirstThread(); err != nil {
		panic(err)
	}
	o := options{}
	flag.StringVar(&o.bin, "bin", "bin/shoal", "the built server")
	flag.IntVar(&o.n, "n", 50, "runs of each measurement")
	flag.StringVar(&o.json, "json", "", "where to write the figures as JSON")
	flag.StringVar(&o.commit, "commit", "unknown", "the commit that was built")
	flag.StringVar(&o.only, "only", "", "one step alone, for work on it: create, exec, idle, many, burst, files, records, import, neighbours or checkpoint")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	bin, json, commit, only string
	n                       int
}

// run measures and leaves nothing behind, also when it is interrupted or fails.
func run(ctx context.Context, o options) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("needs root: namespaces, mounts and cgroups (try sudo)")
	}
	work, err := os.MkdirTemp("", "shoal-bench-")
	if err != nil {
		return err
	}
	srv := &server{bin: o.bin, dir: filepath.Join(work, "server")}
	bare := &bare{dir: filepath.Join(work, "bare")}
	if o.only == stepImport { // which brings its own
		srv.templates, bare.noTemplate = noTemplates, true
	}
	if o.only == "" || o.only == stepBurst {
		srv.templates = "minimal,base"
	}
	defer func() {
		clean := errors.Join(srv.remove(), bare.remove())
		if clean == nil {
			clean = errors.Join(os.RemoveAll(work), nothingLeft(work))
		}
		err = errors.Join(err, clean)
	}()
	// What runs as an unprivileged user inside must be able to pass.
	if err := os.Chmod(work, 0o711); err != nil {
		return err
	}
	if !bare.noTemplate {
		fmt.Fprintln(os.Stderr, "building the template twice: for the server and for the bare calls")
	}
	if err := srv.start(ctx); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	if err := bare.open(ctx); err != nil {
		return fmt.Errorf("open the bare drivers: %w", err)
	}
	r := newReport(o)
	if err := measureAll(ctx, o, srv, bare, r); err != nil {
		return err
	}
	r.table(os.Stdout)
	if o.json == "" {
		return nil
	}
	return r.write(o.json)
}

// nothingLeft fails if the machine still has anything of the run.
func nothingLeft(work string) error {
	var left []string
	for _, cgroup := range []string{serverCgroup, bareCgroup} {
		left = append(left, harness.Leaks(work, cgroup)...)
	}
	if len(left) > 0 {
		slices.Sort(left)
		return fmt.Errorf("left behind:\n%s", strings.Join(slices.Compact(left), "\n"))
	}
	return nil
}

// pause waits, unless the run is interrupted.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
