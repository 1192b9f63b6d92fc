package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	shoal "shoal/sdk/go"
)

// serverCgroup is the parent of the server's control groups.
const serverCgroup = "shoal-bench"

// noTemplates is for a server that builds none.
const noTemplates = "none"

// server is a running server with a client.
type server struct {
	bin, dir string
	// cgroup is the parent of its control groups, and templates what it builds, if not serverCgroup and minimal.
	cgroup, templates string
	cmd               *exec.Cmd
	client            *shoal.Client
}

// start starts the server on a fresh data directory and waits for its templates, so that making them disturbs no measurement.
func (s *server) start(ctx context.Context) error {
	if err := os.Mkdir(s.dir, 0o711); err != nil {
		return err
	}
	if err := s.launch(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	for _, name := range strings.Split(cmp.Or(s.templates, "minimal"), ",") {
		if name == noTemplates {
			continue
		}
		for {
			t, err := s.client.Templates().Get(ctx, name)
			if err == nil && t.State == shoal.TemplateReady {
				break
			}
			if err == nil && t.State == shoal.TemplateFailed {
				return fmt.Errorf("the template %s was not made: %v", name, t)
			}
			if pause(ctx, time.Second) != nil {
				return fmt.Errorf("the template %s is not ready: %w", name, err)
			}
		}
	}
	return nil
}

// launch starts the server on its data directory and waits until it is ready.
func (s *server) launch(ctx context.Context) error {
	log, err := os.Create(filepath.Join(s.dir, "server.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.bin, "serve", "--data-dir", s.dir, "--listen", "127.0.0.1:0")
	cmd.Env, cmd.Stdout, cmd.Stderr = s.environ(), log, log
	// A group of its own: ^C is for this program, which stops the server when it has cleaned up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	if err := s.wait(ctx); err != nil {
		tail, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w\n%s", err, tail[max(0, len(tail)-2000):])
	}
	return nil
}

func (s *server) environ() []string {
	templates := cmp.Or(s.templates, "minimal")
	if templates == noTemplates {
		templates = ""
	}
	return append(os.Environ(), "SHOAL_TEMPLATES_BOOTSTRAP="+templates, "SHOAL_RUNTIME_CGROUP_PARENT="+cmp.Or(s.cgroup, serverCgroup),
		// The registry that images are imported from is on loopback, without TLS.
		"SHOAL_OUTBOUND_ALLOW=127.0.0.0/8", "SHOAL_TEMPLATES_HTTP_REGISTRIES=127.0.0.1")
}

func (s *server) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	for {
		url, uerr := os.ReadFile(filepath.Join(s.dir, "url"))
		key, kerr := os.ReadFile(filepath.Join(s.dir, "admin.key"))
		err := errors.Join(uerr, kerr)
		if err == nil {
			s.client = &shoal.Client{BaseURL: strings.TrimSpace(string(url)), APIKey: strings.TrimSpace(string(key))}
			if err = s.client.Ready(ctx); err == nil {
				return nil
			}
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("the server did not become ready: %w", err)
		}
	}
}

// remove stops the server and takes it off the machine, however far it came.
func (s *server) remove() error {
	if s.cmd == nil {
		return nil
	}
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Wait() // a server that is stopped may say so with its exit code
	cmd := exec.Command(s.bin, "uninstall", "--data-dir", s.dir, "--delete-data", "--yes")
	cmd.Env = s.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
		return fmt.Errorf("%v: outcome %s: %s", cmd, res.Outcome, res.StderrBytes())
	}
	return nil
}
