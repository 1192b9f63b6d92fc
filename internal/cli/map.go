package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	shoal "shoal/sdk/go"
)

const (
	// maxItems bounds how many sandboxes one map may make, and maxItem the bytes of an item, which becomes an argument.
	maxItems = 100_000
	maxItem  = 64 << 10
	// exitSomeFailed is map's exit code when some of its commands did not succeed.
	exitSomeFailed = 1
)

const mapHelp = `Run the command once for each item, each in a sandbox of its own, several at a time, and say what came of each.

The items are the lines of --each FILE (- is our input; empty lines are left out), or the numbers 1 to N of -n N. {} in the command stands
for the item, which is also in the environment as SHOAL_ITEM, with its number from 1 in SHOAL_INDEX. In what a shell reads, as in
sh -c '…', write "$SHOAL_ITEM" and not {}: the item is put in as it is, and a shell would run what it says. Each sandbox gets the files
of --in, and is deleted when its command has ended.

Without --dir the output of each command is printed when it has ended, at most the first 1 MiB of each stream, and the table of results
goes to stderr. With --dir D all output goes to D/000001.out and D/000001.err and so on, and what --out names is fetched into D/000001/. D is
made, or empty; with --force what an earlier run left there stays, but for the results of the same numbers.
With -o json a line is printed for each item as soon as it has ended.

Unless --parallel is given, as many run at once as the server takes, up to 32: when it has no room, fewer are started. --retry N starts
an item again, in a new sandbox, if its end was lost because its sandbox or the server went away: never if the command has ended.

Interrupted, it starts no more, deletes its sandboxes and says what was done. If it is killed, its sandboxes are deleted after an hour, or
ten minutes after --timeout. A command that may take longer than an hour needs a --timeout.

An item has succeeded if its command returned 0 and all that --out names was fetched: one that returned 0 without making such a file has
failed, and its line says so. The exit code is 0 if every item succeeded and 1 if not; 125 says that map itself failed or was interrupted,
or that the first sandbox was refused for what they are all to be, such as a template that isn't there: then no more are tried.`

// mapFlags are those of map.
type mapFlags struct {
	sandbox     sandboxFlags
	count       int
	each        string
	parallel    int
	timeout     lifetime
	env         []string
	user, dir   string
	in, out     []string
	retry       int
	force       bool
	given       func(string) bool
	copies      runCopies
	environment map[string]string
}

func (m *mapFlags) add(a *app, c *cobra.Command) {
	m.sandbox.add(a, c)
	f := c.Flags()
	m.given = f.Changed
	f.IntVarP(&m.count, "count", "n", 0, "run it `N` times")
	f.StringVar(&m.each, "each", "", "run it for each line of `FILE`; - is our input")
	f.IntVar(&m.parallel, "parallel", 0, "run `N` at once (default: as many as the server takes, up to 32)")
	f.Var(&m.timeout, "timeout", "kill a command after this `duration`, such as 90s")
	f.StringArrayVarP(&m.env, "env", "e", nil, "environment variable `KEY=VALUE`, or KEY to pass on our own if it is set here; may be repeated")
	f.StringVarP(&m.user, "user", "u", "", "the `USER` who runs it (default: the template's)")
	f.StringVar(&m.dir, "dir", "", "keep output and what is fetched in this `directory`, which is made, or empty")
	f.BoolVar(&m.force, "force", false, "also if the directory of --dir is not empty: results of the same numbers are replaced")
	f.StringArrayVar(&m.in, "in", nil, "copy a file or directory in first, `FILE[:PATH]`; may be repeated")
	f.StringArrayVar(&m.out, "out", nil, "fetch a file or directory afterwards, `PATH`; needs --dir; may be repeated")
	f.IntVar(&m.retry, "retry", 0, "start an item whose end was lost again, up to `N` times")
	_ = c.MarkFlagFilename("each")
	_ = c.MarkFlagDirname("dir")
	f.SetInterspersed(false)
}

func (m *mapFlags) check(a *app) (err error) {
	switch {
	case m.given("count") && m.given("each"):
		return errors.New("give either -n or --each: the lines of its file say how often")
	case !m.given("count") && !m.given("each"):
		return errors.New("say how often: -n N, or --each FILE")
	case m.given("count") && (m.count < 1 || m.count > maxItems):
		return fmt.Errorf("-n is from 1 to %d", maxItems)
	case m.given("parallel") && (m.parallel < 1 || m.parallel > 1000):
		return errors.New("--parallel is from 1 to 1000")
	case m.retry < 0 || m.retry > 100:
		return errors.New("--retry is from 0 to 100")
	case m.force && m.dir == "":
		return errors.New("--force is for a --dir")
	case len(m.out) > 0 && m.dir == "":
		return errors.New("--out needs a --dir to fetch to")
	}
	if m.copies, err = parseRunCopies(m.in, nil); err != nil {
		return err
	}
	if m.copies.stdin {
		return errors.New("our input can't go into many sandboxes: give --in a file")
	}
	m.environment, err = pairs(m.env, "-e", a.lookup)
	return err
}

// items returns what the command is run for.
func (m *mapFlags) items(in io.Reader) (list []string, err error) {
	if m.each == "" {
		for i := range m.count {
			list = append(list, strconv.Itoa(i+1))
		}
		return list, nil
	}
	if m.each != stdio {
		f, err := os.Open(m.each)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxItem)
	for lines.Scan() {
		item := strings.TrimSuffix(lines.Text(), "\r")
		if item == "" {
			continue
		}
		if strings.ContainsRune(item, 0) {
			return nil, fmt.Errorf("line %d has a NUL, which no argument can have", len(list)+1)
		}
		if list = append(list, item); len(list) > maxItems {
			return nil, fmt.Errorf("there are more than %d lines", maxItems)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line has more than %s", bytesText(maxItem))
	}
	return list, lines.Err()
}

// mapCommand is map.
func mapCommand(a *app) *cobra.Command {
	var m mapFlags
	c := &cobra.Command{
		Use: "map [flags] -- CMD [ARG…]", Short: "Run a command many times, each in a sandbox of its own", GroupID: groupSandbox, Long: mapHelp,
		Example: `  shoal map -n 20 -- python3 -c 'import random; print(random.random())'
  shoal map --each urls.txt --parallel 8 --timeout 1m --dir results -- ./fetch {}
  seq 100 | shoal map --each - --in job.py --retry 2 -o json -- python3 job.py {}
  shoal map --each seeds --dir out --out result.json -- ./simulate --seed {}`,
		RunE: func(c *cobra.Command, args []string) error {
			req, err := m.sandbox.request()
			if err == nil {
				err = m.check(a)
			}
			if err != nil {
				return usage(c, "%v", err)
			}
			if err := (runner{a}).checkIn(c.Context(), m.copies.in); err != nil {
				return err
			}
			items, err := m.items(a.in)
			if err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			life := runLife
			if m.timeout > 0 {
				life = time.Duration(m.timeout) + runMargin
			}
			req.TTLSeconds = new(int64(life.Seconds()))
			if err := m.makeDir(); err != nil {
				return err
			}
			return (&mapper{app: a, client: client, flags: &m, sandbox: req, cmd: args, pace: newPace()}).run(c.Context(), items)
		},
	}
	m.add(a, c)
	return c
}

func (m *mapFlags) makeDir() error {
	if m.dir == "" {
		return nil
	}
	if err := os.MkdirAll(m.dir, 0o777); err != nil {
		return err
	}
	there, err := os.ReadDir(m.dir)
	if err == nil && len(there) > 0 && !m.force {
		return fmt.Errorf("--dir %s is not empty, and old results would be among the new: name another directory, or say --force", m.dir)
	}
	return err
}

// mapper is one use of map.
type mapper struct {
	*app
	client  *shoal.Client
	flags   *mapFlags
	sandbox shoal.CreateSandboxRequest
	cmd     []string
	pace    pace
	places  *places
	refusal refusal
}

// run runs the command for all items and reports.
func (m *mapper) run(ctx context.Context, items []string) error {
	signal.Ignore(unix.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	all, end := context.WithCancel(ctx)
	defer end()
	m.refusal.end = end
	m.places = newPlaces(m.flags.parallel)
	report := newMapReport(m, len(items))
	done := make(chan mapResult)
	go func() { // ended by the loop below, which reads to the end
		defer close(done)
		m.start(all, items, report.begun, done)
	}()
	for r := range done {
		if m.refusal.reason() == nil {
			report.add(r)
		}
	}
	if err := m.refusal.reason(); err != nil {
		report.show.clear()
		return err
	}
	if err := report.finish(); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: its sandboxes are deleted")
	case report.failed > 0:
		return &exitError{code: exitSomeFailed}
	}
	return nil
}
