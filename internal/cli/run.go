package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	shoal "shoal/sdk/go"
)

// A sandbox of run is deleted by run. These bound its life if run itself is killed.
const (
	runLife = time.Hour
	// runMargin is what is added to --timeout for copying in and out.
	runMargin = 10 * time.Minute
)

// cleanupTime bounds the deletion of a sandbox by a command that was interrupted.
const cleanupTime = 15 * time.Second

func (a *app) runCommand() *cobra.Command {
	var (
		s       sandboxFlags
		p       processFlags
		in, out []string
	)
	c := &cobra.Command{
		Use:     "run [flags] -- [CMD] [ARG…]",
		Short:   "Run a command in a sandbox of its own",
		GroupID: groupSandbox,
		Long: `Make a sandbox, copy files in, run the command, copy files out and delete the sandbox, whatever happens.

--in FILE[:PATH] copies a file or directory in before the start: by default into the working directory, under its own
name. --out PATH[:FILE] copies one out after the end, also if the command failed. - stands for our input or output.
Paths that don't start with / are below the working directory.

Without CMD it runs what the template says, its entrypoint and cmd; with --entrypoint CMD and its arguments are the entrypoint's.

The sandbox is also deleted if run itself is killed: after an hour, or ten minutes after --timeout. A command that may take
longer than an hour needs a --timeout.

The exit code is the command's own. Otherwise: 124 it ran into --timeout, 125 its end isn't known or run itself failed,
126 the program isn't executable, 127 it isn't there, 128+n signal n ended it.`,
		Example: `  shoal run -- python3 -c 'print(6*7)'
  shoal run --in data.csv --in chart.py --out chart.svg -- python3 chart.py data.csv
  shoal run --timeout 10s -- sh -c 'while :; do :; done'; echo $?
  cat job.sh | shoal run -i --template base -- sh
  shoal run --out result.json:- -- ./job >result.json`,
		RunE: func(c *cobra.Command, args []string) error {
			req, err := s.request()
			var exec shoal.ExecRequest
			if err == nil {
				exec, err = a.request(&p, args)
				p.ofTemplate(&exec)
			}
			var copies runCopies
			if err == nil {
				copies, err = parseRunCopies(in, out)
			}
			if err == nil && copies.stdin && p.stdin {
				err = errors.New("our input can't be both --in - and -i")
			}
			if err != nil {
				return usage(c, "%v", err)
			}
			if err := (runner{a}).checkIn(c.Context(), copies.in); err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			life := runLife
			if p.timeout > 0 {
				life = time.Duration(p.timeout) + runMargin
			}
			seconds := int64(life.Seconds())
			req.TTLSeconds = &seconds
			return runner{a}.run(c.Context(), client, req, &p, exec, copies)
		},
	}
	s.add(a, c)
	p.add(c)
	c.Flags().StringArrayVar(&in, "in", nil, "copy a file or directory in first, `FILE[:PATH]`; may be repeated")
	c.Flags().StringArrayVar(&out, "out", nil, "copy a file or directory out afterwards, `PATH[:FILE]`; may be repeated")
	c.Flags().SetInterspersed(false)
	return c
}

// runner is one use of run.
type runner struct{ *app }

// runCopies is what run copies in and out.
type runCopies struct {
	in, out []pathPair
	stdin   bool
}

// pathPair is one copy; to is empty where the name of from is kept.
type pathPair struct{ from, to string }

func parseRunCopies(in, out []string) (runCopies, error) {
	var r runCopies
	for _, text := range in {
		p, err := parsePair(text)
		if err != nil {
			return r, fmt.Errorf("--in takes FILE[:PATH], not %q", text)
		}
		if p.from == stdio {
			if p.to == "" || r.stdin {
				return r, errors.New("--in - needs a path, as in --in -:data.csv, and can be given once")
			}
			r.stdin = true
		}
		r.in = append(r.in, p)
	}
	for _, text := range out {
		p, err := parsePair(text)
		if err != nil || p.from == stdio {
			return r, fmt.Errorf("--out takes PATH[:FILE], not %q", text)
		}
		r.out = append(r.out, p)
	}
	return r, nil
}

// parsePair splits at the last colon.
func parsePair(text string) (pathPair, error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		i = len(text)
	}
	p := pathPair{from: text[:i]}
	if i < len(text) {
		p.to = text[i+1:]
		if p.to == "" {
			return p, errors.New("nothing after the colon")
		}
	}
	if p.from == "" {
		return p, errors.New("nothing before the colon")
	}
	return p, nil
}

// run makes a sandbox, uses it and deletes it, also when it is interrupted.
func (a runner) run(
	ctx context.Context, c *shoal.Client, req shoal.CreateSandboxRequest, p *processFlags, exec shoal.ExecRequest, copies runCopies,
) (err error) {
	// An output that nobody reads any more must not end us before the sandbox is deleted.
	signal.Ignore(unix.SIGPIPE)
	// A name of our own: if the answer to create is lost, the sandbox can still be found and deleted.
	req.Name = "run-" + strings.ToLower(rand.Text()[:12])
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		derr := c.Sandboxes().Delete(ctx, req.Name)
		if derr != nil && shoal.ErrorCode(derr) != shoal.CodeNotFound && unreachable(err) == "" {
			fmt.Fprintf(a.err, "shoal: sandbox %s is left to its ttl: %s\n", req.Name, explain(derr))
		}
	}()
	around, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	sb, err := a.create(around, c, req)
	if err != nil {
		return err
	}
	if err := a.copyIn(around, c, sb, p.workdir, copies.in); err != nil {
		return err
	}
	// From here on signals are the process's: see follower.
	result := a.process(ctx, c, sb.ID, p, exec)
	var exit *exitError
	if result != nil && !errors.As(result, &exit) {
		return result
	}
	if err := a.copyOut(around, c, sb, p.workdir, copies.out); err != nil {
		if result != nil && exit.code != 0 {
			fmt.Fprintf(a.err, "shoal: %s\n", printableLines(explain(err)))
			return result
		}
		return err
	}
	return result
}

// checkIn looks whether what is to be copied in is there, before anything is made for it.
func (a runner) checkIn(ctx context.Context, list []pathPair) error {
	here := a.local()
	for _, p := range list {
		if p.from == stdio {
			continue
		}
		e, err := here.stat(ctx, p.from)
		if err != nil {
			return notThere(here, p.from, err)
		}
		if err := copyable(here.label(p.from), e); err != nil {
			return err
		}
	}
	return nil
}

// base returns the directory below which relative paths of a sandbox are.
func (a runner) base(ctx context.Context, c *shoal.Client, sb shoal.Sandbox, workdir string) (string, error) {
	if workdir != "" {
		return workdir, nil
	}
	t, err := c.Templates().Get(ctx, sb.TemplateID)
	if err != nil {
		return "", err
	}
	return t.Workdir, nil
}

func (a runner) copyIn(ctx context.Context, c *shoal.Client, sb shoal.Sandbox, workdir string, list []pathPair) error {
	if len(list) == 0 {
		return nil
	}
	base, err := a.base(ctx, c, sb, workdir)
	if err != nil {
		return err
	}
	for _, p := range list {
		to := p.to
		if to == "" {
			to = path.Base(path.Clean(p.from))
		}
		if !path.IsAbs(to) {
			to = path.Join(base, to) + trailingSlash(to)
		}
		if err := a.copy(ctx, a.local(), p.from, unnamed(c, sb.ID), to); err != nil {
			return err
		}
	}
	return nil
}

func (a runner) copyOut(ctx context.Context, c *shoal.Client, sb shoal.Sandbox, workdir string, list []pathPair) error {
	if len(list) == 0 {
		return nil
	}
	base, err := a.base(ctx, c, sb, workdir)
	if err != nil {
		return err
	}
	for _, p := range list {
		from := p.from
		if !path.IsAbs(from) {
			from = path.Join(base, from)
		}
		to := p.to
		if to == "" {
			to = path.Base(from)
			if to == "/" || to == "." || to == ".." {
				return fmt.Errorf("--out %s: say where to, as in %s:DIR", p.from, p.from)
			}
			to = "." + string(os.PathSeparator) + to
		}
		if err := a.copy(ctx, unnamed(c, sb.ID), from, a.local(), to); err != nil {
			return err
		}
	}
	return nil
}

func trailingSlash(p string) string {
	if strings.HasSuffix(p, "/") {
		return "/"
	}
	return ""
}
