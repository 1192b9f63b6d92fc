package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) execCommand() *cobra.Command {
	var p processFlags
	c := &cobra.Command{
		Use:        "exec [flags] SANDBOX -- [CMD] [ARG…]",
		Short:      "Run a process in a sandbox",
		GroupID:    groupInside,
		SuggestFor: []string{"execute"},
		Long: `Run a process in a sandbox and pass its output on. CMD is a program and not a line for a shell: for pipes and variables say
sh -c '…'. Its input is empty unless -i passes ours on. Flags of exec come before SANDBOX. Without CMD it runs what the
sandbox's template says, its entrypoint and cmd; with --entrypoint CMD and its arguments are the entrypoint's.

The exit code is the process's own. Otherwise: 124 it ran into --timeout, 125 its end isn't known or the command itself
failed, 126 the program isn't executable, 127 it isn't there, 128+n signal n ended it.

Interrupt (Ctrl-C) goes to the process; the second one kills it and all that it started. If the server is restarted
meanwhile, output goes on where it broke off. With -t everything you type goes to the process, but for ~. after Enter, which
leaves it running: see 'shoal attach'.`,
		Example: `  shoal exec lab -- python3 -c 'print(6*7)'
  echo 'select 1' | shoal exec -i lab -- sqlite3 /tmp/db
  shoal exec -it lab -- python3
  shoal exec --timeout 30s -e DEBUG=1 -w /tmp lab -- ./build.sh
  id=$(shoal exec -d lab -- python3 -u -m http.server); shoal logs -f lab $id
  shoal exec -d --tag web lab -- ./serve.sh; shoal logs -f --tag web lab
  shoal exec -dt --tag work lab -- bash; shoal attach --tag work lab
  shoal exec -o json lab -- uname -r`,
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 && args[1] != "--" && strings.HasPrefix(args[1], "-") {
				return usage(c, "%s comes after SANDBOX, where CMD is: flags come before it, as in 'shoal exec %s … %s -- CMD'", args[1], args[1], args[0])
			}
			req, err := a.request(&p, afterDash(args[1:]))
			if err != nil {
				return usage(c, "%v", err)
			}
			p.ofTemplate(&req)
			client, err := a.client()
			if err != nil {
				return err
			}
			p.leavable = true
			return a.process(c.Context(), client, args[0], &p, req)
		},
	}
	p.add(c)
	c.Flags().BoolVarP(&p.detach, "detach", "d", false, "don't wait: print the exec's id and let it go on; with -i or -t its input is open for 'shoal attach'")
	c.Flags().StringVar(&p.tag, "tag", "", "a `WORD` to find it by, as in 'shoal logs --tag WORD SANDBOX'; several execs may have the same")
	c.Flags().SetInterspersed(false)
	return c
}

// afterDash takes away the -- that separates our arguments from the program's.
func afterDash(args []string) []string {
	if len(args) > 0 && args[0] == "--" {
		return args[1:]
	}
	return args
}

// loginShell starts the best shell that the sandbox has.
const loginShell = `if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi`

func (a *app) shellCommand() *cobra.Command {
	var p processFlags
	c := &cobra.Command{
		Use:        "shell SANDBOX",
		Short:      "Open a shell in a sandbox",
		GroupID:    groupInside,
		SuggestFor: []string{"ssh", "enter", "sh", "login"},
		Long: `Open a shell in a sandbox: bash if it is there, else sh. On a terminal everything you type goes to the shell, also
Ctrl-C; end it with Ctrl-D or exit, or leave it running with ~. after Enter and go on with 'shoal attach'. (~? lists these
keys, ~~ types a ~.) Closing the window hangs it up, as it does any shell. If the server is restarted meanwhile the shell goes
on where it was. Without a terminal the shell reads its script from our input.`,
		Example: `  shoal shell lab
  shoal shell -u root lab
  shoal shell --tag work lab; shoal attach --tag work lab
  shoal shell lab <setup.sh`,
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
			p.leavable = true
			return a.process(c.Context(), client, args[0], &p, req)
		},
	}
	p.addCommon(c)
	c.Flags().StringVar(&p.tag, "tag", "", "a `WORD` to find it by, as in 'shoal attach --tag WORD SANDBOX'")
	return c
}

func (a *app) killCommand() *cobra.Command {
	var signal string
	c := &cobra.Command{
		Use:     "kill SANDBOX EXEC…",
		Short:   "End processes in a sandbox",
		GroupID: groupInside,
		Long: `End execs, which are processes that run, exec or shell started, with everything that they started themselves. Without
--signal they are killed at once and their outcome is canceled; with it they get the signal and may react to it.
'shoal logs --list SANDBOX' lists them. With -o json it prints of each what came of it.`,
		Example: `  shoal kill lab e4r5t6y7u8i9o0p1a2s3df
  shoal kill -s TERM lab e4r5t6y7u8i9o0p1a2s3df`,
		ValidArgsFunction: a.complete().execs(),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			execs := client.Execs(args[0])
			return each(a, "exec", args[1:], func(id string) error {
				end := execs.Cancel
				if signal != "" {
					end = func(ctx context.Context, id string) error { return execs.Signal(ctx, id, signalName(signal)) }
				}
				return aboutExec(c.Context(), client, args[0], id, end(c.Context(), id))
			})
		},
	}
	c.Flags().StringVarP(&signal, "signal", "s", "", "the `SIGNAL` to send, such as TERM (default: none, they are killed)")
	return c
}
