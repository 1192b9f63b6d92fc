package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	shoal "shoal/sdk/go"
)

// tourServer is the tour's own server: this very program, started as another process.
type tourServer struct {
	dir string
	// ours says that the tour has made the directory and deletes it.
	ours bool
	log  *os.File

	cmd    *exec.Cmd
	exited chan error
}

// How long the server may take to start and to stop.
const (
	tourStartTime = 30 * time.Second
	tourStopTime  = 20 * time.Second
)

// newTourServer prepares a data directory: a new one below /var/tmp unless one is named.
func newTourServer(dir string) (*tourServer, error) {
	s := &tourServer{dir: dir}
	if dir == "" {
		var err error
		if s.dir, err = os.MkdirTemp("/var/tmp", "shoal-tour-"); err != nil {
			return nil, err
		}
		s.ours = true
		// As the server makes its own: others may pass, not list.
		if err := os.Chmod(s.dir, 0o711); err != nil {
			return nil, err
		}
	} else {
		var err error
		if s.dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(s.dir, 0o711); err != nil {
			return nil, err
		}
	}
	var err error
	s.log, err = os.OpenFile(filepath.Join(s.dir, "tour.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return s, err
}

// flags are what both serve and uninstall need to know.
func (s *tourServer) flags() []string {
	return []string{"--data-dir", s.dir, "--runtime-cgroup-parent", "shoal-" + filepath.Base(s.dir)}
}

// start starts the server and returns a client once it answers.
func (s *tourServer) start(ctx context.Context) (*shoal.Client, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	address := filepath.Join(s.dir, "url")
	if err := os.Remove(address); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	// What we were started with stays with us: more open files than usual have made package tools fail.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("keep open files from the server: %w", err)
	}
	// Its life is not the context's: stop ends it in good order.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, append([]string{
		"serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--templates-bootstrap", defaultTemplate,
	}, s.flags()...)...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	// A Ctrl-C at the terminal is for the tour, which then stops its server in good order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }() // stop and kill wait for it.
	s.cmd, s.exited = cmd, exited
	ctx, cancel := context.WithTimeout(ctx, tourStartTime)
	defer cancel()
	for {
		if client, ok := s.answers(ctx); ok {
			return client, nil
		}
		select {
		case err := <-exited:
			s.cmd = nil
			return nil, fmt.Errorf("the server ended at its start: %w", err)
		case <-ctx.Done():
			return nil, fmt.Errorf("the server did not answer within %s: %w", duration(tourStartTime), ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// answers returns a client if the server does.
func (s *tourServer) answers(ctx context.Context) (*shoal.Client, bool) {
	found, err := fromDataDir(s.dir)
	if err != nil || found.url == "" || found.key == "" {
		return nil, false
	}
	c := &shoal.Client{BaseURL: found.url, APIKey: found.key, UserAgent: "shoal-tour"}
	return c, c.Health(ctx) == nil
}

func (s *tourServer) running() bool { return s.cmd != nil }

// kill ends the server as a crash would.
func (s *tourServer) kill() error {
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	ended := <-s.exited
	s.cmd = nil
	if ended == nil {
		return errors.New("the server ended by itself before it was killed")
	}
	return nil
}

// stop ends the server in good order.
func (s *tourServer) stop() error {
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	select {
	case err := <-s.exited:
		s.cmd = nil
		if err != nil {
			return fmt.Errorf("stop the server: %w", err)
		}
		return nil
	case <-time.After(tourStopTime):
		return errors.Join(fmt.Errorf("the server did not stop within %s and was killed", duration(tourStopTime)), s.kill())
	}
}

// remove takes mounts, network and cgroups off the machine, and the data directory if the tour has made it. It says what
// became of the directory.
func (s *tourServer) remove(ctx context.Context) (string, error) {
	_ = s.log.Close()
	if !s.ours {
		return s.dir + " kept for the next time ('shoal uninstall --data-dir " + s.dir + "' takes it off the machine)", nil
	}
	if _, err := os.Stat(filepath.Join(s.dir, "lock")); errors.Is(err, os.ErrNotExist) {
		// No server has come as far as to lock it, so there is only our log in it.
		return s.dir + " removed", os.RemoveAll(s.dir)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, self, append([]string{"uninstall", "--delete-data", "--yes"}, s.flags()...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return s.dir + " removed", nil
}

// logTail returns the last lines of the server's log.
func (s *tourServer) logTail() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "tour.log"))
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	lines = lines[max(0, len(lines)-logLines):]
	for i, l := range lines {
		if len(l) > logWidth {
			lines[i] = append(l[:logWidth:logWidth], "…"...)
		}
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// How much of the server's log is shown when something went wrong.
const (
	logLines = 10
	logWidth = 2000
)
