// Package cli is the command line: sandboxes, processes and files as a person or a script drives them.
//
// It is a customer of the API like any other and must not know anything of the server but sdk/go. What a command prints
// on stdout is its result, in a table for people or as the API's objects with -o json; everything else goes to stderr.
// Exit codes are part of the interface: see exit.go. Start reading at command.go, then run.go.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Options is what the command line is built from.
type Options struct {
	// Version and Commit say which program this is.
	Version, Commit string
	Stdin           io.Reader
	Stdout, Stderr  io.Writer
	// Getenv reads the environment; nil means the process's own.
	Getenv func(string) string
	// Extra are commands that only the program itself can have, such as serve and doctor.
	Extra []*cobra.Command
}

// app is what the commands of one invocation share.
type app struct {
	version, commit string
	in              io.Reader
	out, err        io.Writer
	getenv          func(string) string
	// lookup is getenv that tells a variable that is empty from one that is not there.
	lookup func(string) (string, bool)
	// defaultDir is the data directory that is looked at if none is named.
	defaultDir string

	// The flags that every command has.
	output  string
	url     string
	dataDir string
	caFile  string
	tenant  string
}

// New returns the command shoal with all its commands. Errors come back from Execute as they are: Main prints them and
// turns them into exit codes.
func New(opts Options) *cobra.Command {
	a := &app{
		version: opts.Version, commit: opts.Commit,
		in: opts.Stdin, out: opts.Stdout, err: opts.Stderr, getenv: opts.Getenv,
		defaultDir: defaultDataDir,
	}
	if a.in == nil {
		a.in = os.Stdin
	}
	if a.out == nil {
		a.out = os.Stdout
	}
	if a.err == nil {
		a.err = os.Stderr
	}
	a.lookup = func(k string) (string, bool) { v := a.getenv(k); return v, v != "" }
	if a.getenv == nil {
		a.getenv, a.lookup = os.Getenv, os.LookupEnv
	}
	if a.version == "" {
		a.version = "unknown"
	}
	if a.commit == "" {
		a.commit = "unknown"
	}
	if dir := a.getenv("SHOAL_DATA_DIR"); dir != "" { // as the server has it
		a.defaultDir = dir
	}
	return a.root(opts.Extra)
}

// root assembles the command tree.
func (a *app) root(extra []*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "shoal COMMAND",
		Short: "Sandboxes for AI agents",
		Long: `Shoal gives every AI agent a computer of its own: sandboxes in which code that nobody has read may run.

'shoal serve' starts a server on this machine; the other commands talk to it. They find it in this order:
  1. --url and --data-dir
  2. SHOAL_URL and SHOAL_API_KEY
  3. the file cli.json in the configuration directory (~/.config/shoal): {"url": "…", "api_key": "…", "ca_file": "…"}
  4. the local data directory (SHOAL_DATA_DIR, else /var/lib/shoal), whose admin.key only root can read
So on the server's own machine call them as root (sudo), or set SHOAL_API_KEY.

With -o json results are the API's objects; streams, and lists that may be long, are one object in a line. Commands that only do
something print of each thing what came of it: [{"sandbox": "lab", "done": true}]. What has one form has no -o json and says so: output
on its way (logs, shell, exec -t, cp to -), config, completion and tour.`,
		Example: `  shoal run -- python3 -c 'print(6*7)'
  shoal create --name lab --ttl 2h
  shoal exec lab -- uname -a
  shoal rm lab`,
		Version:           a.version + " (" + a.commit + ")",
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(printUsage)
	root.SetHelpCommand(helpCommand())
	addFlags(a, root)
	root.Flags().BoolP("version", "v", false, "show this program's version; 'shoal version' shows the server's too")

	for _, g := range []cobra.Group{
		{ID: groupSandbox, Title: "Sandboxes:"}, {ID: groupInside, Title: "Inside a sandbox:"}, {ID: groupServer, Title: "Server:"},
	} {
		root.AddGroup(&g)
	}
	root.AddCommand(commands(a)...)
	for _, c := range extra {
		if c.GroupID == "" {
			c.GroupID = groupServer
		}
		root.AddCommand(c)
	}
	checkArguments(root)
	return root
}

// commands are all but those that only the program itself can have.
func commands(a *app) []*cobra.Command {
	return []*cobra.Command{
		a.runCommand(), mapCommand(a),
		a.createCommand(), forkCommand(a),
		a.lsCommand(),
		a.getCommand(),
		whyCommand(a),
		a.setCommand(), stopCommand(a), wakeCommand(a), restoreCommand(a), resetCommand(a),
		a.rmCommand(),
		a.execCommand(),
		a.shellCommand(),
		attachCommand(a),
		a.cpCommand(),
		filesCommand(a),
		diffCommand(a),
		signCommand(a),
		a.logsCommand(),
		a.killCommand(),
		a.templateCommand(), checkpointCommand(a),
		registryCommand(a),
		operationCommand(a),
		keyCommand(a),
		tenantCommand(a),
		quotaCommand(a),
		auditCommand(a),
		dialectCommand(a),
		caCommand(a),
		a.eventsCommand(), usageCommand(a),
		a.versionCommand(),
		a.completionCommand(),
		a.tourCommand(),
		a.referenceCommand(),
	}
}

// addFlags adds the flags that every command has.
func addFlags(a *app, root *cobra.Command) {
	p := root.PersistentFlags()
	p.StringVarP(&a.output, "output", "o", outputTable, "`format` of results: table or json")
	p.StringVar(&a.url, "url", "", "the server's `address`, such as http://127.0.0.1:8700 (default: SHOAL_URL, cli.json, then the data directory's)")
	p.StringVar(&a.dataDir, "data-dir", "", "the data `directory` of a server on this machine, for its address and admin key (default: SHOAL_DATA_DIR, else "+defaultDataDir+")")
	p.StringVar(&a.caFile, "ca-file", "", "trust the certificates in this `file` too, such as that of 'shoal ca' (default: SHOAL_CA_FILE, cli.json, then the data directory's)")
	p.StringVar(&a.tenant, "tenant", "", "the `tenant` that the command is for, by id or name; only the operator's key may name another than its own (default: SHOAL_TENANT)")
	_ = root.MarkPersistentFlagFilename("ca-file")
	_ = root.RegisterFlagCompletionFunc("tenant", a.complete().tenants(1))
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputTable, outputJSON}, cobra.ShellCompDirectiveNoFileComp))
	_ = root.MarkPersistentFlagDirname("data-dir")
}

// The groups of commands in the help.
const (
	groupSandbox = "sandbox"
	groupInside  = "inside"
	groupServer  = "server"
)

// Main runs the command line with args and returns the exit code. The end of ctx interrupts a command. It prints the error, if any, in one plain line.
func Main(ctx context.Context, args []string, opts Options) int {
	root := New(opts) //nolint:contextcheck // Commands get their context from ExecuteContext.
	root.SetArgs(args)
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd {
		plainFlags(root)
	}
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return exit.code
	}
	// It may name a file of a sandbox's.
	text := printableLines(strings.TrimRight(explain(err), "\n"))
	fmt.Fprintf(root.ErrOrStderr(), "shoal: %s\n", text)
	return exitCode(err)
}
