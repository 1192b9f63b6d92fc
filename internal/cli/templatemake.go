package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

// makeFlags are the flags that import and create have alike.
type makeFlags struct {
	tags, env     []string
	user, workdir string
	entrypoint    string
	cmd           []string
	detach        bool
}

func (m *makeFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&m.tags, "tag", nil, "point this `TAG` to the new version; may be repeated")
	f.StringArrayVarP(&m.env, "env", "e", nil, "default environment variable `KEY=VALUE`, or KEY to take our own; may be repeated")
	f.StringVarP(&m.user, "user", "u", "", "the default `USER`: name or number, optionally :group (default: the source's)")
	f.StringVarP(&m.workdir, "workdir", "w", "", "the default working directory `PATH` (default: the source's)")
	f.StringVar(&m.entrypoint, "entrypoint", "", "the `PROGRAM` that a run without a command starts; '' for none (default: the source's)")
	f.StringArrayVar(&m.cmd, "cmd", nil, "an `ARG` of that program; may be repeated (default: the source's)")
	f.BoolVarP(&m.detach, "detach", "d", false, "don't wait: print the operation's id and let it go on")
}

// request makes the part of a request that both have.
func (m *makeFlags) request(a *app, c *cobra.Command, name string) (shoal.CreateTemplateRequest, error) {
	req := shoal.CreateTemplateRequest{Name: name, Tags: m.tags}
	var err error
	if req.Env, err = pairs(m.env, "-e", a.lookup); err != nil {
		return req, err
	}
	if m.user != "" {
		req.User = &m.user
	}
	if m.workdir != "" {
		req.Workdir = &m.workdir
	}
	if c.Flags().Changed("entrypoint") {
		req.Entrypoint = &[]string{}
		if m.entrypoint != "" {
			req.Entrypoint = &[]string{m.entrypoint}
		}
	}
	if c.Flags().Changed("cmd") {
		req.Cmd = &m.cmd
	}
	return req, nil
}

func templateImportCommand(a *app) *cobra.Command {
	var (
		m             makeFlags
		username      string
		passwordStdin bool
		platform      string
	)
	c := &cobra.Command{
		Use:   "import NAME SOURCE",
		Short: "Make a template of a container image",
		Long: `Make the next version of a template of a container image. SOURCE is

  an image in a registry, such as alpine, ghcr.io/owner/app:1.2 or host:5000/app@sha256:…
  a file on this machine: a tar in the OCI layout or of 'docker save', plain or compressed
  a directory on this machine in the OCI layout
  - for such a tar on our input

What begins with / or . and what ends in .tar, .tar.gz, .tgz or .tar.zst is a file or directory; it is uploaded. A registry is
asked with --username, and the password in SHOAL_REGISTRY_PASSWORD or on our input, neither of which is kept; else with the login
that 'shoal registry login' keeps for it; else anonymously. It waits until the template is ready, and shows how far it is. If it is interrupted, the import goes on.`,
		Example: `  shoal template import app ghcr.io/owner/app:1.2 --tag stable
  docker save app | shoal template import app -
  shoal template import app ./layout
  pass registry | shoal template import app registry.example/app --username ci --password-stdin`,
		RunE: func(c *cobra.Command, args []string) error {
			req, err := m.request(a, c, args[0])
			if err != nil {
				return usage(c, "%v", err)
			}
			req.Platform, req.Username = platform, username
			local := isLocal(args[1])
			switch {
			case local && (username != "" || passwordStdin):
				return usage(c, "--username and --password-stdin are for a registry, and %s is on this machine", args[1])
			case passwordStdin, username != "":
				req.Password, err = readLogin(a, username, passwordStdin)
			}
			if err != nil {
				return usage(c, "%v", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if !local {
				req.FromImage = args[1]
			} else if req.FromUpload, err = upload(c.Context(), a, client, args[1]); err != nil {
				return err
			}
			return makeTemplate(c.Context(), a, client, req, m.detach)
		},
	}
	m.add(c)
	f := c.Flags()
	f.StringVar(&username, "username", "", "a `USER` of the registry, with the password in SHOAL_REGISTRY_PASSWORD")
	f.BoolVar(&passwordStdin, "password-stdin", false, "take the password, or without --username a token, from our input")
	f.StringVar(&platform, "platform", "", "which `OS/ARCH` of an image for several (default: the server's)")
	return c
}

// maxPassword bounds what is read of a password.
const maxPassword = 64 << 10

func readPassword(in io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxPassword))
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", errors.New("there is no password on our input")
	}
	return text, nil
}

// isLocal reports whether a source is a file or directory of this machine's.
func isLocal(source string) bool {
	if source == stdio || strings.HasPrefix(source, ".") || filepath.IsAbs(source) {
		return true
	}
	for _, suffix := range []string{".tar", ".tar.gz", ".tgz", ".tar.zst"} {
		if strings.HasSuffix(source, suffix) {
			return true
		}
	}
	return false
}

func templateCreateCommand(a *app) *cobra.Command {
	var (
		m    makeFlags
		from string
	)
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a template of the files of a sandbox or checkpoint",
		Long: `Make the next version of a template of the files of a sandbox that runs, is stopped or has failed: what you have installed and prepared in it.
The sandbox goes on. What is its machine's own is left out: the machine id, host name and SSH host keys, and all in /run,
/tmp and /var/tmp. What its programs write meanwhile may be in it or not: make a checkpoint first, and give its id, if that matters.

Secrets in the sandbox's files are in the template too.`,
		Example: `  shoal template create warm --from lab
  shoal template create warm --from lab --workdir /work --tag stable
  shoal template create warm --from c2h3e4c5k6p7o8i9n0t1xy`,
		RunE: func(c *cobra.Command, args []string) error {
			req, err := m.request(a, c, args[0])
			if err == nil && from == "" {
				err = errors.New("say of which sandbox or checkpoint: --from SANDBOX")
			}
			if err != nil {
				return usage(c, "%v", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if req.FromSandbox, req.FromCheckpoint, err = templateSource(c.Context(), client, from); err != nil {
				return err
			}
			return withinSandbox(c.Context(), client, from, makeTemplate(c.Context(), a, client, req, m.detach))
		},
	}
	c.Flags().StringVar(&from, "from", "", "the `SANDBOX`, or the id of the checkpoint, whose files it has")
	_ = c.RegisterFlagCompletionFunc("from", a.complete().sandboxes(1))
	m.add(c)
	return c
}

// idLength is how long an id is: no checkpoint is known by another word.
const idLength = 22

// templateSource finds out whether a word is a sandbox or a checkpoint.
func templateSource(ctx context.Context, client *shoal.Client, from string) (sandbox, checkpoint string, err error) {
	_, err = client.Sandboxes().Get(ctx, from)
	if !isMissing(err) {
		return from, "", err
	}
	if len(from) != idLength {
		return "", "", aboutSandbox(from, err)
	}
	if _, err = client.Checkpoints().Get(ctx, from); isMissing(err) {
		err = &notFoundError{"sandbox or checkpoint", from, "'shoal ls' and 'shoal checkpoint ls' show all", err}
	}
	return "", from, err
}

// makeTemplate begins to make a template, and waits for it unless that is not wanted. It prints name@version, or the operation's id.
func makeTemplate(ctx context.Context, a *app, client *shoal.Client, req shoal.CreateTemplateRequest, detach bool) error {
	op, err := client.Templates().Create(ctx, req)
	if err != nil {
		return err
	}
	sayHidden(ctx, a, client, req.Name)
	if detach {
		if a.json() {
			return a.printJSON(op)
		}
		fmt.Fprintln(a.out, op.ID)
		return nil
	}
	if op, err = followOperation(ctx, a, client, op.ID); err != nil {
		return err
	}
	if err := shoal.OperationFailure(op); err != nil {
		return err
	}
	if a.json() {
		t, err := client.Templates().Get(ctx, op.Result["template_id"])
		if err != nil {
			return err
		}
		return a.printJSON(t)
	}
	fmt.Fprintln(a.out, op.Result["template"])
	return nil
}

// sayHidden warns that a name is also one of the server's templates, which it leads to no more once the tenant's own is ready.
func sayHidden(ctx context.Context, a *app, client *shoal.Client, name string) {
	for t, err := range client.Templates().Find(ctx, shoal.TemplatesOptions{Name: name}) {
		if err != nil {
			return // It is only a warning.
		}
		if t.Owner == ownerSystem {
			fmt.Fprintf(a.err, "shoal: a template that came with the server is called %s too: from now on that name means yours; the server's is had by its id, %s\n", name, t.ID)
			return
		}
	}
}

// upload sends a file, a directory or our input, and returns the upload's id.
func upload(ctx context.Context, a *app, client *shoal.Client, source string) (string, error) {
	r, err := openArchive(a, source)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	var m meter
	m.files.Store(1) // One archive, whatever is in it.
	stop := m.show(newProgress(a.err))
	up, err := client.Templates().Upload(ctx, m.count(r))
	stop()
	if rerr := r.failure(); rerr != nil {
		err = rerr // Why the body broke off is known here.
	}
	return up.ID, err
}

// openArchive opens what is to be uploaded.
func openArchive(a *app, source string) (*archiveReader, error) {
	if source == stdio {
		return &archiveReader{ReadCloser: io.NopCloser(a.in)}, nil
	}
	info, err := os.Stat(source)
	if err != nil {
		return nil, notThere(a.local(), source, err)
	}
	if !info.IsDir() {
		f, err := os.Open(source)
		if err != nil {
			return nil, err
		}
		return &archiveReader{ReadCloser: f}, nil
	}
	if _, err := os.Stat(filepath.Join(source, "index.json")); err != nil {
		return nil, fmt.Errorf("%s is no directory in the OCI layout: it has no index.json", source)
	}
	return tarOf(source), nil
}
