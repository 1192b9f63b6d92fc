package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

// manyFlags are those of create for more than one, for one that may be there, and for what it starts from.
type manyFlags struct {
	count int
	reuse bool
	given func(flag string) bool
}

func (m *manyFlags) add(a *app, c *cobra.Command, from *string) {
	f := c.Flags()
	m.given = f.Changed
	f.IntVar(&m.count, "count", 0, "make `N` of them, up to 1000, and print the id of each as soon as it runs")
	f.StringVar(from, "from", "", "the `CHECKPOINT` it starts from, in place of a template: see 'shoal checkpoint ls'")
	_ = c.RegisterFlagCompletionFunc("from", a.complete().checkpoints(-1))
	f.BoolVar(&m.reuse, "get-or-create", false, "take the sandbox that has the name, if there is one")
}

func (m *manyFlags) check(r shoal.CreateSandboxRequest) error {
	switch {
	case r.FromCheckpoint != "" && r.Template != "":
		return errors.New("a sandbox starts from a template or from a checkpoint: give --template or --from")
	case m.given("count") && (m.count < 1 || m.count > 1000):
		return errors.New("--count is from 1 to 1000")
	case m.reuse && m.count > 0:
		return errors.New("--get-or-create is for one sandbox: leave out --count")
	case m.reuse && r.Name == "":
		return errors.New("--get-or-create needs a --name")
	}
	return nil
}

// creator makes sandboxes.
type creator struct {
	*app
	client *shoal.Client
}

// one makes a sandbox, or with reuse takes the one that has its name.
func (a creator) one(ctx context.Context, r shoal.CreateSandboxRequest, reuse bool) (shoal.Sandbox, error) {
	if !reuse {
		return a.create(ctx, a.client, r)
	}
	return a.built(ctx, r.Template, func() (shoal.Sandbox, error) {
		sb, _, err := a.client.Sandboxes().GetOrCreate(ctx, r.Name, r)
		return sb, err
	})
}

// many makes several and prints each as soon as it runs.
func (a creator) many(ctx context.Context, count int, r shoal.CreateSandboxRequest) error {
	req := shoal.CreateSandboxesRequest{Count: count, NamePrefix: r.Name, Sandbox: r}
	req.Sandbox.Name = ""
	made := 0
	var failed []string
	for res, err := range a.client.Sandboxes().CreateMany(ctx, req) {
		switch {
		case err != nil && made > 0:
			return fmt.Errorf("%s; %d of %d were made by then and stay: 'shoal ls' shows them", explain(err), made, count)
		case err != nil:
			return err
		case res.Err != nil:
			failed = append(failed, fmt.Sprintf("number %d: %s", res.Index, explain(res.Err)))
			continue
		}
		made++
		if a.json() {
			if err := a.printLine(res.Sandbox); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintln(a.out, res.Sandbox.ID); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return severalError(append(failed, fmt.Sprintf("%d of %d were made", made, count)))
	}
	return nil
}
