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
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"shoal/internal/runtime/gvisor"
)

func main() {
	gvisor.RunFace() // the bare side starts sandboxes from this very program
	bin := flag.String("bin", "bin/shoal", "the built server")
	n := flag.Int("n", 50, "runs of each measurement")
	out := flag.String("json", "", "where to write the figures as JSON")
	commit := flag.String("commit", "unknown", "the commit that was built")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, options{bin: *bin, n: *n, json: *out, commit: *commit})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	bin, json, commit string
	n                 int
}

func run(ctx context.Context, o options) (err error) {
	work, err := os.MkdirTemp("", "shoal-bench-")
	if err != nil {
		return err
	}
	if err := os.Chmod(work, 0o711); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(work)
		}
	}()
	fmt.Fprintln(os.Stderr, "building the template twice: for the server and for the bare calls")
	srv, err := startServer(ctx, o.bin, filepath.Join(work, "server"))
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, srv.remove()) }()
	bare, err := openBare(ctx, filepath.Join(work, "bare"))
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, bare.remove()) }()
	r := newReport(o)
	if err := measureAll(ctx, o.n, srv, bare, r); err != nil {
		return err
	}
	r.table(os.Stdout)
	if o.json == "" {
		return nil
	}
	return r.write(o.json)
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
