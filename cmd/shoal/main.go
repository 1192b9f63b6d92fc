// Command shoal is the whole program: the server, the command line that talks to it, and, under other names that gVisor
// gives to the same file, the sentry and the gofer of each sandbox, and what unpacks container images.
//
// It is the only place that joins drivers to services. Start reading at server.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"shoal/internal/cli"
	"shoal/internal/image/oci"
	"shoal/internal/runtime/gvisor"
)

// version and commit are set by the linker.
var (
	version = "dev"
	commit  = "unknown"
)

// ownCommands are those that the command line can't have without the server.
func ownCommands() []*cobra.Command {
	list := []*cobra.Command{serveCommand(), configCommand(), doctorCommand(), uninstallCommand()}
	for _, c := range list {
		inWords(c)
	}
	return list
}

func main() {
	gvisor.RunFace() // does not return in a sentry or gofer
	oci.RunFace()    // nor in what unpacks images
	if err := gvisor.KeepFirstThread(); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], cli.Options{
		Version: version, Commit: commit,
		Extra: ownCommands(),
	})
	stop()
	os.Exit(code)
}
