package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	shoal "shoal/sdk/go"
)

// server is a running server with a client.
type server struct {
	bin, dir string
	cmd      *exec.Cmd
	client   *shoal.Client
	env      []string
}

// startServer starts a server on a fresh data directory and waits for its template.
func startServer(ctx context.Context, bin, dir string) (*server, error) {
	if err := os.Mkdir(dir, 0o711); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &server{bin: bin, dir: dir}
	s.env = append(os.Environ(), "SHOAL_TEMPLATES_BOOTSTRAP=minimal", "SHOAL_RUNTIME_CGROUP_PARENT=shoal-bench")
	s.cmd = exec.Command(bin, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0")
	s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = s.env, log, log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := s.wait(ctx); err != nil {
		tail, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w\n%s", err, tail[max(0, len(tail)-2000):])
	}
	return s, nil
}

func (s *server) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		url, uerr := os.ReadFile(filepath.Join(s.dir, "url"))
		key, kerr := os.ReadFile(filepath.Join(s.dir, "admin.key"))
		err := firstError(uerr, kerr)
		if err == nil {
			s.client = &shoal.Client{BaseURL: strings.TrimSpace(string(url)), APIKey: strings.TrimSpace(string(key))}
			if err = s.client.Ready(ctx); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server did not become ready: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// remove stops the server and takes it off the machine.
func (s *server) remove() error {
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Wait() // a server that is stopped may say so with its exit code
	cmd := exec.Command(s.bin, "uninstall", "--data-dir", s.dir, "--delete-data", "--yes")
	cmd.Env = s.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("uninstall: %w\n%s", err, out)
	}
	return nil
}

// run runs a command and fails unless it exits with 0.
func (s *server) run(ctx context.Context, sandbox string, cmd ...string) error {
	res, err := s.client.Execs(sandbox).Run(ctx, shoal.ExecRequest{Cmd: cmd})
	if err != nil {
		return err
	}
	if res.Outcome != shoal.OutcomeExited || *res.ExitCode != 0 {
		return fmt.Errorf("%v: outcome %s", cmd, res.Outcome)
	}
	return nil
}
