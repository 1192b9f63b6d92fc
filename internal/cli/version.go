package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

// versions is what version prints with -o json. Server is absent if none answers.
type versions struct {
	Client shoal.Version  `json:"client"`
	Server *shoal.Version `json:"server,omitempty"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the versions of this program and of the server",
		GroupID: groupServer,
		Long:    `Show the version of this program and, if one answers, of the server.`,
		Example: `  shoal version
  shoal version -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			v := versions{Client: shoal.Version{
				Version: a.version, Commit: a.commit, API: "v1", Go: runtime.Version(), Os: runtime.GOOS, Arch: runtime.GOARCH,
			}}
			client, err := a.client()
			if err == nil {
				var s shoal.Version
				client.MaxRetries = -1 // Whether one answers now is the question.
				if s, err = client.Version(c.Context()); err == nil {
					v.Server = &s
				}
			}
			if a.json() {
				return a.printJSON(v)
			}
			t := newTable(a.out, "OF", "VERSION", "COMMIT", "GO", "PLATFORM")
			line := func(what string, v shoal.Version) {
				t.row(what, v.Version, v.Commit, v.Go, v.Os+"/"+v.Arch)
			}
			line("program", v.Client)
			if v.Server != nil {
				line("server", *v.Server)
			}
			if ferr := t.flush(); ferr != nil {
				return ferr
			}
			if err != nil {
				fmt.Fprintf(a.err, "shoal: %s\n", explain(err))
			}
			return nil
		},
	}
}
