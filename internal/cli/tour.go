package cli

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"shoal/api"
	shoal "shoal/sdk/go"
)

//go:embed tour
var tourFiles embed.FS

func (a *app) tourCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "tour",
		Short:   "Show what Shoal does, in about a minute",
		GroupID: groupServer, Annotations: map[string]string{Offline: "data-dir"},
		Long: `Start a server of its own, show four things with timings, and take everything away again: code in a sandbox, files in
and out, a runaway loop and its deadline, and a server killed while its sandbox goes on. Needs root.

The data directory is a new one below /var/tmp, deleted at the end. One that you name with --data-dir is kept, so that
the next tour doesn't have to make the template again.

The exit code is 0 only if everything was as promised.`,
		Example: `  sudo shoal tour
  sudo shoal tour --data-dir /var/tmp/shoal-tour`,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.url != "" {
				return usage(c, "the tour starts a server of its own and takes no --url")
			}
			if a.json() {
				return usage(c, "the tour is for people and has no json")
			}
			if os.Geteuid() != 0 {
				return errors.New("the tour starts a server, which needs root: sudo shoal tour")
			}
			ctx, stop := signal.NotifyContext(c.Context(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
			defer stop()
			return a.tour(ctx)
		},
	}
}

// tour is one guided tour. Its sandboxes and its server are gone when run returns.
type tour struct {
	out    io.Writer
	server *tourServer
	client *shoal.Client
	// made are the sandboxes to delete at the end.
	made []string
}

func (a *app) tour(ctx context.Context) (err error) {
	server, err := newTourServer(a.dataDir)
	if err != nil {
		return err
	}
	t := &tour{out: a.out, server: server}
	defer func() {
		if err != nil && ctx.Err() == nil {
			if tail := server.logTail(); tail != "" {
				fmt.Fprintf(a.err, "\nThe end of the server's log:\n%s\n", tail)
			}
		}
		err = errors.Join(err, t.cleanUp(context.WithoutCancel(ctx)))
		if err == nil {
			fmt.Fprint(a.out, "\nThat was the tour. Your own server: sudo shoal serve, and then: sudo shoal run -- python3 -c 'print(6*7)'\n")
		}
	}()
	fmt.Fprintf(a.out, "Shoal tour: four things in about a minute. All of it lives in %s.\n", server.dir)
	if err := t.startServer(ctx, newProgress(a.err)); err != nil {
		return err
	}
	for i, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"Code that nobody has read, in a sandbox of its own", t.showKernel},
		{"A CSV goes in, a chart comes out", t.showChart},
		{"A runaway loop meets its deadline", t.showDeadline},
		{"The server is killed, its sandbox goes on", t.showRestart},
	} {
		t.say("\n%d. %s", i+1, step.title)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("step %d (%s) was not as promised: %w", i+1, strings.ToLower(step.title), err)
		}
	}
	return nil
}

func (t *tour) say(format string, args ...any) { fmt.Fprintf(t.out, format+"\n", args...) }

// quote prints what a sandbox printed.
func (t *tour) quote(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		t.say("     | %s", printable(strings.TrimRight(line, "\n")))
	}
}

// startServer starts the server and waits for its first template.
func (t *tour) startServer(ctx context.Context, p *progress) error {
	defer p.clear()
	begin := time.Now()
	client, err := t.server.start(ctx)
	if err != nil {
		return err
	}
	t.client = client
	t.say("\n0. A server and a template")
	t.say("   shoal serve answers at %s after %s.", client.BaseURL, duration(time.Since(begin)))
	begin = time.Now()
	if err := awaitTemplate(ctx, client, defaultTemplate, p); err != nil {
		return err
	}
	p.clear()
	tmpl, err := client.Templates().Get(ctx, defaultTemplate)
	if err != nil {
		return err
	}
	if spent := time.Since(begin); spent > time.Second {
		t.say("   Template %s (%s, %d packages) was made from %s in %s, once.",
			tmpl.Name, bytesText(tmpl.SizeBytes), len(tmpl.Packages), tmpl.Source, duration(spent))
	} else {
		t.say("   Template %s (%s, %d packages) is there.", tmpl.Name, bytesText(tmpl.SizeBytes), len(tmpl.Packages))
	}
	return nil
}

// sandbox makes a sandbox and says how long that took.
func (t *tour) sandbox(ctx context.Context) (string, time.Duration, error) {
	begin := time.Now()
	sb, err := t.client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{Labels: map[string]string{"tour": "yes"}})
	if err != nil {
		return "", 0, err
	}
	t.made = append(t.made, sb.ID)
	return sb.ID, time.Since(begin), nil
}

// script puts one of the tour's files into a sandbox.
func (t *tour) script(ctx context.Context, sandbox, name string) error {
	text, err := tourFiles.ReadFile("tour/" + name)
	if err != nil {
		return err
	}
	_, err = t.client.Files(sandbox).Write(ctx, "/tmp/tour/"+name, strings.NewReader(string(text)), shoal.WriteOptions{Parents: true})
	return err
}

// python runs one of the tour's files and wants it to return 0.
func (t *tour) python(ctx context.Context, sandbox, name string) (string, time.Duration, error) {
	if err := t.script(ctx, sandbox, name); err != nil {
		return "", 0, err
	}
	begin := time.Now()
	r, err := t.client.Execs(sandbox).Run(ctx, shoal.ExecRequest{Cmd: []string{"python3", name}, Cwd: "/tmp/tour"})
	if err != nil {
		return "", 0, err
	}
	if r.Outcome != api.OutcomeExited || r.ExitCode == nil || *r.ExitCode != 0 {
		return "", 0, fmt.Errorf("%s ended as %s: %s", name, r.Outcome, r.StderrBytes())
	}
	return string(r.StdoutBytes()), time.Since(begin), nil
}

// showKernel runs code that looks around, and shows that the sandbox is gone afterwards.
func (t *tour) showKernel(ctx context.Context) error {
	begin := time.Now()
	id, made, err := t.sandbox(ctx)
	if err != nil {
		return err
	}
	kernel, ran, err := t.python(ctx, id, "kernel.py")
	if err != nil {
		return err
	}
	network, _, err := t.python(ctx, id, "network.py")
	if err != nil {
		return err
	}
	deleting := time.Now()
	if err := t.client.Sandboxes().Delete(ctx, id); err != nil {
		return err
	}
	gone := time.Since(deleting)
	if _, err := t.client.Sandboxes().Get(ctx, id); shoal.ErrorCode(err) != shoal.CodeNotFound {
		return errors.Join(errors.New("the sandbox is still there after its delete"), err)
	}
	host := hostKernel()
	t.quote(kernel + "internet   " + network)
	t.say("   Its kernel is gVisor, a program of ours; the machine's own, %s, it never sees.", host)
	t.say("   Made in %s, ran in %s, deleted in %s, %s in all.", duration(made), duration(ran), duration(gone), duration(time.Since(begin)))
	switch {
	case !strings.Contains(kernel, "gvisor"):
		return errors.New("the kernel that the code saw is not gVisor")
	case host != "" && strings.Contains(kernel, host):
		return errors.New("the code saw the machine's own kernel")
	case !strings.HasPrefix(network, "refused"):
		return errors.New("the code reached the network")
	}
	return nil
}

// hostKernel returns the release of the machine's kernel.
func hostKernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// showChart copies a file in, has it summed up, and copies the drawing out.
func (t *tour) showChart(ctx context.Context) error {
	id, _, err := t.sandbox(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := t.script(ctx, id, "sales.csv"); err != nil {
		return err
	}
	summary, ran, err := t.python(ctx, id, "chart.py")
	if err != nil {
		return err
	}
	r, err := t.client.Files(id).Read(ctx, "/tmp/tour/chart.svg")
	if err != nil {
		return err
	}
	svg, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	t.quote(summary)
	t.say("   sales.csv in, chart.py %s, chart.svg (%s) out: %s in all.", duration(ran), bytesText(int64(len(svg))), duration(time.Since(begin)))
	if !strings.Contains(summary, "total 5031.50, best month Jun") {
		return errors.New("the sum is wrong")
	}
	if !strings.HasPrefix(string(svg), "<svg ") || strings.Count(string(svg), "<rect ") != 6 {
		return errors.New("the chart that came out is not the one that was drawn")
	}
	return nil
}

// deadline is what the runaway loop gets.
const deadline = 1.0

// showDeadline runs a loop that never ends by itself.
func (t *tour) showDeadline(ctx context.Context) error {
	id := t.made[len(t.made)-1]
	seconds := deadline
	begin := time.Now()
	r, err := t.client.Execs(id).Run(ctx, shoal.ExecRequest{
		Shell: "python3 -c 'while True: pass' & python3 -c 'while True: pass'", TimeoutSeconds: &seconds,
	})
	if err != nil {
		return err
	}
	spent := time.Since(begin)
	if r.Outcome != api.OutcomeTimeout {
		return fmt.Errorf("the outcome is %s and not timeout", r.Outcome)
	}
	if spent < time.Second || spent > 5*time.Second {
		return fmt.Errorf("it took %s for a deadline of 1 s", duration(spent))
	}
	var exit *exitError
	if errors.As(outcomeError(shoal.Exec{Outcome: r.Outcome}), &exit); exit.code != exitTimeout {
		return fmt.Errorf("the command line would exit with %d and not with %d", exit.code, exitTimeout)
	}
	if err := t.groupEnds(ctx, id, r.ID); err != nil {
		return err
	}
	t.say("   Two busy loops with a deadline of 1 s: all killed after %s.", duration(spent))
	t.say("   The outcome is %q, never an invented exit code; shoal exec exits with %d.", string(r.Outcome), exitTimeout)
	return nil
}

// groupEnds waits until no process of an exec is left: the kernel takes a moment over what was killed.
func (t *tour) groupEnds(ctx context.Context, sandbox, exec string) error {
	for end := time.Now().Add(2 * time.Second); ; {
		e, err := t.client.Execs(sandbox).Get(ctx, exec)
		if err != nil || e.Processes == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d processes of it are still alive", e.Processes)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// cleanUp deletes the sandboxes, stops the server, and takes away what the tour has made.
func (t *tour) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	begin := time.Now()
	var errs []error
	if t.client != nil && t.server.running() {
		for _, id := range t.made {
			if err := t.client.Sandboxes().Delete(ctx, id); err != nil && shoal.ErrorCode(err) != shoal.CodeNotFound {
				errs = append(errs, fmt.Errorf("delete sandbox %s: %w", id, err))
			}
		}
	}
	errs = append(errs, t.server.stop())
	left, err := t.server.remove(ctx)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	t.say("\nCleaned up in %s: sandboxes deleted, server stopped, %s.", duration(time.Since(begin)), left)
	return nil
}
