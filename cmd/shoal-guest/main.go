// Command shoal-guest is the guest agent: the init of a sandbox. It is built static and small, and first, because the
// server carries it inside. All that it does is in internal/guest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/guest"
)

const (
	// memoryLimit makes the collector work harder before the agent takes memory from the sandbox's own processes.
	memoryLimit = 96 << 20
	cgroupDir   = "/sys/fs/cgroup"
)

func main() {
	listen := flag.String("listen", "10.88.0.2:7070", "address to serve on")
	peer := flag.String("peer", "10.88.0.1", "the only address that may connect")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(*listen, *peer, log); err != nil {
		log.Error("guest agent ends", slog.Any("err", err))
		os.Exit(1)
	}
}

func run(listen, peer string, log *slog.Logger) error {
	debug.SetMemoryLimit(memoryLimit)
	syscall.Umask(0o022)
	outliveSignals()
	allowed := net.ParseIP(peer)
	if allowed == nil {
		return fmt.Errorf("parse peer: %q is no address", peer)
	}
	cfg := guest.Config{
		Init: os.Getpid() == 1, Logger: log,
		AllowPeer: func(a net.Addr) bool {
			t, ok := a.(*net.TCPAddr)
			return ok && t.IP.Equal(allowed)
		},
	}
	if cfg.Init && isCgroup2(cgroupDir) {
		cfg.Cgroup = cgroupDir
	}
	s, err := guest.New(cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := listenWhenUp(listen)
	if err != nil {
		return err
	}
	return s.Serve(context.Background(), l)
}

// outliveSignals makes signals that would end or stop the agent do nothing: a script that means another process, or a log that
// nobody reads, must not end the sandbox. They are caught and not ignored, because what is ignored stays ignored in every
// process that the agent starts. SIGKILL and SIGSTOP can't be caught: gVisor delivers them to init from inside, as Linux would
// not, so root inside can still end its own sandbox or silence it.
func outliveSignals() {
	c := make(chan os.Signal, 1)
	signal.Notify(c,
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE,
		// A true fault of ours is not sent by anyone, and still ends the agent.
		syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV,
		syscall.SIGSTKFLT, syscall.SIGSYS, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
}

// listenWhenUp listens on an address that the sandbox may be about to get.
func listenWhenUp(address string) (net.Listener, error) {
	var lc net.ListenConfig
	for begin := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		l, err := lc.Listen(context.Background(), "tcp", address)
		if err == nil || !errors.Is(err, syscall.EADDRNOTAVAIL) || time.Since(begin) > time.Minute {
			return l, err
		}
	}
}

func isCgroup2(dir string) bool {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return err == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}
