// Package harness starts real servers for tests: the built program, its own data directory, kill -9, restart, and the search
// for what a server left behind.
//
// It must not know what a test asserts. Start with Start and Server.
package harness

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	shoal "shoal/sdk/go"
)

// Options say how a server is started.
type Options struct {
	// Dir is the data directory; empty makes a fresh one, which is uninstalled at the end of the test.
	Dir string
	// Failpoints arms points of the failpoint build, which is then used.
	Failpoints string
	// Env is added to the server's environment.
	Env []string
	// Listen is the address to listen at; empty picks a free port.
	Listen string
	// NoTemplates starts the server without building any.
	NoTemplates bool
}

// Server is a running server and its data directory.
type Server struct {
	t      testing.TB
	Dir    string
	URL    string
	Key    string
	Client *shoal.Client
	opts   Options
	cgroup string
	cmd    *exec.Cmd
	exited chan struct{}
	log    *os.File
}

// startTimeout bounds the start of a server, and templateTimeout the making of its first template.
const (
	startTimeout    = 60 * time.Second
	templateTimeout = 8 * time.Minute
)

// NeedRoot skips a test that needs root, or fails it where root is required.
func NeedRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("SHOAL_REQUIRE_ROOT") != "" {
		tb.Fatal("needs root: it starts real sandboxes")
	}
	tb.Skip("needs root: it starts real sandboxes")
}

// Binary returns the path of the built program.
func Binary(tb testing.TB, failpoints bool) string {
	tb.Helper()
	name, env := "shoal", "SHOAL_BIN"
	if failpoints {
		name, env = "shoal-failpoint", "SHOAL_FAILPOINT_BIN"
	}
	path := os.Getenv(env)
	if path == "" {
		path = filepath.Join(root(tb), "bin", name)
	}
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("%s is not built: run `make build test-build` first", path)
	}
	return path
}

// root is the module's root directory.
func root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	tb.Fatal("the test does not run inside the module")
	return ""
}

// Start starts a server and waits until it answers and, unless told otherwise, until its first template is ready.
func Start(tb testing.TB, opts Options) *Server {
	tb.Helper()
	NeedRoot(tb)
	s := &Server{t: tb, opts: opts, Dir: opts.Dir, cgroup: "shoal-test"}
	if s.Dir == "" {
		s.Dir = tempDataDir(tb)
		s.cgroup += "-" + filepath.Base(s.Dir)
		tb.Cleanup(func() { s.Uninstall() })
	} else {
		if err := os.MkdirAll(s.Dir, 0o711); err != nil {
			tb.Fatal(err)
		}
		s.cgroup += "-" + filepath.Base(s.Dir)
		tb.Cleanup(func() { s.Stop() })
	}
	s.start(opts)
	if !opts.NoTemplates {
		s.WaitTemplate("minimal")
	}
	return s
}

// tempDataDir makes a data directory. It is not t.TempDir, whose removal would go before Uninstall can unmount.
func tempDataDir(tb testing.TB) string {
	tb.Helper()
	var b [4]byte
	_, _ = rand.Read(b[:])
	dir := filepath.Join(os.TempDir(), "shoal-test-"+hex.EncodeToString(b[:]))
	if err := os.Mkdir(dir, 0o711); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// CleanEnvironment is the test's environment without anything that would configure a server or a client.
func CleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SHOAL_") })
}

func (s *Server) environment(opts Options) []string {
	templates := "minimal"
	if opts.NoTemplates {
		templates = ""
	}
	env := append(CleanEnvironment(),
		"SHOAL_TEMPLATES_BOOTSTRAP="+templates,
		"SHOAL_RUNTIME_CGROUP_PARENT="+s.cgroup,
		"SHOAL_LOG_LEVEL=debug",
	)
	if opts.Failpoints != "" {
		env = append(env, "SHOAL_FAILPOINTS="+opts.Failpoints)
	}
	return append(env, opts.Env...)
}

func (s *Server) start(opts Options) {
	s.t.Helper()
	_ = os.Remove(filepath.Join(s.Dir, "url"))
	log, err := os.OpenFile(filepath.Join(s.Dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(Binary(s.t, opts.Failpoints != ""), "serve", "--data-dir", s.Dir, "--listen", cmp.Or(opts.Listen, "127.0.0.1:0"))
	cmd.Env = s.environment(opts)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.log, s.exited = cmd, log, make(chan struct{})
	go func(c chan struct{}) { _ = cmd.Wait(); _ = log.Close(); close(c) }(s.exited)
	Eventually(s.t, startTimeout, "the server answers", func() error {
		select {
		case <-s.exited:
			s.t.Fatalf("the server ended at start:\n%s", s.Log(40))
		default:
		}
		url, err := os.ReadFile(filepath.Join(s.Dir, "url"))
		if err != nil {
			return err
		}
		key, err := os.ReadFile(filepath.Join(s.Dir, "admin.key"))
		if err != nil {
			return err
		}
		s.URL, s.Key = strings.TrimSpace(string(url)), strings.TrimSpace(string(key))
		s.Client = &shoal.Client{BaseURL: s.URL, APIKey: s.Key}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return s.Client.Health(ctx)
	})
}

// WaitTemplate waits until a template is ready.
func (s *Server) WaitTemplate(name string) {
	s.t.Helper()
	Eventually(s.t, templateTimeout, "template "+name+" is ready", func() error {
		tmpl, err := s.Client.Templates().Get(context.Background(), name)
		if err != nil {
			return err
		}
		if string(tmpl.State) == "failed" {
			s.t.Fatalf("template %s can't be built:\n%s", name, s.Log(40))
		}
		if string(tmpl.State) != "ready" {
			return fmt.Errorf("it is %s", tmpl.State)
		}
		return nil
	})
}

// Kill ends the server with SIGKILL, or waits for one that a failpoint kills.
func (s *Server) Kill() {
	s.t.Helper()
	_ = s.cmd.Process.Kill()
	s.WaitExit()
}

// WaitExit waits until the server has ended by itself.
func (s *Server) WaitExit() {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(startTimeout):
		s.t.Fatalf("the server did not end:\n%s", s.Log(40))
	}
}

// Exited reports whether the server has ended.
func (s *Server) Exited() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// PID is the server's process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop ends the server in good order.
func (s *Server) Stop() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	s.WaitExit()
}

// Restart starts a server on the same data directory after Kill or Stop.
func (s *Server) Restart(opts Options) {
	s.t.Helper()
	s.start(opts)
}

// Log returns the last lines of the server's log.
func (s *Server) Log(lines int) string {
	data, _ := os.ReadFile(filepath.Join(s.Dir, "server.log"))
	all := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// Uninstall stops the server, removes all that it has put on the machine, and fails the test if anything is left.
func (s *Server) Uninstall() {
	s.t.Helper()
	if !s.Exited() {
		s.Stop()
	}
	if s.t.Failed() {
		s.t.Logf("server log:\n%s", s.Log(60))
	}
	cmd := exec.Command(Binary(s.t, false), "uninstall", "--data-dir", s.Dir, "--delete-data", "--yes")
	cmd.Env = append(CleanEnvironment(), s.opts.Env...) // which parent cgroups it used, the data directory says
	if out, err := cmd.CombinedOutput(); err != nil {
		// What is still mounted must not be deleted through.
		s.t.Errorf("uninstall: %v\n%s\n%s is left as it is", err, out, s.Dir)
		return
	}
	for _, l := range Leaks(s.Dir, s.cgroup) {
		s.t.Errorf("left on the machine: %s", l)
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		s.t.Errorf("remove data directory: %v", err)
	}
}

// Cgroup is the name of the cgroup under which the server's sandboxes live.
func (s *Server) Cgroup() string { return s.cgroup }

// CLI runs the program as a client of this server and returns what it printed and its exit code.
func (s *Server) CLI(stdin string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(Binary(s.t, false), args...)
	cmd.Env = append(CleanEnvironment(), "SHOAL_URL="+s.URL, "SHOAL_API_KEY="+s.Key)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Eventually waits until ok returns nil.
func Eventually(tb testing.TB, limit time.Duration, what string, ok func() error) {
	tb.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("did not come true within %s: %s: %v", limit, what, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}
