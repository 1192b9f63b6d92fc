package cli

import (
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"shoal/api"
	shoal "shoal/sdk/go"
)

func (a *app) templateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:        "template COMMAND",
		Short:      "Look at what sandboxes start from",
		GroupID:    groupServer,
		SuggestFor: []string{"templates", "image", "images"},
		Long: `Look at templates: what sandboxes start from. A server makes two at its first start, from its machine's own distribution:
minimal, with python3, and base, with pip, node, npm, git, curl, jq, a compiler and a user with sudo. They are the only
ones for now.`,
		Example: `  shoal template ls
  shoal template get base -o json | jq -r '.packages[].name'`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short:   "List templates",
		Long:    `List the templates that you may start sandboxes from, and how far those are that are being made.`,
		Example: `  shoal template ls`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			list := []shoal.Template{}
			for t, err := range client.Templates().List(c.Context()) {
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
	}, &cobra.Command{
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
			if shoal.ErrorCode(err) == shoal.CodeNotFound {
				return &notFoundError{"template", args[0], "'shoal template ls' shows all", err}
			}
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(t)
			}
			return printTemplate(a.out, t)
		},
	})
	return c
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
	t := newTable(out, "NAME", "VERSION", "STATE", "SIZE", "AGE", "USER", "SOURCE")
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
		t.row(x.Name, strconv.FormatInt(x.Version, 10), templateState(x), size, age(now, x.CreatedAt), x.User, note)
	}
	return t.flush()
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
		{"state", templateState(x)},
		{"progress", x.Progress},
		{"failure", x.Failure},
		{"owner", x.Owner + ", " + x.Visibility},
		{"source", x.Source},
		{"digest", x.Digest},
		{"size", bytesText(x.SizeBytes)},
		{"user", x.User},
		{"workdir", x.Workdir},
		{"env", joinPairs(x.Env)},
		{"packages", strconv.Itoa(len(x.Packages))},
	} {
		if l[1] != "" {
			t.row(l[0], l[1])
		}
	}
	return t.flush()
}
