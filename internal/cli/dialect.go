package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

func dialectCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:        "dialect COMMAND",
		Short:      "Point other vendors' clients at the server",
		GroupID:    groupServer,
		SuggestFor: []string{"dialects", "sdk", "vendor"},
		Long: `Point other vendors' clients at the server: it speaks their protocols on the same sandboxes, so a program keeps its SDK
and changes its environment.`,
		Example: `  shoal dialect ls
  eval "$(shoal dialect e2b env --new-key laptop)"`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(dialectLsCommand(a))
	for _, v := range vendors() {
		c.AddCommand(vendorCommand(a, v))
	}
	return c
}

func dialectLsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List the protocols that the server speaks",
		Long: `List the protocols that the server speaks beside its own: where, below which domain, which of the vendor's templates is
which of ours, and the clients that it is tested with.`,
		Example: `  shoal dialect ls
  shoal dialect ls -o json | jq '.[].clients'`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			list, err := client.Dialects(c.Context())
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(list)
			}
			return printDialects(a.out, list)
		},
	}
}

func printDialects(out io.Writer, list []shoal.Dialect) error {
	t := newTable(out, "NAME", "URL", "DOMAIN", "TEMPLATES", "TESTED WITH")
	for _, d := range list {
		t.row(d.Name, d.URL, d.Domain, joinPairs(d.Templates), strings.Join(d.Clients, ", "))
	}
	return t.flush()
}

func vendorCommand(a *app, v vendor) *cobra.Command {
	c := &cobra.Command{
		Use:     v.dialect + " COMMAND",
		Short:   "Point clients of " + v.title + " at the server",
		Long:    "Point clients of " + v.title + " at the server.",
		Example: fmt.Sprintf("  eval \"$(shoal dialect %s env --new-key laptop)\"", v.dialect),
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(envCommand(a, v))
	return c
}

func envCommand(a *app, v vendor) *cobra.Command {
	var (
		e           = environment{vendor: v}
		key, newKey string
		expires     lifetime
	)
	c := &cobra.Command{
		Use:   "env",
		Short: "Print what clients of " + v.title + " want in their environment",
		Long: fmt.Sprintf(`Print what clients of %s want in their environment, as commands for a shell that say what each is for.

The key is one of --key, or a new one with --new-key, which takes the admin key. Without either it is left out. Each call with
--new-key makes another, which is good until 'shoal key rm' deletes it or --expires has passed.

With --tls clients come by host name over https, as they do at their vendor's; the server must be configured with domain and
tls_listen. If its certificate is from its own authority, that is written into two files in the configuration directory
(~/.config/shoal), alone and together with those that this system trusts, and the clients are told of them. Below sudo that
is root's: who isn't root calls it without, with SHOAL_API_KEY set and --key.`, v.title),
		Example: fmt.Sprintf(`  eval "$(shoal dialect %[1]s env --new-key laptop)"
  shoal dialect %[1]s env --tls --key "$KEY" >>.env`, v.dialect),
		RunE: func(c *cobra.Command, _ []string) error {
			f := c.Flags()
			switch {
			case f.Changed("key") && f.Changed("new-key"):
				return usage(c, "--key and --new-key don't go together")
			case expires > 0 && newKey == "":
				return usage(c, "--expires goes with --new-key")
			case f.Changed("key") && key == "", f.Changed("new-key") && newKey == "":
				return usage(c, "the key is empty: say one, or leave the flag out")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if err := e.find(c.Context(), a, client); err != nil {
				return err
			}
			if newKey != "" { // when all else is known to be well
				made, err := client.Keys().Create(c.Context(), shoal.CreateKeyRequest{
					Name: newKey, Dialect: v.dialect, ExpiresInSeconds: expires.seconds(),
				})
				if err != nil {
					return err
				}
				key = made.Secret
			}
			e.add(v.keys(key)...)
			return e.print(a, key != "")
		},
	}
	f := c.Flags()
	f.BoolVar(&e.tls, "tls", false, "by host name over https, below the server's domain")
	f.StringVar(&key, "key", "", "the `KEY` that the clients use")
	f.StringVar(&newKey, "new-key", "", "make a key of this `NAME` for them")
	f.Var(&expires, "expires", "how long the new key is good for, such as 12h or 90d (default: until it is deleted)")
	return c
}

// environment is what is to be in the clients' environment.
type environment struct {
	vendor vendor
	tls    bool
	where  string
	set    []variable
}

// variable is one variable. An empty value takes it away: what was set before must not win.
type variable struct{ name, value, about string }

func (e *environment) add(list ...variable) { e.set = append(e.set, list...) }

// find asks the server where the clients find it.
func (e *environment) find(ctx context.Context, a *app, client *shoal.Client) error {
	list, err := client.Dialects(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(d shoal.Dialect) bool { return d.Name == e.vendor.dialect })
	if i < 0 {
		return fmt.Errorf("this server doesn't speak %s's protocol: 'shoal dialect ls' shows what it speaks", e.vendor.title)
	}
	d := list[i]
	switch {
	case e.tls && d.Domain == "":
		return errors.New("this server has no domain: set domain and tls_listen in its configuration, or leave out --tls")
	case e.tls:
		e.where = d.DomainURL
	case d.URL == "":
		return fmt.Errorf("this server has %s.listen off: use --tls, or switch it on", d.Name)
	case isLoopback(d.URL) && !isLoopback(client.BaseURL):
		return fmt.Errorf("the server takes clients of %s at %s, on its own machine only: use --tls, or forward the port with ssh -L", e.vendor.title, d.URL)
	default:
		e.where = d.URL
	}
	e.add(e.vendor.variables(d, e.tls)...)
	if !d.OwnCA || !strings.HasPrefix(e.where, "https:") {
		return nil
	}
	ca, err := client.CA(ctx)
	if err != nil {
		return err
	}
	files, err := writeTrust(a, ca)
	if err != nil {
		return err
	}
	e.add(e.vendor.trust(files)...)
	if user := a.getenv("SUDO_USER"); user != "" && user != "root" {
		_, err = fmt.Fprintf(a.err, "shoal: the clients of %s can't read %s, which is root's: for them call this without sudo, with SHOAL_API_KEY set and --key\n", user, files.own)
	}
	return err
}

// exports is an environment as -o json prints it.
type exports struct {
	Set   map[string]string `json:"set"`
	Unset []string          `json:"unset"`
}

func (e *environment) print(a *app, withKey bool) error {
	if a.json() {
		out := exports{Set: map[string]string{}, Unset: []string{}}
		for _, v := range e.set {
			if v.value == "" {
				out.Unset = append(out.Unset, v.name)
			} else {
				out.Set[v.name] = v.value
			}
		}
		return a.printJSON(out)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Clients of %s at %s\n", e.vendor.title, e.where)
	if !withKey {
		fmt.Fprintf(&b, "# There is no %s in it: --new-key NAME makes one, --key KEY takes yours.\n", e.vendor.key)
	}
	about := ""
	for _, v := range e.set {
		if v.about != "" && v.about != about {
			fmt.Fprintf(&b, "# %s\n", v.about)
		}
		about = v.about
		if v.value == "" {
			fmt.Fprintf(&b, "unset %s\n", v.name)
		} else {
			fmt.Fprintf(&b, "export %s=%s\n", v.name, shellWord(v.value))
		}
	}
	_, err := io.WriteString(a.out, b.String())
	return err
}

// shellWord writes a value as one word of a shell.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
