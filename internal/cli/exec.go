package cli

import (
	"github.com/spf13/cobra"
)

func (a *app) execCommand() *cobra.Command {
	var p processFlags
	c := &cobra.Command{
		Use:     "exec [flags] SANDBOX -- CMD [ARG…]",
		Short:   "Run a process in a sandbox",
		GroupID: groupInside,
		Long: `Run a process in a sandbox and pass its output on.

The exit code is the process's own. Otherwise: 124 it ran into --timeout, 125 its end isn't known or the command itself
failed, 126 the program isn't executable, 127 it isn't there, 128+n signal n ended it.

Interrupt (Ctrl-C) goes to the process; the second one kills it and all that it started. If the server is restarted
meanwhile, output goes on where it broke off.`,
		Example: `  shoal exec lab -- python3 -c 'print(6*7)'
  echo 'select 1' | shoal exec -i lab -- sqlite3 /tmp/db
  shoal exec -it lab -- python3
  shoal exec --timeout 30s -e DEBUG=1 -w /tmp lab -- ./build.sh
  id=$(shoal exec -d lab -- python3 -m http.server); shoal logs -f lab $id
  shoal exec -o json lab -- uname -r`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			if p.detach && (p.stdin || p.tty) {
				return usage(c, "-d doesn't go together with -i and -t: nobody would be there")
			}
			req, err := a.request(&p, afterDash(args[1:]))
			if err != nil {
				return usage(c, "%v", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			return a.process(c.Context(), client, args[0], &p, req)
		},
	}
	p.add(c)
	c.Flags().BoolVarP(&p.detach, "detach", "d", false, "don't wait: print the exec's id and let it go on")
	c.Flags().SetInterspersed(false)
	return c
}

// afterDash takes away the -- that separates our arguments from the program's.
func afterDash(args []string) []string {
	if len(args) > 1 && args[0] == "--" {
		return args[1:]
	}
	return args
}

// loginShell starts the best shell that the sandbox has.
const loginShell = `if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi`

func (a *app) shellCommand() *cobra.Command {
	var p processFlags
	c := &cobra.Command{
		Use:     "shell SANDBOX",
		Short:   "Open a shell in a sandbox",
		GroupID: groupInside,
		Long: `Open a shell in a sandbox: bash if it is there, else sh. On a terminal everything you type goes to the shell, also
Ctrl-C; leave it with Ctrl-D or exit. Without a terminal the shell reads its script from our input.`,
		Example: `  shoal shell lab
  shoal shell -u root lab
  shoal shell lab <setup.sh`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			if a.json() {
				return usage(c, "a shell has no result to print as json: use exec -o json")
			}
			p.stdin = true
			p.tty = isTerminal(a.in) && isTerminal(a.out)
			req, err := a.request(&p, nil)
			if err != nil {
				return usage(c, "%v", err)
			}
			req.Shell = loginShell
			client, err := a.client()
			if err != nil {
				return err
			}
			return a.process(c.Context(), client, args[0], &p, req)
		},
	}
	f := c.Flags()
	f.StringArrayVarP(&p.env, "env", "e", nil, "environment variable KEY=VALUE, or KEY to pass on our own; may be repeated")
	f.StringVarP(&p.user, "user", "u", "", "who runs it: name or number, optionally :group (default: the template's user)")
	f.StringVarP(&p.workdir, "workdir", "w", "", "absolute working directory (default: the template's)")
	return c
}

func (a *app) killCommand() *cobra.Command {
	var signal string
	c := &cobra.Command{
		Use:     "kill SANDBOX EXEC…",
		Short:   "End processes in a sandbox",
		GroupID: groupInside,
		Long: `End execs with everything that they started. Without --signal they are killed at once and their outcome is canceled;
with it they get the signal and may react to it. 'shoal logs --list SANDBOX' lists execs.`,
		Example: `  shoal kill lab e4r5t6y7u8i9o0p1a2s3df
  shoal kill -s TERM lab e4r5t6y7u8i9o0p1a2s3df`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.complete().execs(),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			execs := client.Execs(args[0])
			return each(args[1:], func(id string) error {
				if signal == "" {
					return execs.Cancel(c.Context(), id)
				}
				return execs.Signal(c.Context(), id, signalName(signal))
			})
		},
	}
	c.Flags().StringVarP(&signal, "signal", "s", "", "the signal to send, such as TERM (default: kill)")
	return c
}
