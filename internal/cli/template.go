package cli

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shoal/api"
	shoal "shoal/sdk/go"
)

func (a *app) templateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:        "template COMMAND",
		Short:      "Make and look at what sandboxes start from",
		GroupID:    groupServer,
		SuggestFor: []string{"templates", "image", "images"},
		Long: `Templates are what sandboxes start from. A server makes two at its first start, from its machine's own distribution: minimal,
with python3, and base, with pip, node, npm, git, curl, jq, a compiler and a user with sudo. Make your own of a container
image, or of a sandbox that you have prepared.

Each import or create of a name makes its next version. NAME is the newest that is ready, NAME@3 a version, NAME:TAG what a
tag points to; the id of a version and the digest of its files serve too. Yours come before those of the server of the same name, which then are
had by their ids alone: 'shoal template ls NAME' shows them.`,
		Example: `  shoal template import app ghcr.io/owner/app:1.2
  shoal template import app ./app.tar
  shoal template create warm --from lab
  shoal create --template warm@1`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(templateLsCommand(a), templateGetCommand(a), templateImportCommand(a), templateCreateCommand(a),
		templateTagCommand(a), templateRmCommand(a))
	return c
}

func templateLsCommand(a *app) *cobra.Command {
	var o shoal.TemplatesOptions
	c := &cobra.Command{
		Use: "ls [NAME]", Aliases: []string{"list"},
		Short: "List templates",
		Long: `List the templates that you may start sandboxes from, all versions or those of one name, and how far those are that are being
made.`,
		Example: `  shoal template ls
  shoal template ls --own app`,
		ValidArgsFunction: a.complete().templates,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				o.Name = args[0]
			}
			list := []shoal.Template{}
			for t, err := range client.Templates().Find(c.Context(), o) {
				if err != nil {
					return err
				}
				list = append(list, t)
			}
			if a.json() {
				return a.printJSON(list)
			}
			return printTemplates(a.out, time.Now(), list)
		},
	}
	c.Flags().BoolVar(&o.Own, "own", false, "only your own, not those that came with the server")
	return c
}

func templateGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "get TEMPLATE",
		Short:             "Show a template",
		Long:              `Show a template: where it comes from, its defaults, and with -o json all its packages.`,
		Example:           `  shoal template get minimal`,
		ValidArgsFunction: a.complete().templates,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			t, err := client.Templates().Get(c.Context(), args[0])
			if err != nil {
				return aboutTemplate(args[0], err)
			}
			if a.json() {
				return a.printJSON(t)
			}
			return printTemplate(a.out, t)
		},
	}
}

// aboutTemplate says which template isn't there.
func aboutTemplate(ref string, err error) error {
	if isMissing(err) {
		return &notFoundError{"template", ref, "'shoal template ls' shows all", err}
	}
	return err
}

func templateTagCommand(a *app) *cobra.Command {
	var remove bool
	c := &cobra.Command{
		Use:   "tag TEMPLATE TAG",
		Short: "Point a tag to a version of a template",
		Long: `Point a tag to a version of a template of your own, wherever it pointed before, or take it away with --remove. NAME:latest is
always the newest version and can't be set. Tags are a version's aliases: NAME:TAG serves wherever a template is named. The name
itself has no second one.`,
		Example: `  shoal template tag app@3 stable
  shoal template tag --remove app stable`,
		ValidArgsFunction: a.complete().templates,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if remove {
				ref := args[0] + ":" + args[1]
				return result{Template: args[0], Tag: args[1]}.one(a, aboutTemplate(ref, client.Templates().Untag(c.Context(), args[0], args[1])))
			}
			t, err := client.Templates().Tag(c.Context(), args[0], args[1])
			if err != nil {
				return aboutTemplate(args[0], err)
			}
			if a.json() {
				return a.printJSON(t)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&remove, "remove", false, "take the tag away")
	return c
}

func templateRmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "rm TEMPLATE…", Aliases: []string{"delete"},
		Short:      "Delete templates",
		SuggestFor: []string{"remove"},
		Long: `Delete versions of templates of your own; a bare NAME is all its versions. A version that a sandbox started from is kept: delete that
sandbox first. If one of several can't be deleted, the others are all the same and the exit code is 125.`,
		Example: `  shoal template rm app@2
  shoal template rm app`,
		ValidArgsFunction: a.complete().templates,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			return each(a, "template", args, func(ref string) error {
				return aboutTemplate(ref, client.Templates().Delete(c.Context(), ref))
			})
		},
	}
}

func templateState(t shoal.Template) string {
	switch t.State {
	case api.TemplateStateBuilding:
		return string(t.State) + " " + strconv.Itoa(t.Percent) + " %"
	case api.TemplateStateFailed, api.TemplateStateReady:
	}
	return string(t.State)
}

func printTemplates(out io.Writer, now time.Time, list []shoal.Template) error {
	own := map[string]bool{}
	for _, x := range list {
		own[x.Name] = own[x.Name] || x.Owner != ownerSystem
	}
	t := newTable(out, "NAME", "VERSION", "OWNER", "TAGS", "STATE", "SIZE", "AGE", "USER", "SOURCE")
	for _, x := range list {
		note := x.Source
		switch {
		case x.Failure != "":
			note = x.Failure
		case x.State == api.TemplateStateBuilding:
			note = x.Progress
		}
		size := ""
		if x.SizeBytes > 0 {
			size = bytesText(x.SizeBytes)
		}
		t.row(x.Name, strconv.FormatInt(x.Version, 10), templateOwner(x, own), strings.Join(x.Tags, ","), templateState(x), size, age(now, x.CreatedAt), x.User, note)
	}
	return t.flush()
}

// ownerSystem is the owner of the templates that came with the server.
const ownerSystem = "system"

// templateOwner says whose a template is; of one of the server's whose name the tenant has too, also by which id it can be had.
func templateOwner(x shoal.Template, own map[string]bool) string {
	if x.Owner == ownerSystem && own[x.Name] {
		return x.Owner + ", by " + x.ID
	}
	return x.Owner
}

func printTemplate(out io.Writer, x shoal.Template) error {
	t := newTable(out)
	if x.State != api.TemplateStateBuilding {
		x.Progress = ""
	}
	for _, l := range [][2]string{
		{"name", x.Name},
		{"id", x.ID},
		{"version", strconv.FormatInt(x.Version, 10)},
		{"tags", strings.Join(x.Tags, ", ")},
		{"state", templateState(x)},
		{"progress", x.Progress},
		{"failure", x.Failure},
		{"owner", x.Owner + ", " + x.Visibility},
		{"source", x.Source},
		{"digest", x.Digest},
		{"size", bytesText(x.SizeBytes)},
		{"files", strconv.FormatInt(x.Files, 10)},
		{"user", x.User},
		{"workdir", x.Workdir},
		{"env", joinPairs(x.Env)},
		{"entrypoint", words(x.Entrypoint)},
		{"cmd", words(x.Cmd)},
		{"ports", strings.Join(x.ExposedPorts, ", ")},
		{"packages", strconv.Itoa(x.PackageCount)},
	} {
		if l[1] != "" {
			t.row(l[0], l[1])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(x.Labels)) {
		t.row("label", k+"="+clipRunes(x.Labels[k], 120))
	}
	return t.flush()
}

// words shows a command so that its words can be told apart.
func words(list []string) string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\") {
			out[i] = strconv.Quote(w)
		}
	}
	return strings.Join(out, " ")
}
