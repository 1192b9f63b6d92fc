package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// processFlags say how a process is started: the flags that run and exec share.
type processFlags struct {
	env     []string
	user    string
	workdir string
	timeout lifetime
	stdin   bool
	tty     bool
	detach  bool
	tag     string
	// entrypoint says that the arguments are for what the template runs.
	entrypoint bool
	// leavable says that the process may be left behind: its sandbox stays.
	leavable bool
}

// add declares the flags that both commands have.
func (p *processFlags) add(c *cobra.Command) {
	p.addCommon(c)
	f := c.Flags()
	f.Var(&p.timeout, "timeout", "kill it and everything it started after this `duration`, such as 90s; the exit code is 124 then")
	f.BoolVar(&p.entrypoint, "entrypoint", false, "run the template's entrypoint, with CMD and ARG as its arguments; so it is without CMD")
	f.BoolVarP(&p.stdin, "interactive", "i", false, "pass our standard input on (else its input is empty)")
	f.BoolVarP(&p.tty, "tty", "t", false, "give it our terminal, for programs that are used by hand; passes our input on, too")
}

// addCommon declares the flags that shell has too.
func (p *processFlags) addCommon(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVarP(&p.env, "env", "e", nil, "environment variable `KEY=VALUE`, or KEY to pass on our own if it is set here; may be repeated")
	f.StringVarP(&p.user, "user", "u", "", "the `USER` who runs it: name or number, optionally :group (default: the template's)")
	f.StringVarP(&p.workdir, "workdir", "w", "", "absolute working directory `PATH` (default: the template's)")
}

// request makes the API's request.
func (a *app) request(p *processFlags, cmd []string) (shoal.ExecRequest, error) {
	env, err := pairs(p.env, "-e", a.lookup)
	if err != nil {
		return shoal.ExecRequest{}, err
	}
	req := shoal.ExecRequest{
		Cmd: cmd, Env: env, User: p.user, Cwd: p.workdir, Tty: p.tty, Tag: p.tag,
		StdinOpen: p.stdin || p.tty,
	}
	if p.timeout > 0 {
		seconds := time.Duration(p.timeout).Seconds()
		req.TimeoutSeconds = &seconds
	}
	if p.tty {
		a.terminalRequest(&req)
	}
	return req, nil
}

// ofTemplate has what the template says run, if that is wanted or nothing else is.
func (p *processFlags) ofTemplate(req *shoal.ExecRequest) {
	req.Entrypoint = p.entrypoint || len(req.Cmd) == 0
}

// terminalRequest tells the process what terminal it has.
func (a *app) terminalRequest(req *shoal.ExecRequest) {
	if rows, cols, ok := terminalSize(a.out); ok {
		req.Rows, req.Cols = &rows, &cols
	}
	if _, given := req.Env["TERM"]; !given {
		if name := a.getenv("TERM"); name != "" {
			if req.Env == nil {
				req.Env = map[string]string{}
			}
			req.Env["TERM"] = name
		}
	}
}

// process runs a process in a sandbox with our input, output and signals, and returns its exit code as an error.
func (a *app) process(ctx context.Context, c *shoal.Client, sandbox string, p *processFlags, req shoal.ExecRequest) error {
	execs := c.Execs(sandbox)
	if p.detach {
		e, err := execs.Start(ctx, req)
		if err != nil {
			return startError(withinSandbox(ctx, c, sandbox, err))
		}
		if a.json() {
			return a.printJSON(e)
		}
		fmt.Fprintln(a.out, e.ID)
		return nil
	}
	if a.json() {
		return a.collected(ctx, c, sandbox, p, req)
	}
	f := &follower{execs: execs, out: a.out, err: a.err, tty: req.Tty, escapes: p.leavable}
	if req.StdinOpen {
		f.in = a.in
	}
	return followProcess(ctx, a, c, sandbox, f, func(ctx context.Context) (shoal.ExecStream, error) {
		s, err := execs.Stream(ctx, req)
		return s, startError(withinSandbox(ctx, c, sandbox, err))
	})
}

// followProcess follows the process that open starts or finds, on our terminal if it has one, and returns its exit code as an error.
func followProcess(
	ctx context.Context, a *app, c *shoal.Client, sandbox string, f *follower, open func(context.Context) (shoal.ExecStream, error),
) error {
	restore := func(error) {}
	if f.tty {
		cooked, err := raw(a.in)
		if err != nil {
			return err
		}
		defer cooked() // against a panic
		screen := newScreen(f.out)
		f.out, f.terminal = screen, f.out
		restore = func(err error) {
			if err != nil {
				screen.restore()
			}
			cooked()
		}
	}
	// Until it runs, an interrupt is for us; from then on for the process, and the stream must live on to see what it does.
	long, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	release := context.AfterFunc(ctx, cancel)
	stream, err := open(long)
	release()
	if err != nil {
		return err
	}
	e, err := f.run(long, stream)
	broken := err
	if e.Outcome == api.OutcomeLost { // no program inside could tidy up
		broken = errLeft
	}
	restore(broken) // Now: why a sandbox ended may take a moment to learn.
	if f.sandbox != "" {
		sandbox = f.sandbox // A name may be another's meanwhile.
	}
	if errors.Is(err, errLeft) {
		fmt.Fprintf(a.err, "shoal: left; the process goes on. Back to it: shoal attach %s %s\n", sandbox, f.id)
		return nil
	}
	if err != nil {
		return brokenOff(ctx, c, sandbox, err)
	}
	return endError(ctx, c, sandbox, e)
}

// maxCollectedInput bounds the input of a process whose result is printed as one object: it travels in the request.
const maxCollectedInput = 512 << 10

// collected runs a process and prints its result as the API's object.
func (a *app) collected(ctx context.Context, c *shoal.Client, sandbox string, p *processFlags, req shoal.ExecRequest) error {
	if p.tty {
		return errors.New("-t and -o json don't go together: a terminal's output is not a result")
	}
	if p.stdin {
		data, err := io.ReadAll(io.LimitReader(a.in, maxCollectedInput+1))
		if err != nil {
			return fmt.Errorf("read input: %w", err)
		}
		if len(data) > maxCollectedInput {
			return fmt.Errorf("with -o json the input may have at most %s: leave -o json out, or copy the input in as a file",
				bytesText(maxCollectedInput))
		}
		req.StdinOpen = false
		text, rawText := api.Text(data)
		if rawText != nil {
			req.StdinRaw = rawText
		} else {
			req.Stdin = text
		}
	}
	r, err := c.Execs(sandbox).Run(ctx, req)
	if err != nil {
		return startError(withinSandbox(ctx, c, sandbox, err))
	}
	if err := a.printJSON(r); err != nil {
		return err
	}
	return endError(ctx, c, sandbox, shoal.Exec{
		Outcome: r.Outcome, ExitCode: r.ExitCode, Signal: r.Signal, OutOfMemory: r.OutOfMemory,
	})
}
