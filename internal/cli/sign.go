package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

func signCommand(a *app) *cobra.Command {
	var (
		put, parents bool
		expires      = lifetime(time.Hour)
		most         byteSize
		user         string
	)
	c := &cobra.Command{
		Use:        "sign SANDBOX:/PATH",
		Short:      "Make a URL for one file that works without a key",
		GroupID:    groupInside,
		SuggestFor: []string{"presign", "share", "url"},
		Long: `Print a URL that reads one file of a sandbox, or with --put writes it, and works without an API key: whoever has it can use
it, any number of times, until it expires. It ends before that with the sandbox, and with the key that signed it. It opens what
the path leads to when it is used; the file needn't exist yet.`,
		Example: `  curl -o out.zip "$(shoal sign lab:/root/out.zip)"
  curl -T data.csv "$(shoal sign lab:/root/data.csv --put --expires 10m --max-size 100M)"`,
		ValidArgsFunction: a.complete().places(1, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(c *cobra.Command, args []string) error {
			at := parseLocation(args[0])
			if at.sandbox == "" {
				return usage(c, "%s is not in a sandbox: write SANDBOX:/PATH", args[0])
			}
			if err := at.check(); err != nil {
				return usage(c, "%v", err)
			}
			if !put && (parents || most != 0 || user != "") {
				return usage(c, "--max-size, --user and --parents are for --put")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			signed, err := client.Files(at.sandbox).Sign(c.Context(), at.path, shoal.SignOptions{
				Write: put, For: time.Duration(expires), MaxBytes: int64(most), User: user, Parents: parents,
			})
			if err != nil {
				return withinSandbox(c.Context(), client, at.sandbox, err)
			}
			if a.json() {
				return a.printJSON(signed)
			}
			_, err = fmt.Fprintln(a.out, signed.URL)
			return err
		},
	}
	f := c.Flags()
	f.BoolVar(&put, "put", false, "the URL writes the file, with PUT")
	f.Var(&expires, "expires", "how long the URL holds, such as 10m or 2d, at most 7d")
	f.Var(&most, "max-size", "how much may be written, such as 100M (default no limit)")
	f.StringVar(&user, "user", "", "who owns what is written, a name or number (default the template's user)")
	f.BoolVar(&parents, "parents", false, "a write makes missing directories above the file")
	return c
}
